"""Formulas for the broker's service units, and how their current values are read.

The value of a unit comes from its files, else from its running processes, else it is systemd's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ...common.units import size_text
from ..facts.model import Facts, NetworkInterface
from ..facts.reading import parse_whole
from ..model import Formula, NotApplicable, Observation, Observer, Target, Value
from ..quantities import format_byte_rate
from ..workload import Workload
from .common import broker_memory
from .limits import INFINITY, UNLIMITED

# systemd.syntax(7): sizes of resource control and of limits count in steps of 1024.
_SIZE_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?")
# pid_max of a 32-bit kernel and of a small machine; the real one is in /proc/sys/kernel/pid_max.
_PID_MAX: Final = 32_768
_DEFAULT_TASKS_PERCENT: Final = 15

Parser = Callable[[Facts, str], Value | None]
Default = Callable[[Facts], Value | None]


def of_unit(formula: Formula) -> Formula:
    """The formula, for a host that has systemd."""

    def where_systemd_is(facts: Facts, workload: Workload, target: str) -> Target | NotApplicable:
        if not facts.files.exists("/etc/systemd"):
            return NotApplicable("this host has no systemd, so that no unit can hold the setting")
        return formula(facts, workload, target)

    where_systemd_is.__doc__ = formula.__doc__
    return where_systemd_is


def memory_for_broker(facts: Facts, workload: Workload, _target: str) -> Target | NotApplicable:
    """the broker's process + write rate × lag window, at most the host's memory; no limit is as good"""
    if facts.cgroup_version == "v1":
        return NotApplicable("control groups of version 1 are not managed by these settings")
    process, process_text = broker_memory(workload)
    window = round(workload.write_bytes_per_s * workload.lag_window_s)
    needed = process + window
    text = (
        f"{process_text} + {format_byte_rate(workload.write_bytes_per_s)} × {workload.lag_window_s:g} s "
        f"= {size_text(needed)}"
    )
    budget = facts.memory.budget_bytes
    if budget is not None and needed > budget:
        return Target(budget, f"{text}, cut to the available {size_text(budget)}", also=UNLIMITED)
    return Target(needed, text, also=UNLIMITED)


def memory_swap_max(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """0 on a host with swap: if swap has to stay, the broker does not use it"""
    if facts.cgroup_version == "v1":
        return NotApplicable("control groups of version 1 cannot exclude one unit from swap")
    if not facts.swaps:
        return NotApplicable(facts.unknown.get("swaps", "no swap is active"))
    return Target(0, f"0, as {len(facts.swaps)} swap {'device is' if len(facts.swaps) == 1 else 'devices are'} active")


def io_weight(_facts: Facts, _workload: Workload, _target: str) -> Target:
    """500: five times the default of other units"""
    return Target(500, "500, 5 × the default of 100")


def cpu_affinity(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """the processors of the memory node with the fastest network interface, on a host with several nodes"""
    if len(facts.numa_nodes) < 2:
        return NotApplicable("fewer than two memory nodes: all processors are equally near")
    attached = [interface for interface in facts.physical_interfaces() if _node_of(interface, facts) is not None]
    if not attached:
        return NotApplicable("no network interface shows its memory node")
    fastest = max(attached, key=lambda interface: interface.speed_bits_per_s or 0)
    cpus = _node_of(fastest, facts) or ()
    return Target(cpu_list(cpus), f"{cpu_list(cpus)}, the processors of node {fastest.numa_node}, near {fastest.name}")


def numa_policy(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """default, and never bind: the policy also limits where page cache is allocated"""
    if len(facts.numa_nodes) < 2:
        return NotApplicable("fewer than two memory nodes: there is no policy to choose")
    return Target("default", "default: memory near the requesting CPU", also=("local", "preferred", "interleave"))


def memlock(_facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """the memory that the broker locks: none for Highwater and Apache Kafka, infinity with mlock or io_uring buffers"""
    return NotApplicable("the broker locks no memory and registers no buffers with io_uring")


def of_property(name: str, parse: Parser, default: Default, show: Callable[[Value], str] = str) -> Observer:
    """An observer of a unit's property: `parse` reads the text of its files, `default` is systemd's default."""

    def observe(facts: Facts, target: str) -> Observation:
        unit = facts.unit(target)
        written = unit.settings.get(name)
        if written is not None:
            value = parse(facts, written)
            return Observation(value, f"{target} has {name}={written}" if value is None else show(value))
        value = default(facts)
        if value is None:
            return Observation(None, f"{name} is not set for {target}, and its default is not known here")
        return Observation(value, f"{show(value)} (default)")

    return observe


def of_limit(name: str, limit: str, default: Default, show: Callable[[Value], str] = str) -> Observer:
    """An observer of a unit's resource limit; the text names running instances that still have another limit."""

    def observe(facts: Facts, target: str) -> Observation:
        unit = facts.unit(target)
        running = {
            instance.name: INFINITY if instance.limits[limit][0] is None else instance.limits[limit][0]
            for instance in unit.instances
            if limit in instance.limits
        }
        written = unit.settings.get(name)
        if written is None:
            for instance, soft in running.items():
                assert soft is not None
                return Observation(soft, f"{show(soft)} (in the running {instance})")
            value = default(facts)
            if value is None:
                return Observation(None, f"{name} is not set for {target}, and its default is not known here")
            return Observation(value, f"{show(value)} (default)")
        value = as_size(facts, written.partition(":")[0])
        if value is None:
            return Observation(None, f"{target} has {name}={written}")
        late = [f"{show(soft)} in {instance}" for instance, soft in running.items() if soft not in (value, None)]
        return Observation(value, f"{show(value)} ({', '.join(late)} until it restarts)" if late else show(value))

    return observe


