"""The live figures in SQLite: sums, figures and the stream's progress, in one transaction per batch.

The job writes; the live page and the terminal read. A reader sees whole micro-batches only (WAL).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

from highwater.bench.telemetry.notes import EndNote, MeasureNote, TrialNote, decode_note, encode_note
from highwater.common.errors import UsageError
from highwater.pipeline.progress.batch import Progress, offsets_from_text, offsets_to_text
from highwater.results.histogram import Histogram
from highwater.studies.telemetry.figures import SecondFigures, TrialFigures
from highwater.studies.telemetry.state import DATABASE, holds_live_figures
from highwater.studies.telemetry.sums import TaskRow, TrialSums
from highwater.studies.telemetry.verdicts import Verdict

SCHEMA_VERSION: Final = 2
_SCHEMA: Final = """
create table meta(key text primary key, value text not null) without rowid;
create table progress(
    name text primary key, query_id text not null, batch_id integer not null, end_offsets text not null,
    target text not null, schema_version integer not null) without rowid;
create table trials(
    trial text primary key, began_unix_ns integer, notes text not null, closed integer not null, late integer not null,
    late_seconds text not null, ended integer not null, figures text not null, written_unix_ms integer not null,
    behind_s real) without rowid;
create table histograms(
    trial text, metric text, second integer, buckets blob not null, primary key (trial, metric, second)) without rowid;
create table counts(
    trial text, name text, second integer, amount integer not null, primary key (trial, name, second)) without rowid;
create table cpu(trial text, second integer, busiest integer not null, primary key (trial, second)) without rowid;
create table hosts(
    trial text, host text, second integer, sample text not null, primary key (trial, host, second)) without rowid;
create table tasks(
    trial text, task integer, messages integer not null, first_number integer not null, last_number integer not null,
    told integer not null, skipped integer not null, primary key (trial, task)) without rowid;
create table seconds(
    trial text, second integer, revision integer not null, figures text not null,
    primary key (trial, second)) without rowid;
create table verdicts(
    number integer primary key autoincrement, trial text not null, objective text not null, bound text not null,
    second integer not null, value real, met integer, so_far real, so_far_met integer,
    unique (trial, second, objective));
create table malformed(reason text primary key, messages integer not null) without rowid;
"""
_VERDICT_COLUMNS: Final = ", ".join(field.name for field in fields(Verdict))


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A trial as the last micro-batch left it.

    behind_s: how long after its end the newest second that all tasks had reported was written.
    """

    note: TrialNote | None
    figures: Mapping[str, Any]
    written_unix_ms: int
    behind_s: float | None

    @property
    def name(self) -> str:
        return str(self.figures["trial"])


@dataclass(frozen=True, slots=True)
class Changed:
    """What a micro-batch changed in one trial."""

    sums: TrialSums
    seconds: Sequence[SecondFigures]
    figures: TrialFigures
    behind_s: float | None
    verdicts: Sequence[Verdict] = ()


