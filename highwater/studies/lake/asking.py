"""Asks a lake: opens an engine, runs the SQL of a question, and makes the sentence of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from highwater.common.errors import UsageError
from highwater.studies.lake.answers import cell_text, sentence
from highwater.studies.lake.engine import MEMORY_BYTES, Engine, Parameters, parameters_in
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.questions import Parameter, Sentence, SqlQuestion, pools_in
from highwater.studies.lake.steps import STEPS

_ROWS = "{rows} rows"
_PERCENTILES = (50.0, 99.0, 99.9, 100.0)
_SECONDS = SqlQuestion(
    "timeline",
    "Percentiles of each second over all usable trials of a workload",
    (),
    (Sentence("{param.metric} of {param.workload} is worst in second {param.second} since T0: p99 {param.p99_ns}"),),
    "the lake has no seconds of {param.metric} of {param.workload} (add stores them unless --no-seconds is given)",
    None,
    """select s.second, s.buckets, s.counts
    from seconds s
    join trials t on t.run = s.run and t.trial_id = s.trial_id
    join runs r on r.run = s.run
    where r.workload = :workload and s.metric = :metric and t.usable and t.role = 'measure'""",
)


@dataclass(frozen=True, slots=True)
class Connection:
    """An engine that is open on a lake, and how much is in it."""

    engine: Engine
    lake: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a question: its sentence, then rows with these columns."""

    question: SqlQuestion
    parameters: Mapping[str, str]
    sentence: str
    columns: list[str]
    rows: list[dict[str, Any]]


@contextmanager
def opened(
    manifest: Manifest,
    engine: str = "local",
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Iterator[Connection]:
    """Open the engine `local` or `spark`; memory_bytes: for `local`. Raises UsageError when the lake cannot be read."""
    runs = manifest.runs()
    lake = {"runs": len(runs), "trials": sum(run.trials for run, _ in runs.values())}
    if engine == "local":
        from highwater.studies.lake.local import opened_locally

        with opened_locally(manifest, memory_bytes) as local:
            yield Connection(local, lake)
        return
    from highwater.studies.lake.on_spark import opened_on_spark

    with opened_on_spark(manifest, master, settings) as spark:
        yield Connection(spark, lake)


def ask_lake(
    manifest: Manifest,
    question: SqlQuestion,
    given: Mapping[str, str],
    engine: str = "local",
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Answer:
    """Open an engine and ask; once more if a compaction removed files meanwhile. Raises UsageError."""
    question.values(question.texts(given))  # report wrong parameters before an engine starts
    while True:
        before = manifest.groups()
        try:
            with opened(manifest, engine, master, settings, memory_bytes) as connection:
                return ask(connection, question, given)
        except UsageError:
            if manifest.groups() == before:
                raise


def time_line(connection: Connection, workload: str, metric: str) -> Answer:
    """Percentiles of each second over all usable trials of a workload. Raises UsageError."""
    given: dict[str, str] = {"workload": workload, "metric": metric}
    table = connection.engine.percentiles(_SECONDS.sql, given, ["second"], _PERCENTILES)
    rows: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda row: int(row["second"]))
    worst = max(rows, key=lambda row: int(row["p99_ns"]), default={})
    shown = given | {name: cell_text(worst, name) for name in ("second", "p99_ns") if worst}
    return Answer(_SECONDS, given, sentence(_SECONDS, rows, shown, connection.lake), table.column_names, rows)


def ask(connection: Connection, question: SqlQuestion, given: Mapping[str, str]) -> Answer:
    """given: parameters as text. Raises UsageError."""
    texts = question.texts(given)
    values = question.values(texts)
    table = answered(connection.engine, question, values)
    rows: list[dict[str, Any]] = table.to_pylist()
    columns: list[str] = table.column_names
    if question.then is not None:
        rows = STEPS[question.then](rows, values)
        columns = list(rows[0]) if rows else []
    shown = {name: str(values[name]) if question.is_metric(name) else text for name, text in texts.items()}
    return Answer(question, texts, sentence(question, rows, shown, connection.lake), columns, rows)


def answered(engine: Engine, question: SqlQuestion, values: Parameters) -> pa.Table:
    """The rows of the SQL of a question, without what follows it. Raises UsageError."""
    pools = {pool.name: engine.percentiles(pool.sql, values, pool.by, pool.percentiles) for pool in question.pools}
    return engine.query(question.sql, values, pools)


def asked_sql(sql: str) -> SqlQuestion:
    """A statement of the user as a question whose parameters must be given. Raises UsageError for an empty one."""
    if not sql.strip():
        raise UsageError("--sql: there is no statement")
    parameters = tuple(Parameter(name, "text", None, f"a value for :{name}") for name in parameters_in(sql))
    try:
        pools, rest = pools_in(sql)
    except ValueError as error:
        raise UsageError(f"--sql: {error}") from None
    return SqlQuestion("the statement", "", parameters, (Sentence(_ROWS),), "no rows", None, rest, pools)
