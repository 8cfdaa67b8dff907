"""Any value of Spark into any table that is accepted: the same value comes back, and keys stay apart."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column
from highwater.pipeline.database.dialect import Connection
from highwater.pipeline.errors import PipelineError, SettingsError
from tests.pipeline.database.spark_values import SPARK_TYPES, SparkType, is_same, read_back
from tests.pipeline.database.tables import Database, batch

examples = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
by_type = pytest.mark.parametrize("of", SPARK_TYPES, ids=str)

OWN_TYPES: Final[dict[str, Sequence[str]]] = {
    "sqlite": (
        "text", "text collate nocase", "text collate rtrim", "varchar(3)", "char(2)", "string", "integer", "int",
        "bigint", "boolean", "real", "double", "float", "numeric", "decimal(10,2)", "blob", "", "any", "date",
        "datetime", "timestamp", "json", "uuid",
    ),
    "postgresql": (
        "text", "varchar(3)", "varchar(200)", "char(2)", "bpchar", "name", "citext", "json", "jsonb", "uuid", "xml",
        "inet", "text collate loose", "smallint", "integer", "bigint", "numeric", "numeric(10,2)", "numeric(38,10)",
        "numeric(38,38)", "numeric(5,-2)", "numeric(2,4)", "real", "double precision", "money", "boolean", "bytea",
        "date", "timestamp", "timestamptz", "timestamp(0)", "timestamptz(3)", "timestamptz(6)", "time", "point",
        "interval", "bit(3)", "oid",
    ),
    "mysql": (
        "varchar(3)", "varchar(50)", "varchar(50) collate utf8mb4_bin", "varchar(50) collate utf8mb4_unicode_ci",
        "varchar(50) character set latin1", "varchar(50) character set ascii", "char(3)", "tinytext", "text",
        "longtext", "enum('a','1','2')", "set('a','b')", "json", "tinyint", "tinyint unsigned", "int",
        "int unsigned zerofill", "bigint unsigned", "bit(3)", "year", "decimal(10,2)", "decimal(38,10)",
        "decimal(38,30)", "decimal(5,0)", "decimal(10,2) unsigned", "float", "float(7,2)", "double", "double(10,2)",
        "double unsigned", "binary(3)", "varbinary(3)", "varbinary(50)", "tinyblob", "longblob", "date", "datetime",
        "datetime(3)", "datetime(6)", "timestamp", "timestamp(6) null", "time(6)",
    ),
}  # fmt: skip


OWN_KEYS: Final[dict[str, Sequence[str]]] = {
    "sqlite": ("primary key (value)", "primary key (value) on conflict ignore", "unique (value collate nocase)"),
    "postgresql": ("primary key (value)", "unique (value) include (number)"),
    "mysql": ("primary key (value)", "primary key (value(2))", "unique key (value)"),
}


class KeptOpen:
    """A connection for all examples of a test: to connect takes longer than an example."""

    def __init__(self, real: Connection) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def close(self) -> None:
        self._real.rollback()


@pytest.fixture
def own(any_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """With what tables of one's own may use."""
    database = any_database
    connection = database.dialect.connect()
    monkeypatch.setattr(database.dialect, "connect", lambda: KeptOpen(connection))
    if database.kind == "postgresql":
        loose = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
        database.sql("create extension if not exists citext", f"create collation if not exists loose ({loose})")
    yield database
    connection.close()


@contextmanager
def a_table(database: Database, columns: str = "") -> Iterator[tuple[str, bool]]:
    """The name of a table for one example, and whether it is there. columns: of a table of one's own."""
    table, is_there = f"t{uuid.uuid4().hex}", bool(columns)
    if columns:
        try:
            database.sql(f"create table {table} ({columns})")
        except database.dialect.errors:  # this database has no such key
            is_there = False
    try:
        yield table, is_there
    finally:
        database.sql(f"drop table if exists {table}")


def write(
    database: Database, of: SparkType, table: str, number: int, rows: Sequence[tuple[int, Any]], **more: Any
) -> None:
    arrays = [pa.array([each for each, _ in rows], pa.int32()), of.array([value for _, value in rows])]
    piece = pa.RecordBatch.from_arrays(arrays, names=["number", "value"])
    columns = (Column("number", kinds.INTEGER), of.column("value"))
    database.writer(table, table, **more).write(batch(number), columns, [piece])


