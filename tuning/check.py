"""What each knob is on this host, what it should be, and whether the two agree. Reads, never writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from .catalogue import KNOBS
from .facts import Facts, Swap
from .formulas.common import data_disks
from .hostfiles import Reading
from .model import Knob, NotApplicable, Observation, Source, Target, Value
from .quantities import format_bytes
from .workload import Workload

State = Literal["ok", "differs", "unknown", "not_applicable"]
ReadFile = Callable[[str], Reading]

# The assumed or measured disk speed behind an "about" knob is not better than this.
_ABOUT_FACTOR: Final = 1.5


@dataclass(frozen=True)
class KnobReport:
    id: str
    title: str
    target: str
    """The disk or directory it is about; empty for the whole host."""
    state: State
    current: Value | None
    current_text: str
    recommended: Value | None
    recommended_text: str
    unit: str
    reason: str
    note: str
    """What this host makes of it: why it is unknown, does not apply, has no effect now, or cannot be changed here."""
    formula: str
    risk: str
    sources: tuple[Source, ...]
    obstacle: str
    """Why it cannot be changed here; empty when nothing is known to stand in the way."""

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "sources": [dataclasses.asdict(source) for source in self.sources]}


def evaluate(facts: Facts, workload: Workload | None = None, knobs: Iterable[Knob] = KNOBS) -> list[KnobReport]:
    """One report per knob, and per disk or directory for the knobs that are about those."""
    inputs = workload or Workload()
    return [report_on(knob, facts, inputs, name) for knob in knobs for name in _names(knob, facts, inputs)]


def report_on(knob: Knob, facts: Facts, workload: Workload, name: str = "", read: ReadFile | None = None) -> KnobReport:
    """Evaluate one knob. `read` replaces the host's files, so that recorded or planned values can be judged too."""
    observed = observe(knob, facts, name, read or facts.files.read)
    target = knob.recommend(facts, workload, name)
    recommended: Value | None = None
    formula = ""
    obstacle = _obstacle(knob, facts, name, target)
    if isinstance(target, NotApplicable):
        state: State = "not_applicable"
        notes = [target.reason]
    elif observed.value is None:
        state, recommended, formula = "unknown", target.value, target.formula
        notes = [observed.text]
    else:
        state = "ok" if _acceptable(knob, target, observed.value) else "differs"
        recommended, formula = target.value, target.formula
        if knob.never_lower:
            recommended = max(observed.value, target.value) if isinstance(target.value, int) else target.value
            formula = f"max(current {_text(knob, observed.value)}, {target.formula})"
        notes = [target.note, obstacle if state == "differs" else ""]
    return KnobReport(
        id=knob.id,
        title=knob.title,
        target=name,
        state=state,
        current=observed.value,
        current_text=observed.text if observed.value is not None else "?",
        recommended=recommended,
        recommended_text="–" if recommended is None else _text(knob, recommended),
        unit=knob.unit,
        reason=knob.reason,
        note="; ".join(note for note in notes if note),
        formula=formula,
        risk=knob.risk,
        sources=knob.sources,
        obstacle=obstacle,
    )


def observe(knob: Knob, facts: Facts, name: str, read: ReadFile) -> Observation:
    """The knob's present value, through `read` where it lies in a file of its own."""
    if knob.mechanism == "swap":
        return _observe_swap(facts)
    if knob.mechanism == "unit":
        return _observe_nofile(facts)
    if knob.mechanism == "mount":
        return _observe_atime(facts, name)
    reading = read(knob.path.format(target=name))
    if reading.text is None:
        return Observation(None, _why_unreadable(knob, facts, reading.reason))
    if knob.mechanism == "sysfs":
        chosen = next((word[1:-1] for word in reading.text.split() if word.startswith("[")), None)
        return Observation(chosen, chosen or f"{knob.path} holds {reading.text!r}")
    return _observe_sysctl(knob, facts, reading.text, read)


