"""The draft of a plan: live steps, warnings, and the texts of files that several knobs share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from ..check import KnobReport
from ..facts.model import Facts
from ..model import Knob
from ..steps import FileStep, RemountStep, SettingStep, SwapOffStep
from ..workload import Workload
from .devices import Devices


@dataclass(frozen=True)
class PlanOptions:
    """The scope of a plan.

    named: ids of the knobs that the user named. A named knob that this host cannot set is an error; a knob that only
    `all` or a profile selected is left out with a warning.
    accepted: ids of the knobs whose trade of durability or safety the user accepted; other trades are left alone.
    persist: also over a reboot; without it only the running system is changed, as a benchmark does temporarily.
    login_domains: users, @groups or * of limits.conf(5) for the knobs of logins.
    keep_swap: leave swap on; the knob unit.memory_swap_max keeps the workload's units out of it instead.
    original_texts: texts of settings before Highwater's first change, by path, from `engine.original_texts`: a value
    that is good only because of Highwater needs a line in a file.
    """

    named: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()
    persist: bool = True
    login_domains: tuple[str, ...] = ()
    keep_swap: bool = False
    original_texts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}), hash=False)


class SelectedKnob(NamedTuple):
    """A knob that can be set here, with its report; its state is `ok` or `differs`."""

    knob: Knob
    report: KnobReport


@dataclass
class Draft:
    facts: Facts
    workload: Workload
    options: PlanOptions
    live: list[SettingStep | RemountStep | SwapOffStep] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    _texts: dict[str, tuple[str | None, str | None, str]] = field(default_factory=dict)
    """For each changed file: the current text, the wanted text, and the reason."""

    @cached_property
    def devices(self) -> Devices:
        return Devices(self.facts)

    def text(self, path: str) -> str | None:
        """The text of a file after this draft's changes, None without one. Raises TuningError if it is unreadable."""
        if path in self._texts:
            return self._texts[path][1]
        return self.facts.files.read_verbatim(path)

    def put(self, path: str, text: str | None, why: str) -> None:
        """Set the wanted text of a file; None removes the file."""
        before = self._texts[path][0] if path in self._texts else self.facts.files.read_verbatim(path)
        self._texts[path] = (before, text, why)

    def file_steps(self) -> Iterator[FileStep]:
        for path, (before, after, why) in self._texts.items():
            if before != after:
                yield FileStep(path, before, after, why=why)
