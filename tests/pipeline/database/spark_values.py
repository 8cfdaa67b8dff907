"""Any value of each type of Spark, as Arrow gives it to a sink, and as the database's own client reads it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column
from tests.pipeline.database.tables import Database

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US: Final = 86_400_000_000
_TIMES: Final = (kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ)


@dataclass(frozen=True)
class SparkType:
    """values: days and microseconds since 1970 for dates and times, Python's objects for the others."""

    kind: str
    arrow_type: pa.DataType
    values: st.SearchStrategy[Any]
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return str(self.column("value"))

    def column(self, name: str) -> Column:
        return Column(name, self.kind, self.precision, self.scale)

    def array(self, values: list[Any]) -> pa.Array:
        if self.kind == kinds.DATE:
            return pa.array(values, pa.int32()).cast(self.arrow_type)
        if self.kind in _TIMES:
            return pa.array(values, pa.int64()).cast(self.arrow_type)
        return pa.array(values, self.arrow_type)


def _whole(bits: int) -> st.SearchStrategy[int]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.one_of(st.integers(-3, 300), st.integers(least, most)).filter(lambda each: least <= each <= most)


def _decimal(precision: int, scale: int) -> SparkType:
    most = 10**precision - 1
    values = st.one_of(st.integers(-most, most), st.integers(max(-most, -2000), min(most, 2000)))
    return SparkType(
        kinds.DECIMAL,
        pa.decimal128(precision, scale),
        values.map(lambda each: Decimal(f"{each}E-{scale}")),
        precision,
        scale,
    )


def _days(first: date, last: date) -> st.SearchStrategy[int]:
    return st.dates(first, last).map(lambda each: (each - date(1970, 1, 1)).days)


def _microseconds() -> st.SearchStrategy[int]:
    known = st.datetimes(timezones=st.just(UTC)).map(lambda each: (each - _EPOCH) // timedelta(microseconds=1))
    # What a producer sends that counts microseconds where milliseconds are due, and all others.
    return st.one_of(known, known, st.just(1_764_361_007_123_456_000), st.integers(-(1 << 63), (1 << 63) - 1))


_TEXT: Final = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["a", "A", "a ", "ä", "A ", "á", "", " ", "NULL", "\\N", "ab   ", "12", "1", "01", "1.0", "😀"]),
)

SPARK_TYPES: Final = (
    SparkType(kinds.BOOLEAN, pa.bool_(), st.booleans()),
    SparkType(kinds.BYTE, pa.int8(), _whole(8)),
    SparkType(kinds.SHORT, pa.int16(), _whole(16)),
    SparkType(kinds.INTEGER, pa.int32(), _whole(32)),
    SparkType(kinds.LONG, pa.int64(), _whole(64)),
    SparkType(kinds.FLOAT, pa.float32(), st.floats(width=32)),
    SparkType(kinds.DOUBLE, pa.float64(), st.floats()),
    _decimal(6, 0),
    _decimal(10, 2),
    _decimal(38, 10),
    _decimal(38, 30),
    _decimal(38, 38),
    SparkType(kinds.STRING, pa.string(), _TEXT),
    SparkType(kinds.BINARY, pa.binary(), st.binary(max_size=12)),
    SparkType(
        kinds.DATE,
        pa.date32(),
        st.one_of(_days(date.min, date.max), _days(date.min, date.max), st.integers(-(1 << 31), (1 << 31) - 1)),
    ),
    SparkType(kinds.TIMESTAMP, pa.timestamp("us", "UTC"), _microseconds()),
    SparkType(kinds.TIMESTAMP_NTZ, pa.timestamp("us"), _microseconds()),
)


def read_back(database: Database, of: SparkType, table: str) -> list[Any]:
    """The column `value` in the order of `number`, by SQL of each database and by nothing of Highwater's."""
    value = "value"
    if database.kind == "postgresql" and of.kind in _TIMES:
        is_date = of.kind == kinds.DATE
        # The epoch of the last moment of 64 bits has 16 digits: PostgreSQL divides it as a numeric, and rounds.
        seconds = "extract(epoch from date_trunc('second', value))::bigint"
        moment = f"{seconds} * 1000000 + extract(microseconds from value)::bigint % 1000000"
        value = "value - date '1970-01-01'" if is_date else moment
    rows = database.sql(f"select {value} from {table} order by number")
    return [None if found is None else _READERS.get(of.kind, lambda each: each)(found) for (found,) in rows]


def is_same(given: Any, found: Any) -> bool:
    if isinstance(given, float) and isinstance(found, float | int | Decimal):
        return (math.isnan(given) and math.isnan(found)) or given == float(found)
    return bool(given == found) and isinstance(given, bytes) == isinstance(found, bytes)


def _day(found: Any) -> int:
    if isinstance(found, str):
        return int(np.datetime64(found.removeprefix("+"), "D").astype(np.int64))
    return (found - date(1970, 1, 1)).days if isinstance(found, date) else int(found)


def _moment(found: Any) -> int:
    if isinstance(found, str):
        day, _, time = found.removesuffix("Z").partition(" ")
        since = timedelta() if not time else datetime.strptime(f"1970 {time}+0000", "%Y %H:%M:%S.%f%z") - _EPOCH
        return _day(day) * _DAY_US + since // timedelta(microseconds=1)
    if isinstance(found, datetime):
        return (found.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    return int(found)


def _float(found: Any) -> float:
    """The nearest number of 32 bits: databases have texts or 64 bits for it."""
    return float(np.float32(float(found)))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    kinds.BOOLEAN: bool,
    kinds.FLOAT: _float,
    kinds.DOUBLE: lambda found: float(found),
    kinds.DECIMAL: Decimal,
    kinds.BINARY: bytes,
    kinds.DATE: _day,
    kinds.TIMESTAMP: _moment,
    kinds.TIMESTAMP_NTZ: _moment,
}