def render(knob: Knob, value: Value, present_text: str) -> str:
    """The text to write for a sysctl, with the numbers of the file that the knob does not govern kept."""
    if knob.field is None:
        return str(value)
    numbers = present_text.split()
    numbers[knob.field] = str(value)
    return " ".join(numbers)


def sysctl_path(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def _names(knob: Knob, facts: Facts, workload: Workload) -> list[str]:
    if knob.scope == "mount":
        return list(workload.data_dirs)
    if knob.scope == "disk":
        return [disk.name for disk in data_disks(facts, workload)]
    return [""]


def _acceptable(knob: Knob, target: Target, value: Value) -> bool:
    if value == target.value or value in target.also:
        return True
    if isinstance(value, str) or isinstance(target.value, str):
        return False
    if knob.comparison == "at_least":
        return value >= target.value
    if knob.comparison == "about":
        return target.value / _ABOUT_FACTOR <= value <= target.value * _ABOUT_FACTOR
    return False


def _obstacle(knob: Knob, facts: Facts, name: str, target: Target | NotApplicable) -> str:
    where = f"this container ({facts.container})" if facts.container else "this system"
    if knob.mechanism == "unit":
        wanted = target.value if isinstance(target, Target) else 0
        hard = facts.nofile_hard
        if facts.can_raise_limits is not False or hard is None or not isinstance(wanted, int) or hard >= wanted:
            return ""
        return (
            f"cannot be raised here: the hard limit is {hard}, and {where} has no CAP_SYS_RESOURCE; "
            "change it on the host below"
        )
    read_only = facts.read_only_mount(knob.path.format(target=name)) if knob.mechanism in ("sysctl", "sysfs") else None
    if read_only is None:
        return ""
    return f"cannot be changed here: {read_only} is mounted read-only in {where}; change it on the host below"


def _why_unreadable(knob: Knob, facts: Facts, reason: str) -> str:
    if knob.scope == "network namespace" and facts.container:
        return f"{reason}: not visible in this container's network namespace"
    if "does not exist" in reason and facts.kernel_release:
        return f"{reason} on kernel {facts.kernel_release}"
    return reason


def _observe_sysctl(knob: Knob, facts: Facts, text: str, read: ReadFile) -> Observation:
    numbers = text.split()
    index = knob.field or 0
    if len(numbers) <= index or not all(number.isdecimal() for number in numbers):
        return Observation(None, f"{knob.path} holds {text!r}, not numbers")
    value = int(numbers[index])
    if knob.twin is None or value:
        return Observation(value, _text(knob, value))
    percent = read(sysctl_path(knob.twin)).text or ""
    usable = facts.memory.usable_bytes
    if not percent.isdecimal() or usable is None:
        return Observation(None, f"neither {knob.id} nor {knob.twin} tells")
    effective = int(percent) * usable // 100
    return Observation(effective, f"{percent} % = {format_bytes(effective)}")


def _observe_swap(facts: Facts) -> Observation:
    if facts.swaps is None:
        return Observation(None, facts.unknown.get("swaps", "swap is not known"))
    text = ", ".join(_describe_swap(swap) for swap in facts.swaps) or "none"
    return Observation(text, text)


def _describe_swap(swap: Swap) -> str:
    return f"{swap.device} {format_bytes(swap.size_bytes)}"


def _observe_nofile(facts: Facts) -> Observation:
    if facts.nofile_soft is None:
        return Observation(None, facts.unknown.get("nofile", "the limit is not known"))
    return Observation(facts.nofile_soft, f"{facts.nofile_soft} (hard {facts.nofile_hard})")


def _observe_atime(facts: Facts, directory: str) -> Observation:
    mount = facts.mount_of(directory)
    if mount is None:
        return Observation(None, facts.unknown.get("mounts", f"no mount holds {directory}"))
    chosen = next((option for option in ("noatime", "relatime") if option in mount.options), "strictatime")
    return Observation(chosen, chosen)


def _text(knob: Knob, value: Value) -> str:
    return format_bytes(value) if knob.unit == "bytes" and isinstance(value, int) else str(value)