class Store:
    """Open it in the one process that writes, or read only. Context manager."""

    def __init__(self, directory: Path, *, create: bool = False) -> None:
        """Raises UsageError when there is no store, or one of another schema."""
        self.path = directory / DATABASE
        if not create and not holds_live_figures(directory):
            raise UsageError(f"{directory} holds no live figures; highwater bench telemetry live --state writes them")
        try:
            mode = "rwc" if create else "ro"
            self._database = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            self._database.execute("pragma busy_timeout = 10000")
            if create:
                self._database.execute("pragma journal_mode = wal")
                self._database.execute("pragma synchronous = full")
                self._make_schema()
            self._check_schema()
        except sqlite3.Error as error:
            raise UsageError(f"{self.path} is not a readable database of live figures: {error}") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _make_schema(self) -> None:
        with self._transaction():
            if not self._all("select 1 from sqlite_master where name = 'meta'"):
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._database.execute(statement)
                self._put_meta("schema_version", str(SCHEMA_VERSION))

    def _check_schema(self) -> None:
        version = self.meta("schema_version")
        if version != str(SCHEMA_VERSION):
            raise UsageError(
                f"{self.path} has schema version {version}, and this Highwater knows {SCHEMA_VERSION}: "
                "use the Highwater that wrote it, or another --state directory"
            )

    # Who writes here

    def meta(self, key: str) -> str | None:
        found = self._all("select value from meta where key = ?", key)
        return str(found[0][0]) if found else None

    def claim(self, topic: str) -> None:
        """Note which topic the figures come from. Raises UsageError if they come from another one."""
        with self._transaction():
            before = self.meta("topic")
            if before is None:
                self._put_meta("topic", topic)
            elif before != topic:
                raise UsageError(
                    f"{self.path} has the figures of {before}, not of {topic}: use another --state directory"
                )

    def own_id(self) -> str:
        """A name that no other store has, for the whole life of this one."""
        with self._transaction():
            found = self.meta("own_id")
            if found is None:
                found = secrets.token_hex(8)
                self._put_meta("own_id", found)
        return found

    def _put_meta(self, key: str, value: str) -> None:
        self._database.execute("insert or replace into meta values (?, ?)", (key, value))

    def progress(self) -> Progress | None:
        found = self._all("select query_id, batch_id, end_offsets, target, schema_version from progress")
        if not found:
            return None
        query_id, batch_id, end_offsets, target, version = found[0]
        return Progress(query_id, batch_id, offsets_from_text(end_offsets), target, version)

    # Writing

    def save(
        self, progress: Progress, changed: Sequence[Changed], malformed: Mapping[str, int], written_unix_ms: int
    ) -> None:
        """One micro-batch, in one transaction."""
        with self._transaction():
            offsets = offsets_to_text(progress.end_offsets)
            row = ("live", progress.query_id, progress.batch_id, offsets, progress.target, progress.schema_version)
            self._put("progress", [row])
            self._put("malformed", malformed.items())
            for one in changed:
                self._save_sums(one.sums, [figures.second for figures in one.seconds])
                self._save_figures(one, written_unix_ms)
                self._save_verdicts(one.verdicts)

    def _save_sums(self, sums: TrialSums, seconds: Sequence[int]) -> None:
        trial = sums.name
        histograms = (
            (trial, metric, second, series[second].encode())
            for metric, series in sums.histograms.items()
            for second in seconds
            if second in series
        )
        self._put("histograms", histograms)
        counts = (
            (trial, name, second, row[second])
            for name, row in sums.counts.items()
            for second in seconds
            if second in row
        )
        self._put("counts", counts)
        self._put("cpu", ((trial, second, sums.cpu[second]) for second in seconds if second in sums.cpu))
        hosts = (
            (trial, host, second, json.dumps(samples[second]))
            for host, samples in sums.hosts.items()
            for second in seconds
            if second in samples
        )
        self._put("hosts", hosts)
        self._put("tasks", ((trial, task, *row) for task, row in sums.tasks.items()))

    def _save_figures(self, one: Changed, written_unix_ms: int) -> None:
        sums = one.sums
        self._database.executemany(
            "insert into seconds values (?, ?, 0, ?) on conflict (trial, second) do update "
            "set revision = revision + 1, figures = excluded.figures",
            ((sums.name, figures.second, json.dumps(asdict(figures))) for figures in one.seconds),
        )
        notes = [encode_note(note).decode() for note in (sums.trial, sums.measure, sums.end) if note is not None]
        row = (
            sums.name,
            sums.trial.t0_unix_ns if sums.trial is not None else None,
            json.dumps(notes),
            sums.closed,
            sums.late,
            json.dumps(sorted(sums.late_seconds)),
            int(sums.has_ended),
            json.dumps(asdict(one.figures), default=lambda latency: latency.model_dump(exclude={"hist"})),
            written_unix_ms,
            one.behind_s,
        )
        self._put("trials", [row])

    def _save_verdicts(self, verdicts: Sequence[Verdict]) -> None:
        # A verdict that is there already is a mistake of ours, so nothing is replaced.
        self._database.executemany(
            f"insert into verdicts ({_VERDICT_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)", map(astuple, verdicts)
        )

    def _put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        taken = list(rows)
        if taken:
            places = ", ".join("?" * len(taken[0]))
            self._database.executemany(f"insert or replace into {table} values ({places})", taken)

    # Reading

    def trials(self) -> list[StoredTrial]:
        """All trials, the newest last."""
        rows = self._all("select notes, figures, written_unix_ms, behind_s from trials order by began_unix_ns, trial")
        found = []
        for notes, figures, written_unix_ms, behind_s in rows:
            note = next((n for text in json.loads(notes) if isinstance(n := decode_note(text), TrialNote)), None)
            found.append(StoredTrial(note, json.loads(figures), written_unix_ms, behind_s))
        return found

    def seconds(self, trial: str) -> list[dict[str, Any]]:
        """The figures of a trial by second, as SecondFigures has them."""
        return [
            json.loads(text)
            for (text,) in self._all("select figures from seconds where trial = ? order by second", trial)
        ]

    def verdicts_from(self, number: int, at_most: int) -> list[tuple[int, Verdict]]:
        """Verdicts by the number that each got when it was stored, from this number on."""
        rows = self._all(
            f"select number, {_VERDICT_COLUMNS} from verdicts where number >= ? order by number limit ?",
            number,
            at_most,
        )
        return [
            (number, Verdict(trial, objective, bound, second, value, _truth(met), so_far, _truth(so_far_met)))
            for number, trial, objective, bound, second, value, met, so_far, so_far_met in rows
        ]

    def malformed(self) -> dict[str, int]:
        return dict(self._all("select reason, messages from malformed"))

    def sums(self, trial: str) -> TrialSums | None:
        """The sums of a trial, to add more to them; None if nothing is stored of it."""
        stored = self._all("select notes, closed, late, late_seconds from trials where trial = ?", trial)
        if not stored:
            return None
        notes, closed, late, late_seconds = stored[0]
        sums = TrialSums(trial, closed=closed, late=late, late_seconds=set(json.loads(late_seconds)))
        for text in json.loads(notes):
            match decode_note(text):
                case TrialNote() as note:
                    sums.trial = note
                case MeasureNote() as note:
                    sums.measure = note
                case EndNote() as note:
                    sums.end = note
        for metric, second, buckets in self._all(
            "select metric, second, buckets from histograms where trial = ?", trial
        ):
            sums.histograms.setdefault(metric, {})[second] = Histogram.decode(buckets)
        for name, second, amount in self._all("select name, second, amount from counts where trial = ?", trial):
            sums.counts.setdefault(name, {})[second] = amount
        sums.cpu.update(self._all("select second, busiest from cpu where trial = ?", trial))
        for host, second, sample in self._all("select host, second, sample from hosts where trial = ?", trial):
            sums.hosts.setdefault(host, {})[second] = json.loads(sample)
        for task, *row in self._all(
            "select task, messages, first_number, last_number, told, skipped from tasks where trial = ?", trial
        ):
            sums.tasks[task] = TaskRow(*row)
        sums.judged.update(second for (second,) in self._all("select second from verdicts where trial = ?", trial))
        return sums

    def _all(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with closing(self._database.execute(query, parameters)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")


def _truth(stored: int | None) -> bool | None:
    return None if stored is None else bool(stored)
