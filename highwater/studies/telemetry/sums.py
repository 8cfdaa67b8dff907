"""The sums of one trial, to which rows are added as they come; the order of the rows does not matter. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.bench.telemetry.notes import (
    EndNote,
    HostNote,
    MeasureNote,
    TrialNote,
    decode_note,
)
from highwater.results.histogram import Histogram
from highwater.studies.telemetry.rows import KEYS

WATERMARK_S: Final = 5
"""A second is closed at the latest when another task has reported a second that is so much later."""


class TaskRow(NamedTuple):
    """What one task has reported; the numbers of its messages show gaps and repetitions."""

    messages: int
    first_number: int
    last_number: int
    told: int
    skipped: int

    @property
    def second(self) -> int:
        """The latest second that the task reported."""
        return self.told // 2

    @property
    def has_ended(self) -> bool:
        return bool(self.told % 2)

    @property
    def missing(self) -> int:
        """Messages that its numbers leave room for and that are not there; negative: some are there twice."""
        return self.last_number + 1 - self.messages


@dataclass(slots=True)
class TrialSums:
    """Everything that was reported about one trial so far.

    histograms: metric -> second -> buckets. counts: row of Windows -> second -> count. cpu: second -> busiest task.
    closed: seconds below this one are closed; late: timed records reported after their second was closed, and
    late_seconds: which seconds these were. Late records are in all figures. judged: seconds with verdicts.
    """

    name: str
    trial: TrialNote | None = None
    measure: MeasureNote | None = None
    end: EndNote | None = None
    histograms: dict[str, dict[int, Histogram]] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=dict)
    cpu: dict[int, int] = field(default_factory=dict)
    hosts: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    tasks: dict[int, TaskRow] = field(default_factory=dict)
    closed: int = 0
    late: int = 0
    late_seconds: set[int] = field(default_factory=set)
    judged: set[int] = field(default_factory=set)

    @property
    def measure_start_s(self) -> int | None:
        """None before the note of the trial has come."""
        if self.end is not None:
            return self.end.measure_start_s
        if self.measure is not None:
            return self.measure.second
        return self.trial.warmup_max_s if self.trial is not None else None

    @property
    def seconds(self) -> int:
        """Seconds since T0 for which anything is known."""
        rows: list[Mapping[int, object]] = [self.cpu, *self.counts.values(), *self.histograms.values()]
        return max((second for row in rows for second in row), default=-1) + 1

    @property
    def has_ended(self) -> bool:
        """The driver said so, and so did all tasks."""
        ended = sum(row.has_ended for row in self.tasks.values())
        return self.end is not None and self.trial is not None and ended >= self.trial.tasks

    def told_by_all(self) -> int:
        """The second below which every task has reported all seconds."""
        if self.trial is None or len(self.tasks) < self.trial.tasks:
            return 0
        running = [row.second for row in self.tasks.values() if not row.has_ended]
        return min(running, default=self.seconds - 1) + 1

    def add(self, kind: str, rows: pa.RecordBatch) -> set[int]:
        """Add rows of one kind; they must be in the order of KEYS. Returns the seconds whose figures changed."""
        match kind:
            case "bucket":
                return self._add_buckets(rows)
            case "count":
                return self._add_counts(rows)
            case "cpu":
                for second, high in _columns(rows, "second", "high"):
                    self.cpu[second] = max(high, self.cpu.get(second, 0))
                return {second for (second,) in _columns(rows, "second")}
            case "task" | "told" | "skipped":
                self._add_tasks(kind, rows)
            case "note":
                return self._add_notes(text for (text,) in _columns(rows, "payload"))
        return set()

    def close(self) -> None:
        """Close the seconds that every task has reported in full, and those that are older than the watermark.

        The records due at the end of a second are acknowledged in the next one, so that message has to be there too.
        """
        if self.has_ended:
            self.closed = max(self.closed, self.seconds)
            return
        newest = max((row.second for row in self.tasks.values()), default=-1)
        self.closed = max(self.closed, self.told_by_all() - 1, newest + 1 - WATERMARK_S)

    def _add_buckets(self, rows: pa.RecordBatch) -> set[int]:
        indices, counts = (rows.column(name).to_numpy().astype(np.int64) for name in ("bucket", "amount"))
        changed = set()
        for (metric, second), start, end in _runs(rows, "name", "second"):
            added = Histogram(indices[start:end], counts[start:end])
            series = self.histograms.setdefault(metric, {})
            before = series.get(second)
            series[second] = Histogram.merged([before, added]) if before else added
            changed.add(second)
            if second < self.closed:
                self.late += added.count
                self.late_seconds.add(second)
        return changed

    def _add_counts(self, rows: pa.RecordBatch) -> set[int]:
        changed = set()
        for name, second, amount in _columns(rows, "name", "second", "amount"):
            row = self.counts.setdefault(name, {})
            row[second] = row.get(second, 0) + amount
            changed.add(second)
            if second < self.closed:
                self.late_seconds.add(second)
        # The lag of a second depends on all counts before it.
        return set(range(min(changed, default=0), self.seconds))

    def _add_tasks(self, kind: str, rows: pa.RecordBatch) -> None:
        for name, amount, low, high in _columns(rows, "name", "amount", "low", "high"):
            before = self.tasks.get(int(name), TaskRow(0, low, -1, -2, 0))
            match kind:
                case "task":
                    first, last = min(low, before.first_number), max(high, before.last_number)
                    after = before._replace(messages=before.messages + amount, first_number=first, last_number=last)
                case "told":
                    after = before._replace(told=max(before.told, high))
                case _:
                    after = before._replace(skipped=max(before.skipped, high))
            self.tasks[int(name)] = after

    def _add_notes(self, texts: Iterable[str]) -> set[int]:
        changed = set()
        for text in texts:
            match decode_note(text):
                case TrialNote() as note:
                    self.trial = note
                case MeasureNote() as note:
                    self.measure = note
                case EndNote() as note:
                    self.end = note
                case HostNote() as note:
                    self.hosts.setdefault(note.host, {})[note.second] = dict(note.sample)
                    changed.add(note.second)
                    continue
            changed.update(range(self.seconds))  # phases and objectives of all seconds depend on it
        return changed


@dataclass(slots=True)
class Sums:
    """All trials. malformed: reason -> messages on the topic that are none of ours."""

    trials: dict[str, TrialSums] = field(default_factory=dict)
    malformed: dict[str, int] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> dict[str, set[int]]:
        """Add rows of `studies.telemetry.rows`. Returns trial -> seconds whose figures changed."""
        batch = rows.sort_by([(name, "ascending") for name in KEYS]).combine_chunks().to_batches()
        changed: dict[str, set[int]] = {}
        for part in batch:
            for (trial, kind), start, end in _runs(part, "trial", "kind"):
                of_kind = part.slice(start, end - start)
                if kind == "malformed":
                    for reason, amount in _columns(of_kind, "name", "amount"):
                        self.malformed[reason] = self.malformed.get(reason, 0) + amount
                    continue
                sums = self.trials.setdefault(trial, TrialSums(trial))
                changed.setdefault(trial, set()).update(sums.add(kind, of_kind))
        for trial, seconds in changed.items():
            sums = self.trials[trial]
            before = sums.closed
            sums.close()
            seconds.update(range(before, sums.closed))
        return changed


def summed(rows: pa.Table) -> pa.Table:
    """Rows that agree in KEYS as one, as Spark's groupBy makes them."""
    grouped = rows.group_by(list(KEYS)).aggregate(
        [("amount", "sum"), ("low", "min"), ("high", "max"), ("payload", "max")]
    )
    return grouped.rename_columns(
        [name.rsplit("_", 1)[0] if name not in KEYS else name for name in grouped.schema.names]
    )


def _columns(rows: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _runs(rows: pa.RecordBatch, *names: str) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """The stretches of equal values in these columns of sorted rows: (values, start, end)."""
    if not rows.num_rows:
        return
    codes = [pc.dictionary_encode(rows.column(name)).indices.to_numpy() for name in names]
    starts = [0, *(np.flatnonzero(np.any([np.diff(code) != 0 for code in codes], axis=0)) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        yield tuple(rows.column(name)[start].as_py() for name in names), start, end
