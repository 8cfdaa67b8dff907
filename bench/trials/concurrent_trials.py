"""Trials that run concurrently on one processor, each in a thread of its own.

The speed of a shared machine changes within milliseconds, when another tenant starts or stops using the other
hyperthread of the core. Trials that take turns on one processor share every such change equally, so their CPU times can
be compared even when each trial alone would vary too much (Bulej et al., Duet Benchmarking, ICPE 2020).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, get_args

from highwater.bench.systems import System
from highwater.results.models import AtOnce, Reason

Stage = Literal["started", "ready", "loaded"]
"""The trial's system runs; its load tasks are ready; its load has ended."""

_CHECK_EVERY_S: Final = 0.1


class ConcurrentTrials:
    """The trials of one block. When a trial fails and leaves, the others continue, and their verdicts are in doubt."""

    def __init__(self, trial_ids: Iterable[str], processor: int) -> None:
        self.processor = processor
        self._trial_ids = tuple(trial_ids)
        self._present = set(self._trial_ids)
        self._arrived: dict[Stage, set[str]] = {stage: set() for stage in get_args(Stage)}
        self._systems: dict[str, System] = {}
        self._changed = threading.Condition()

    @contextmanager
    def one_processor(self) -> Iterator[None]:
        """Bind this thread, and every process that it starts, to the processor."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.processor})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def leave(self, trial_id: str) -> None:
        """Let no other trial wait for this one from now on, whether it succeeded or failed."""
        with self._changed:
            self._present.discard(trial_id)
            self._changed.notify_all()

    def arrive(self, trial_id: str, stage: Stage) -> bool:
        """Record that the trial has reached the stage. Returns whether all that have not left have reached it."""
        with self._changed:
            if trial_id not in self._arrived[stage]:
                self._arrived[stage].add(trial_id)
                self._changed.notify_all()
            return self._present <= self._arrived[stage]

    def arrive_and_wait(self, trial_id: str, stage: Stage, check: Callable[[], None]) -> None:
        """Wait until all trials that have not left have reached the stage; `check` may raise to end the wait."""
        while not self.arrive(trial_id, stage):
            with self._changed:
                self._changed.wait(_CHECK_EVERY_S)
            check()

    def add_system(self, trial_id: str, system: System) -> None:
        with self._changed:
            self._systems[trial_id] = system

    def other_process_ids(self, trial_id: str) -> tuple[int, ...]:
        """The processes that now belong to the systems of the other trials."""
        with self._changed:
            systems = [system for other, system in self._systems.items() if other != trial_id]
        return tuple(pid for system in systems for pid in (*system.process_ids, *system.attendant_process_ids))

    def doubts(self, trial_id: str) -> list[Reason]:
        """For a trial whose load has ended: a doubt if another trial left before its own load ended."""
        with self._changed:
            missing = [other for other in self._trial_ids if other not in self._arrived["loaded"]]
        if not missing:
            return []
        names = ", ".join(missing)
        return [
            Reason(
                check="trials.at_once",
                value=names,
                limit="all trials of the block",
                text=f"it had more of the processor than the trials of other blocks, because {names} failed before the "
                "end of its load; see its error",
            )
        ]

    def facts(self, trial_id: str) -> AtOnce:
        return AtOnce(processor=self.processor, trials=[other for other in self._trial_ids if other != trial_id])