def as_size(_facts: Facts, text: str) -> Value | None:
    """A count or a number of bytes, with systemd's suffixes; `infinity`; None for anything else."""
    if text == INFINITY:
        return INFINITY
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _SIZE_UNITS[match[2]]) if match else None


def as_memory(facts: Facts, text: str) -> Value | None:
    """A size as `as_size` reads it, or a percentage of the host's memory."""
    percent, total = text.removesuffix("%"), facts.memory.total_bytes
    if text.endswith("%") and percent.isdecimal() and total is not None:
        return int(percent) * total // 100
    return as_size(facts, text)


def as_tasks(facts: Facts, text: str) -> Value | None:
    """A size as `as_size` reads it, or a percentage of the kernel's maximum of processes."""
    percent = text.removesuffix("%")
    if text.endswith("%") and percent.isdecimal():
        return int(percent) * _most_tasks(facts) // 100
    return as_size(facts, text)


def as_number(_facts: Facts, text: str) -> Value | None:
    try:
        return int(text)
    except ValueError:
        return None


def as_word(_facts: Facts, text: str) -> Value | None:
    return text


def by_default(value: Value) -> Default:
    return lambda _facts: value


def default_tasks(facts: Facts) -> Value:
    return _DEFAULT_TASKS_PERCENT * _most_tasks(facts) // 100


def default_processes(facts: Facts) -> Value | None:
    """Half of the kernel's maximum of threads, the limit of the first process (fork_init)."""
    threads = _threads_max(facts)
    return None if threads is None else threads // 2


def show_bytes(value: Value) -> str:
    return size_text(value) if isinstance(value, int) else value


def cpu_list(cpus: Sequence[int]) -> str:
    """Numbers as the kernel lists them: 0-3,8."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _node_of(interface: NetworkInterface, facts: Facts) -> tuple[int, ...] | None:
    """The processors of the interface's memory node; None when it has none."""
    for node in facts.numa_nodes:
        if node.number == interface.numa_node and node.cpus:
            return node.cpus
    return None


def _most_tasks(facts: Facts) -> int:
    """The base of systemd's percentages (its system_tasks_max): the smaller of pid_max and threads-max."""
    pid_max = parse_whole(facts.files.read("/proc/sys/kernel/pid_max").text or "") or _PID_MAX
    return min(pid_max, _threads_max(facts) or pid_max)


def _threads_max(facts: Facts) -> int | None:
    return parse_whole(facts.files.read("/proc/sys/kernel/threads-max").text or "")
