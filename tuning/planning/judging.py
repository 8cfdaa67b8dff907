"""Judges values other than the current one: those that a file sets at boot, or that a process has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..check import ReadFile, report_on, sysctl_path
from ..facts.model import Facts
from ..hostfiles import Reading
from ..model import Knob, Observation, Value
from ..workload import Workload


@dataclasses.dataclass(frozen=True)
class Judge:
    """Judges values of one knob at one target by the catalogue's own rules."""

    facts: Facts
    workload: Workload
    knob: Knob
    target: str
    accepted: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The file that holds the value at this target, or the command that prints it."""
        return self.knob.path.format(target=self.target)

    def accepts_value(self, value: Value) -> bool:
        knob = dataclasses.replace(self.knob, observe=lambda _facts, _target: Observation(value, str(value)))
        return self._good(knob, self.facts.files.read)

    def accepts_sysctls(self, settings: Mapping[str, str]) -> bool:
        """Whether the knob is as recommended once these keys are set; the other member of a pair is then 0."""
        texts = {sysctl_path(key): value for key, value in settings.items()}
        pair = {sysctl_path(key) for key in (self.knob.id, self.knob.twin) if key} if self.knob.twin else set()
        return self.accepts_texts({**dict.fromkeys(pair, "0"), **texts})

    def accepts_texts(self, texts: Mapping[str, str]) -> bool:
        """Whether the knob is as recommended with these texts in place of the host's files."""

        def read(path: str) -> Reading:
            return Reading(texts[path]) if path in texts else self.facts.files.read(path)

        return self._good(self.knob, read)

    def _good(self, knob: Knob, read: ReadFile) -> bool:
        return report_on(knob, self.facts, self.workload, self.target, read, self.accepted).state == "ok"
