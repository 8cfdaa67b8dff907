"""Which columns of a frame a table takes, and how a refusal reads."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    IntegerType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.tables.columns import arrow_schema_of, check_columns, fitted

TABLE = "the table"
HELD = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("word", pa.large_string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tags", pa.large_list(pa.large_string())),
    ]
)


FITS: dict[str, DataType] = {
    "tags": ArrayType(StringType()),
    "at": TimestampType(),
    "word": VarcharType(9),
    "id": ShortType(),
}


def frame(**types: DataType) -> pa.Schema:
    return arrow_schema_of(StructType([StructField(name, each) for name, each in types.items()]))


def test_other_names_of_the_same_types_and_narrower_numbers() -> None:
    check_columns(TABLE, frame(**FITS), HELD)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"wort": StringType()}, "the table has no column wort; did you mean word?"),
        ({"id": StringType()}, "column id is string in the frame and int64 in the table: cast it"),
        ({"id": DoubleType()}, "column id is double in the frame and int64 in the table: cast it"),
        ({"at": TimestampNTZType()}, "column at is timestamp[us] in the frame and timestamp[us, tz=UTC] in the table"),
        ({"tags": ArrayType(IntegerType())}, "column tags is list<item: int32> in the frame and list<item: string>"),
        ({"id": VariantType()}, "column id is variant, which tables do not hold: cast it to text"),
        ({"id": CalendarIntervalType()}, "column id is interval, which tables do not hold: cast it to text"),
        ({"id": DayTimeIntervalType()}, "column id is duration[us] in the frame and int64 in the table"),
    ],
)
def test_what_does_not_fit(change: dict[str, DataType], refusal: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_columns(TABLE, frame(**{**FITS, **change}), HELD)
    assert refusal in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_column_that_the_frame_lacks() -> None:
    with pytest.raises(SettingsError, match="the table has a column word, and the frame has not: select it too"):
        check_columns(TABLE, frame(id=ShortType()), HELD)


def test_rows_come_in_the_order_and_the_types_of_the_table() -> None:
    given = pa.record_batch({"word": ["a", None], "id": pa.array([1, 2], pa.int16()), "x": [0, 0]})
    held = pa.schema([HELD.field("id"), HELD.field("word")])
    assert fitted(TABLE, given, held) == pa.record_batch([[1, 2], ["a", None]], schema=held)
    missing = pa.record_batch({"id": pa.array([1, None], pa.int64()), "word": ["a", "b"]})
    with pytest.raises(SettingsError, match="column id of the table takes no null, and is null in a row"):
        fitted(TABLE, missing, held)
