"""Whether a setting is in effect, not only in its file: what processes, the kernel and the next boot make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .facts import Facts
    from .model import Knob
    from .runner import Runner
    from .workload import Workload

State = Literal[
    "effective",
    "failed",  # written or kept as expected, but not in effect; or not as expected at all
    "pending",  # takes effect when a unit restarts, a file system is mounted again, or at the next boot
    "unknown",  # cannot be seen from here
    "not_applicable",
]


@dataclass(frozen=True)
class Effect:
    """One row: Parameter, Expected, Actual, Effective, How seen."""

    parameter: str
    target: str
    """The disk, directory, unit or queue it is about; empty for the whole host."""
    expected: str
    actual: str
    """What the setting's own file says."""
    effective: str
    """What is in force, as the kernel or the process shows it elsewhere."""
    at_boot: str
    """What the next boot will set, and which file says so; empty when nothing does."""
    seen_by: str
    """The file or command that showed `effective`."""
    state: State
    footnotes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        raise NotImplementedError


def verify(facts: Facts, workload: Workload, knobs: Sequence[Knob], runner: Runner) -> list[Effect]:
    """One row per knob and target. The runner is asked for `systemctl show` where systemd runs; nothing is changed."""
    raise NotImplementedError
