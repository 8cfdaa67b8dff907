"""Reads the effect of a setting where the kernel shows it, beyond the setting's own file.

Values of a process come from /proc/PID and its control group, values of the kernel from its counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..common.units import size_text
from .check import KnobReport
from .facts.model import Facts
from .facts.reading import parse_whole
from .facts.units import Instance
from .model import Value
from .quantities import format_value
from .workload import Workload

_PAGE_BYTES: Final = 4096
# The kernel counts in whole pages, and subtracts reserved ones.
_ROUNDING_PAGES: Final = 2
_CLOCK_TICKS_PER_S: Final = 100  # USER_HZ of every architecture that Linux runs on today


@dataclass(frozen=True)
class Effective:
    """A value in effect, and where it was read."""

    text: str
    by: str = ""
    value: Value | None = None
    """The value for comparison; only for values of a process."""
    fault: str = ""
    """How it differs from the setting's file; empty when it does not."""
    until: bool = False
    """A restart removes the fault."""
    note: str = ""
    name: str = ""
    pid: int = 0


Probe = Callable[[Facts, Workload, KnobReport], Effective | None]


def probe(facts: Facts, workload: Workload, report: KnobReport) -> Effective | None:
    """The effect of a setting on the host; None when only its own file shows it."""
    find = _PROBES.get(report.id)
    return find(facts, workload, report) if find else None


def probe_instance(facts: Facts, name: str, instance: Instance) -> Effective | None:
    """The value of a property in a running unit's main process or control group; None when neither shows it."""
    pid = instance.main_pid
    if name in _LIMITS:
        limit = instance.limits.get(_LIMITS[name])
        if limit is None:
            return None
        soft, hard = ("infinity" if bound is None else bound for bound in limit)
        return Effective(f"{soft}:{hard} in {instance.name}", f"/proc/{pid}/limits", soft, name=instance.name, pid=pid)
    if name == "OOMScoreAdjust":
        value = instance.oom_score_adjust
        text = f"{value} in {instance.name}"
        return (
            None if value is None else Effective(text, f"/proc/{pid}/oom_score_adj", value, name=instance.name, pid=pid)
        )
    if name == "CPUAffinity":
        return _field(facts, instance, "Cpus_allowed_list")
    if name in _GROUP_FILES:
        return _group_file(facts, instance, _GROUP_FILES[name])
    return None


def older_than_files(facts: Facts, pid: int, paths: Sequence[str]) -> bool:
    """Whether a process started before the newest of these files was written; True when that is unknown."""
    files = facts.files
    boot = next((line for line in (files.read("/proc/stat").text or "").splitlines() if line.startswith("btime ")), "")
    booted_s = parse_whole(boot.removeprefix("btime ").strip())
    started_ticks = parse_whole(files.process_started(pid))
    if booted_s is None or started_ticks is None:
        return True
    started = booted_s + started_ticks / _CLOCK_TICKS_PER_S
    written = [time for path in paths if (time := files.modified_s(path)) is not None]
    return not written or started < max(written)


def _dirty_threshold(counter: str) -> Probe:
    def find(facts: Facts, _workload: Workload, report: KnobReport) -> Effective | None:
        lines = (facts.files.read("/proc/vmstat").text or "").splitlines()
        pages = parse_whole(dict(line.split() for line in lines if len(line.split()) == 2).get(counter, ""))
        if pages is None or not isinstance(report.current, int):
            return None
        page_bytes = facts.memory.page_bytes or _PAGE_BYTES
        effective = pages * page_bytes
        by = f"/proc/vmstat {counter}"
        # A percentage refers to available memory, which varies; only a limit in bytes can be compared.
        in_bytes = facts.files.read(f"/proc/sys/{report.id.replace('.', '/')}").text not in (None, "0")
        if in_bytes and abs(effective - report.current) > _ROUNDING_PAGES * page_bytes:
            fault = f"the kernel uses {size_text(effective)} and not the {report.current_text} that are set"
            return Effective(size_text(effective), by, fault=fault)
        return Effective(size_text(effective), by)

    return find


def _file_handles(facts: Facts, _workload: Workload, _report: KnobReport) -> Effective | None:
    numbers = (facts.files.read("/proc/sys/fs/file-nr").text or "").split()
    if len(numbers) != 3:
        return None
    return Effective(numbers[2], "/proc/sys/fs/file-nr", note=f"{numbers[0]} are in use")


def _swaps(facts: Facts, _workload: Workload, _report: KnobReport) -> Effective | None:
    if facts.swaps is None:
        return None
    return Effective(", ".join(swap.device for swap in facts.swaps) or "none", "/proc/swaps")


