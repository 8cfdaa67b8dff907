"""What one micro-batch does: add its rows to the sums, and write figures to every sink, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from highwater.pipeline.progress.batch import BatchOf, Progress
from highwater.pipeline.progress.rule import Decision, decide
from highwater.studies.telemetry.figures import second_figures, trial_figures
from highwater.studies.telemetry.store import Changed, Store
from highwater.studies.telemetry.sums import Sums, TrialSums
from highwater.studies.telemetry.verdicts import new_verdicts

_NAME: Final = "telemetry live"

Sink = Callable[[Sequence[Changed], int], None]
"""Writes what a micro-batch changed; (changed, batch id). The same call a second time must change nothing."""


class Live:
    """The sums of all trials that have not ended, and where they are stored.

    The store is written last: after a crash Spark repeats the micro-batch, the sums are those before it, and the other
    sinks get what they got before. When the store has the micro-batch, the others have it too.
    """

    def __init__(self, store: Store, sinks: Sequence[Sink] = (), now_s: Callable[[], float] = time.time) -> None:
        self._store = store
        self._sinks = sinks
        self._now_s = now_s
        self._sums = Sums(malformed=store.malformed())

    def take(self, rows: pa.Table, batch: BatchOf) -> Sequence[Changed]:
        """Add one micro-batch. Returns what it changed: nothing if it is a replay. Raises ProgressError."""
        if decide(_NAME, self._store.progress(), batch) is Decision.SKIP:
            return ()
        for name in pc.unique(rows.column("trial")).to_pylist():
            if name and name not in self._sums.trials:
                self._sums.trials[name] = self._store.sums(name) or TrialSums(name)
        changed = [self._changed(name, seconds) for name, seconds in sorted(self._sums.add(rows).items())]
        for sink in self._sinks:
            sink(changed, batch.batch_id)
        self._store.save(Progress.after(batch), changed, self._sums.malformed, round(self._now_s() * 1000))
        for one in changed:
            if one.sums.has_ended:
                del self._sums.trials[one.sums.name]
        return changed

    def _changed(self, name: str, seconds: set[int]) -> Changed:
        sums = self._sums.trials[name]
        behind_s = None
        if sums.trial is not None and (told := sums.told_by_all()):
            behind_s = self._now_s() - (sums.trial.t0_unix_ns / 1e9 + told)
        of_seconds, of_trial = second_figures(sums, seconds), trial_figures(sums)
        return Changed(sums, of_seconds, of_trial, behind_s, new_verdicts(sums, of_seconds, of_trial))