def refusal(*given: Any, **more: Any) -> str:
    """The line that refuses to write; empty if all is written."""
    try:
        write(*given, **more)
    except PipelineError as refused:
        return str(refused)
    return ""


def is_refused(database: Database, of: SparkType, value: Any) -> bool:
    """Whether the table that the sink creates has no place for a value."""
    kind = database.kind
    if kind == "mysql" and of.scale > 30:
        return True
    if value is None:
        return False
    if of.kind == kinds.STRING:
        return kind == "postgresql" and "\0" in value
    if of.kind in (kinds.FLOAT, kinds.DOUBLE):
        return (math.isnan(value) and kind != "postgresql") or (math.isinf(value) and kind == "mysql")
    if of.kind not in (kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ) or kind == "sqlite":
        return False
    days = value if of.kind == kinds.DATE else value // 86_400_000_000
    if kind == "mysql":
        return not -719_162 <= days <= 2_932_896  # the years 1 to 9999
    return not -2_440_588 <= days <= 2_145_031_948  # 24 November of 4714 BC to 5874897


@by_type
@examples
@given(data=st.data())
def test_a_table_that_the_sink_creates(own: Database, of: SparkType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(of.values, st.none()), min_size=1, max_size=8))
    with a_table(own) as (table, _):
        if any(is_refused(own, of, each) for each in values):
            with pytest.raises(SettingsError, match="column value ") as refused:
                write(own, of, table, 0, list(enumerate(values)))
            assert "\n" not in str(refused.value)
            return
        write(own, of, table, 0, list(enumerate(values)))
        found = read_back(own, of, table)
    assert len(found) == len(values)
    assert all(map(is_same, values, found)), (values, found)


@by_type
@examples
@given(data=st.data())
def test_a_table_of_ones_own(own: Database, of: SparkType, data: st.DataObject) -> None:
    """Accepted means that all values come back; refused, that nothing is written."""
    declared = data.draw(st.sampled_from(OWN_TYPES[own.kind]))
    values = data.draw(st.lists(st.one_of(of.values, st.none()), min_size=1, max_size=3))
    with a_table(own, f"number integer, value {declared}") as (table, is_there):
        if not is_there:
            return
        if refused := refusal(own, of, table, 0, list(enumerate(values)), create=False):
            assert own.rows(table) == [], refused
            return
        found = read_back(own, of, table)
    assert len(found) == len(values)
    assert all(map(is_same, values, found)), (declared, values, found)


def spark_key(value: Any) -> object:
    """Equal for values that are one key for Spark."""
    return str(value + 0.0) if isinstance(value, float) else value


@by_type
@pytest.mark.parametrize("is_own", [False, True], ids=["created", "own"])
@examples
@given(data=st.data())
def test_keys(own: Database, of: SparkType, is_own: bool, data: st.DataObject) -> None:
    """Two batches, each with one row for each of Spark's keys: there are as many rows as keys, each the last one."""
    chosen = (st.sampled_from(OWN_TYPES[own.kind]), st.sampled_from(OWN_KEYS[own.kind]))
    declared, key = (data.draw(each) for each in chosen) if is_own else ("", "")
    rows_of_one = st.lists(of.values, min_size=1, max_size=4, unique_by=spark_key)
    batches = data.draw(st.tuples(rows_of_one, rows_of_one))
    written: dict[object, int] = {}
    with a_table(own, f"number integer, value {declared} not null, {key}" if is_own else "") as (table, is_there):
        if is_own and not is_there:
            return
        for turn, of_batch in enumerate(batches):
            rows = [(turn * 10 + number, value) for number, value in enumerate(of_batch)]
            if refused := refusal(own, of, table, turn, rows, key=["value"], create=not is_own):
                assert is_own or any(is_refused(own, of, each) for each in of_batch), refused
                assert "two rows of one batch" not in refused, (declared, of_batch)
                break
            written |= {spark_key(value): number for number, value in rows}
        if written:
            numbers = [number for (number,) in own.sql(f"select number from {table} order by number")]
            found = {spark_key(value): number for value, number in zip(read_back(own, of, table), numbers, strict=True)}
            assert found == written, (declared, key)
