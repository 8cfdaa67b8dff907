"""A plan in the making: steps so far, and the texts of files that several knobs have a part in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from ..check import KnobReport
from ..facts import Facts
from ..model import Knob
from ..steps import FileStep, RemountStep, SettingStep, SwapOffStep
from ..workload import Workload
from .devices import Devices


@dataclass(frozen=True)
class PlanOptions:
    """How far a plan goes.

    named: ids of the knobs that somebody asked for by name. A named knob that this host does not let us set is an
    error; one that only `all` or a profile chose is left out with a warning.
    accepted: ids of the knobs whose trade (of durability, of safety) somebody accepted by name; others are left alone.
    keep: also over a reboot; without it the running system alone is changed, as a benchmark does for a while.
    login_domains: users, @groups or * of limits.conf(5) for the knobs of logins.
    keep_swap: leave swap on; the knob unit.memory_swap_max keeps the workload's units out of it instead.
    originals: texts of settings from before our first change, by path, as `engine.originals` tells them: what is good
    only because of us needs its line.
    """

    named: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()
    persist: bool = True
    login_domains: tuple[str, ...] = ()
    keep_swap: bool = False
    original_texts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}), hash=False)


class SelectedKnob(NamedTuple):
    """A knob that may be set here, and how it stands; its state is `ok` or `differs`."""

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
    """Of each file that was touched: as it is, as it is to be, and why."""

    @cached_property
    def devices(self) -> Devices:
        return Devices(self.facts)

    def text(self, path: str) -> str | None:
        """A file as the plan so far will leave it; None when it is not there. Raises TuningError if unreadable."""
        if path in self._texts:
            return self._texts[path][1]
        return self.facts.files.read_verbatim(path)

    def put(self, path: str, text: str | None, why: str) -> None:
        """Have a file with this text, or none."""
        before = self._texts[path][0] if path in self._texts else self.facts.files.read_verbatim(path)
        self._texts[path] = (before, text, why)

    def file_steps(self) -> Iterator[FileStep]:
        for path, (before, after, why) in self._texts.items():
            if before != after:
                yield FileStep(path, before, after, why=why)
