"""How long a run still takes: the plan's durations, corrected by what its trials really took. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

# The plan's own overhead counts as much as half a trial, so that one slow first trial does not decide.
_WEIGHT_OF_THE_PLAN: Final = 0.5
# Analysis and digests, after the last trial.
_END_S: Final = 1.0


@dataclass(slots=True)
class TimeLeft:
    """The times of a run in seconds since its launcher was there; trials are counted from 1 in the order of running.

    expected_s: by the plan, of each trial; 0 for a trial that runs beside another. probes_s: by the plan, of all probes
    of the storage, half of them before the first trial and half after the last.
    """

    expected_s: list[float]
    probes_s: float = 0.0
    _surpluses_s: list[float] = field(default_factory=list, init=False)
    _before_s: float | None = field(default=None, init=False)
    _number: int = field(default=0, init=False)
    _started_s: float = field(default=0.0, init=False)
    _running: bool = field(default=False, init=False)
    _took_s: float = field(default=0.0, init=False)

    def trial_started(self, number: int, now_s: float) -> None:
        if self._before_s is None:
            self._before_s = now_s
        # A search may need more trials than planned.
        self.expected_s += [self.expected_s[-1]] * (number - len(self.expected_s))
        self._number, self._started_s, self._running = number, now_s, True

    def trial_ended(self, number: int, now_s: float, *, whole: bool = True) -> None:
        """Record the end of a trial; if it ran as a whole, its time corrects what the others are expected to take."""
        took_s = now_s - self._started_s
        if whole and self.expected_s[number - 1]:
            self._surpluses_s.append(took_s - self.expected_s[number - 1])
        self._running, self._took_s = False, self._took_s + took_s

    def trial_skipped(self, number: int) -> None:
        self.expected_s[number - 1] = 0.0

    def done_s(self, now_s: float) -> float:
        """The time that trials have taken."""
        return self._took_s + (now_s - self._started_s if self._running else 0.0)

    def left_s(self, now_s: float) -> float:
        trials_s = sum(map(self._expected_s, range(self._number + 1, len(self.expected_s) + 1)))
        if self._before_s is None:
            return max(0.0, self.probes_s / 2 - now_s) + trials_s + self.probes_s / 2 + _END_S
        running_s = max(0.0, self._expected_s(self._number) - (now_s - self._started_s)) if self._running else 0.0
        # The probes after the trials take as long as those before them took.
        return running_s + trials_s + (self._before_s if self.probes_s else 0.0) + _END_S

    def _expected_s(self, number: int) -> float:
        by_plan_s = self.expected_s[number - 1]
        return max(0.0, by_plan_s + _correction_s(self._surpluses_s)) if by_plan_s else 0.0


def _correction_s(surpluses_s: Sequence[float]) -> float:
    """What to add to the plan's duration of a trial, from what earlier trials took over theirs."""
    return sum(surpluses_s) / (len(surpluses_s) + _WEIGHT_OF_THE_PLAN)
