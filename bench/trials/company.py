"""Trials at the same time on one processor, each in a thread of its own.

Host speed of a shared machine moves within milliseconds, as the other hyperthread of a core falls to somebody else and
comes back. Trials that take turns on one processor all get their share of every such moment, so that their CPU time can
be compared where their minutes could not (Bulej et al., Duet Benchmarking, ICPE 2020).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, get_args

from highwater.bench.results import AtOnce, Reason
from highwater.bench.systems import System

Stage = Literal["started", "ready", "loaded"]
"""Its system runs; its load tasks are ready; its load is over."""

_CHECK_EVERY_S: Final = 0.1


class Company:
    """Those of a block. A trial that fails leaves it, and the others go on with their verdicts in doubt."""

    def __init__(self, trial_ids: Iterable[str], processor: int) -> None:
        self.processor = processor
        self._everybody = tuple(trial_ids)
        self._present = set(self._everybody)
        self._arrived: dict[Stage, set[str]] = {stage: set() for stage in get_args(Stage)}
        self._systems: dict[str, System] = {}
        self._changed = threading.Condition()

    @contextmanager
    def one_processor(self) -> Iterator[None]:
        """This thread, and every process that it starts, is bound to the processor."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.processor})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def leave(self, trial_id: str) -> None:
        """Whatever became of the trial: nobody waits for it any more."""
        with self._changed:
            self._present.discard(trial_id)
            self._changed.notify_all()

    def arrive(self, trial_id: str, stage: Stage) -> bool:
        """Whether everybody who is still there has come as far, too."""
        with self._changed:
            if trial_id not in self._arrived[stage]:
                self._arrived[stage].add(trial_id)
                self._changed.notify_all()
            return self._present <= self._arrived[stage]

    def meet(self, trial_id: str, stage: Stage, check: Callable[[], None]) -> None:
        """Wait until everybody who is still there has come as far; `check` may raise to end the wait."""
        while not self.arrive(trial_id, stage):
            with self._changed:
                self._changed.wait(_CHECK_EVERY_S)
            check()

    def introduce(self, trial_id: str, system: System) -> None:
        with self._changed:
            self._systems[trial_id] = system

    def other_process_ids(self, trial_id: str) -> tuple[int, ...]:
        """Of the systems of the others, as they are now."""
        with self._changed:
            systems = [system for other, system in self._systems.items() if other != trial_id]
        return tuple(pid for system in systems for pid in (*system.process_ids, *system.attendant_process_ids))

    def doubts(self, trial_id: str) -> list[Reason]:
        """To be asked by a trial whose load is over: was anybody missing meanwhile?"""
        with self._changed:
            missing = [other for other in self._everybody if other not in self._arrived["loaded"]]
        if not missing:
            return []
        names = ", ".join(missing)
        return [
            Reason(
                check="trials.at_once",
                value=names,
                limit="all trials of the block",
                text=f"it had more of the processor than the trials of other blocks, as {names} ended before its load "
                "was over; see its error",
            )
        ]

    def facts(self, trial_id: str) -> AtOnce:
        return AtOnce(processor=self.processor, trials=[other for other in self._everybody if other != trial_id])