def _atime(facts: Facts, workload: Workload, report: KnobReport) -> Effective | None:
    """The broker's view: a unit with a mount namespace of its own keeps the options of its start."""
    mount = facts.mount_of(report.target)
    if mount is None:
        return None
    for instance in (instance for unit in workload.units for instance in facts.unit(unit).instances):
        by = f"/proc/{instance.main_pid}/mountinfo"
        options = _options_in(facts.files.read(by).text or "", mount.mount_point)
        if options is not None and report.recommended not in options:
            fault = f"{instance.name} has a mount namespace of its own, without {report.recommended}: restart it"
            return Effective(",".join(options), by, fault=fault, until=True)
    return Effective(",".join(mount.options), "/proc/self/mountinfo")


def _read_ahead(facts: Facts, _workload: Workload, report: KnobReport) -> Effective | None:
    """The page cache uses the value of the backing device, not that of the queue."""
    device = facts.block_device(report.target)
    text = facts.files.read(f"/sys/class/bdi/{device.device_number}/read_ahead_kb").text if device else None
    if device is None or text is None:
        return None
    by = f"/sys/class/bdi/{device.device_number}/read_ahead_kb"
    fault = "" if text == str(report.current) else f"the page cache reads {text} KiB ahead"
    number = parse_whole(text)
    return Effective(text if number is None else format_value(number, "KiB"), by, fault=fault)


def _interrupt(facts: Facts, _workload: Workload, report: KnobReport) -> Effective | None:
    """The affinity that the interrupt controller applied."""
    interrupt = facts.interrupts.get(int(report.target)) if report.target.isdecimal() else None
    if interrupt is None or interrupt.effective_affinity is None or interrupt.affinity is None:
        return None
    cpus = ",".join(map(str, interrupt.effective_affinity))
    by = f"/proc/irq/{report.target}/effective_affinity_list"
    if not set(interrupt.effective_affinity) <= set(interrupt.affinity):
        return Effective(cpus, by, fault=f"processor {cpus} takes it, which smp_affinity_list does not name")
    return Effective(cpus, by)


def _options_in(mountinfo: str, mount_point: str) -> tuple[str, ...] | None:
    """Options of a mount itself, without those of its superblock, from the text of /proc/PID/mountinfo."""
    found = [fields[5] for line in mountinfo.splitlines() if (fields := line.split())[4:5] == [mount_point]]
    return tuple(found[-1].split(",")) if found else None


def _field(facts: Facts, instance: Instance, name: str) -> Effective | None:
    by = f"/proc/{instance.main_pid}/status"
    for line in (facts.files.read(by).text or "").splitlines():
        key, _, text = line.partition(":")
        if key == name:
            value = text.strip()
            return Effective(f"{value} in {instance.name}", by, value, name=instance.name, pid=instance.main_pid)
    return None


def _group_file(facts: Facts, instance: Instance, name: str) -> Effective | None:
    lines = (facts.files.read(f"/proc/{instance.main_pid}/cgroup").text or "").splitlines()
    group = next((line[len("0::") :] for line in lines if line.startswith("0::")), None)
    if group is None:
        return None
    by = f"/sys/fs/cgroup{group}/{name}"
    text = facts.files.read(by).text
    if text is None:
        return None
    word = text.split()[-1] if text else ""  # io.weight reads `default 500`
    value: Value = "infinity" if word == "max" else word if (number := parse_whole(word)) is None else number
    return Effective(f"{value} in {instance.name}", by, value, name=instance.name, pid=instance.main_pid)


_LIMITS: Final[Mapping[str, str]] = {"LimitNOFILE": "nofile", "LimitNPROC": "nproc", "LimitMEMLOCK": "memlock"}
_GROUP_FILES: Final[Mapping[str, str]] = {
    "TasksMax": "pids.max",
    "MemoryLow": "memory.low",
    "MemoryHigh": "memory.high",
    "MemoryMax": "memory.max",
    "MemorySwapMax": "memory.swap.max",
    "IOWeight": "io.weight",
    "CPUWeight": "cpu.weight",
}
_PROBES: Final[Mapping[str, Probe]] = {
    "vm.dirty_bytes": _dirty_threshold("nr_dirty_threshold"),
    "vm.dirty_background_bytes": _dirty_threshold("nr_dirty_background_threshold"),
    "fs.file-max": _file_handles,
    "swap.devices": _swaps,
    "mount.noatime": _atime,
    "disk.read_ahead_kb": _read_ahead,
    "irq.affinity": _interrupt,
}
