"""Formulas for processors: frequencies, idle states, clocks, isolation, periodic kernel work."""

from __future__ import annotations

import re
from typing import Final

from ..facts.model import Facts
from ..model import NotApplicable, Observation, Target
from ..workload import Workload

# Clock sources that programs read without entering the kernel, on the platforms that have them.
_AS_GOOD_AS_TSC: Final = ("kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
_SHALLOW_IDLE_US: Final = 3
_IDLE_STATES: Final = "/sys/devices/system/cpu/cpu0/cpuidle"
_ISOLATION: Final = re.compile(r"(?:isolcpus|nohz_full|rcu_nocbs)=\S+")


def governor(facts: Facts, _workload: Workload, policy: str) -> Target | NotApplicable:
    """performance on every frequency policy."""
    choice = facts.cpu_governors.get(policy)
    if choice is None:
        return NotApplicable("the firmware or hypervisor sets the frequency: this kernel has no policy for it")
    if "performance" not in choice.available:
        return NotApplicable(f"{policy} offers only {', '.join(choice.available) or 'nothing'}")
    return Target("performance", f"performance on {policy}, one of {len(facts.cpu_governors)}")


def boost(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """1 for production; 0 makes benchmarks repeat better."""
    if facts.files.exists("/sys/devices/system/cpu/cpufreq/boost"):
        return Target(1, "1: production uses the full speed")
    if facts.boost is None:
        return NotApplicable("this host has no switch for it")
    state = "on" if facts.boost else "off"
    return NotApplicable(f"it is {state}; the switch here is intel_pstate/no_turbo, where 1 means off")


def idle_states(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """3 µs."""
    slowest = _slowest_idle_state(facts)
    if slowest is None:
        return NotApplicable("this kernel chooses no idle states, the firmware or hypervisor does")
    name, latency_us = slowest
    if latency_us <= _SHALLOW_IDLE_US:
        return NotApplicable(f"the deepest, {name}, takes {latency_us} µs to leave")
    return Target(_SHALLOW_IDLE_US, f"{_SHALLOW_IDLE_US} µs instead of {latency_us} µs, which {name} takes to leave")


def observe_idle_states(facts: Facts, _name: str) -> Observation:
    slowest = _slowest_idle_state(facts)
    if slowest is None:
        return Observation(None, f"{_IDLE_STATES} has no states")
    return Observation(slowest[1], f"{slowest[1]} µs ({slowest[0]})")


def clock_source(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """tsc where the kernel offers it; the clocks of KVM, Hyper-V and ARM are as good."""
    offered = facts.clocksource.available
    if "tsc" in offered:
        return Target("tsc", f"tsc, of {', '.join(offered)}", also=_AS_GOOD_AS_TSC)
    if not offered:
        return NotApplicable(facts.unknown.get("clocksource", "the clock sources are not known"))
    return NotApplicable(f"tsc is not among {', '.join(offered)}")


def left_to_its_kernel(_facts: Facts, _workload: Workload, _name: str) -> NotApplicable:
    """Nothing: no measurement here supports another value than the kernel's."""
    return NotApplicable("left to the kernel: no measurement here supports another value")


def isolation(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """none; first bind programs to separate CPUs with CPUAffinity= or taskset."""
    present = observe_isolation(facts, "")
    if present.value is None:
        return NotApplicable(present.text)
    if present.value == "none":
        return Target("none", "none: use CPUAffinity= of the unit, or taskset, before a change of the boot line")
    return Target(present.value, "as in the boot line", note="only programs that are bound to these CPUs run on them")


def observe_isolation(facts: Facts, _name: str) -> Observation:
    reading = facts.files.read("/proc/cmdline")
    if reading.text is None:
        return Observation(None, reading.reason)
    text = " ".join(_ISOLATION.findall(reading.text)) or "none"
    return Observation(text, text)


def _slowest_idle_state(facts: Facts) -> tuple[str, int] | None:
    """Name and exit latency of CPU 0's enabled idle state with the longest exit latency."""
    slowest: tuple[str, int] | None = None
    for state in facts.files.names(_IDLE_STATES):
        name, latency, disabled = (
            facts.files.read(f"{_IDLE_STATES}/{state}/{file}").text for file in ("name", "latency", "disable")
        )
        if name is None or latency is None or not latency.isdecimal() or disabled not in (None, "0"):
            continue
        if slowest is None or int(latency) > slowest[1]:
            slowest = name, int(latency)
    return slowest
