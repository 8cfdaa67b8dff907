"""Every type that is taken comes back from each database with the same value, and every other one is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from highwater.pipeline.database.columns import Column, check_columns
from highwater.pipeline.database.sink import columns_of
from highwater.pipeline.database.values import as_text, hexadecimal, holds_nul, python_values
from highwater.pipeline.errors import SettingsError
from tests.database_servers import Server
from tests.pipeline.database.tables import COLUMNS, SCHEMA, Database, batch, write

TEXTS = [
    "",
    "NULL",
    "\\N",
    "\\.",
    "a\n\\.\nb",
    "q\"uo'te",
    "tab\tand\r\nlines",
    "back\\slash",
    "ä€😀",
    "%s ${x} {0}",
    None,
]
BYTES = [b"", b"\0\x01\xff", b"'", b"\\x00", bytes(range(256)), None]
EARLY = datetime.fromisoformat("1000-01-01 00:00:00")
LATE = datetime.fromisoformat("2262-04-12 01:02:03.000004")
WIDE = pa.timestamp("us", tz="UTC")
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-128, 127, None]),
    "short": (pa.int16(), [-32768, 32767, None]),
    "integer": (pa.int32(), [-(1 << 31), (1 << 31) - 1, None]),
    "long": (pa.int64(), [-(1 << 63), (1 << 63) - 1, 0, None]),
    "float": (pa.float32(), [0.5, -1.25, None]),
    "double": (pa.float64(), [0.1, -1e300, 5e-324, 1 / 3, None]),
    "decimal": (
        pa.decimal128(38, 10),
        [Decimal("1.5000000000"), Decimal("-1234567890123456789012345678.0123456789"), None],
    ),
    "string": (pa.string(), TEXTS),
    "large string": (pa.large_string(), TEXTS),
    "binary": (pa.binary(), BYTES),
    "large binary": (pa.large_binary(), BYTES),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
    "timestamp": (WIDE, [datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 4, 12, 1, 2, 3, 456789, tzinfo=UTC), None]),
    "timestamp without zone": (pa.timestamp("us"), [EARLY, LATE, None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back(database: Database, kind: str) -> None:
    arrow_type, values = VALUES[kind]
    schema = pa.schema([("number", pa.int32()), ("value", arrow_type)])
    write(database.writer(), batch(0), list(enumerate(values)), schema)
    found = [value for _, value in sorted(database.sql("select number, value from results"))]
    assert [as_given(each, value) for each, value in zip(found, values, strict=True)] == values


def as_given(found: Any, given: Any) -> Any:
    """SQLite has no booleans, decimals and times, and MySQL no booleans and zones."""
    match given:
        case bool():
            return bool(found)
        case Decimal():
            return Decimal(found)
        case datetime():
            moment = datetime.fromisoformat(found) if isinstance(found, str) else found
            return moment if given.tzinfo is None else moment.replace(tzinfo=moment.tzinfo or UTC)
        case date():
            return date.fromisoformat(found) if isinstance(found, str) else found
        case _:
            return found


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back_through_a_key(database: Database, kind: str) -> None:
    """By way of the stage."""
    arrow_type, values = VALUES[kind]
    schema = pa.schema([("number", pa.int32()), ("value", arrow_type)])
    for turn in range(2):
        write(database.writer(key=["number"]), batch(turn), list(enumerate(values)), schema)
    found = [value for _, value in sorted(database.sql("select number, value from results"))]
    assert [as_given(each, value) for each, value in zip(found, values, strict=True)] == values


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
def test_numbers_that_not_every_database_has(database: Database, value: float, arrow_type: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", arrow_type)])
    is_taken = database.kind == "postgresql" or (database.kind == "sqlite" and not math.isnan(value))
    if is_taken:
        write(database.writer(), batch(0), [(1, value)], schema)
        assert str(database.rows()[0][1]) == str(value)
        return
    with pytest.raises(SettingsError, match=r"column value holds (NaN|an infinite number), which \w+ does not store"):
        write(database.writer(), batch(0), [(1, value)], schema)
    assert database.rows() == []


@pytest.mark.parametrize(
    ("arrow_type", "way_out"),
    [
        (pa.list_(pa.int32()), "write it as text with to_json"),
        (pa.struct([("a", pa.int32())]), "write it as text with to_json"),
        (pa.map_(pa.string(), pa.int32()), "write it as text with to_json"),
        (pa.duration("us"), "cast it to another type"),
        (pa.time64("us"), "cast it to another type"),
        (pa.null(), "cast it to another type"),
    ],
)
def test_types_that_no_column_holds(arrow_type: Any, way_out: str) -> None:
    with pytest.raises(SettingsError, match=f"column odd is .*, which a database column does not hold: {way_out}"):
        check_columns(columns_of(from_arrow_schema(pa.schema([("id", pa.int64()), ("odd", arrow_type)]))))


def test_names_that_differ_in_capitals_alone() -> None:
    with pytest.raises(SettingsError, match="two columns are named id"):
        check_columns([Column("id", "long"), Column("ID", "long")])


def test_a_frame_without_columns() -> None:
    with pytest.raises(SettingsError, match="the frame has no column"):
        check_columns([])


def test_decimals_that_a_table_would_cut(database: Database) -> None:
    database.sql("create table results (id bigint, value decimal(10,2))")
    schema = pa.schema([("id", pa.int64()), ("value", pa.decimal128(10, 4))])
    expected = r"column value of table results is \w+\(10,2\).*, and the frame has decimal\(10,4\): alter it to "
    with pytest.raises(SettingsError, match=expected):
        write(database.writer(), batch(0), [(1, Decimal("1.2345"))], schema)


def test_hexadecimal_of_slices() -> None:
    column = pa.array([b"\x00\xff", None, b"", b"abc"])
    assert hexadecimal(column).to_pylist() == ["00ff", None, "", "616263"]
    assert hexadecimal(column[1:]).to_pylist() == [None, "", "616263"]
    assert hexadecimal(column[3:]).to_pylist() == ["616263"]
    assert hexadecimal(column[:0]).to_pylist() == []


def test_rows_larger_than_a_statement(database: Database) -> None:
    rows = [(number, "x" * size) for number, size in enumerate((10, 3 << 20, 1, 1 << 20, 3 << 20, 0))]
    write(database.writer(), batch(0), rows)
    assert sorted((number, len(text)) for number, text in database.rows()) == [
        (number, len(text)) for number, text in rows
    ]


def test_times_in_another_zone(database: Database) -> None:
    """Spark's timestamps are moments: what is stored is the same moment, whatever the zone of the column."""
    moment = datetime(2024, 6, 1, 12, tzinfo=UTC)
    schema = pa.schema([("id", pa.int64()), ("value", pa.timestamp("us", tz="Asia/Kolkata"))])
    write(database.writer(), batch(0), [(1, moment)], schema)
    assert as_given(database.rows()[0][1], moment) == moment
    assert moment - as_given(database.rows()[0][1], moment) == timedelta(0)


FAR = (1_764_361_007_123_456_000, "+57880-05-16 23:45:23.456000")
"""A producer that sends microseconds where milliseconds are due, in Spark's microseconds and as text."""


@pytest.mark.parametrize(
    ("arrow_type", "number", "text"),
    [
        (pa.timestamp("us", "UTC"), FAR[0], f"{FAR[1]}Z"),
        (pa.timestamp("us"), FAR[0], FAR[1]),
        (pa.timestamp("us"), -(1 << 63), "-290308-12-21 19:59:05.224192"),
        (pa.date32(), -735_160, "-0043-03-15"),
        (pa.date32(), -719_528, "0000-01-01"),
        (pa.date32(), 2_932_896, "9999-12-31"),
        (pa.date32(), 2_932_897, "+10000-01-01"),
        (pa.date32(), (1 << 31) - 1, "+5881580-07-11"),
    ],
)
def test_text_of_far_years(arrow_type: Any, number: int, text: str) -> None:
    whole = pa.int32() if arrow_type == pa.date32() else pa.int64()
    assert as_text(pa.array([number, None], whole).cast(arrow_type)).to_pylist() == [text, None]


def test_times_that_a_database_does_not_hold(database: Database) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", WIDE)])
    piece = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([FAR[0]]).cast(WIDE)], schema=schema)
    columns = columns_of(from_arrow_schema(schema))
    if database.kind == "mysql":
        expected = (
            rf"column value holds \{FAR[1]}Z, which datetime\(6\) of table results does not: filter such rows out"
        )
        with pytest.raises(SettingsError, match=expected):
            database.writer().write(batch(0), columns, [piece])
        return
    database.writer().write(batch(0), columns, [piece])
    text = {"sqlite": f"{FAR[1]}Z", "postgresql": "57880-05-16 23:45:23.456+00"}
    database.sql(*["set time zone 'UTC'"] * (database.kind == "postgresql"))
    shown = "value" if database.kind == "sqlite" else "(value at time zone 'UTC')::text || '+00'"
    assert database.sql(f"select {shown} from results") == [(text[database.kind],)]


@pytest.mark.parametrize("octets", [b"a\xffb", b"\xed\xa0\x80"])
def test_texts_that_are_no_utf_8(database: Database, octets: bytes) -> None:
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([octets, b"b"], pa.binary()).buffers())
    piece = pa.RecordBatch.from_arrays([pa.array([1, 2]), bad], schema=SCHEMA)
    with pytest.raises(SettingsError, match=r"column word holds bytes that are no UTF-8.*make_valid_utf8\(word\)"):
        database.writer().write(batch(0), COLUMNS, [piece])
    assert database.rows() == []


@pytest.mark.slow
def test_a_text_with_nul(postgresql: Server) -> None:
    database = Database(postgresql.url)
    database.clear()
    with pytest.raises(SettingsError, match="column word holds a text with the character 0x00, which postgresql does"):
        write(database.writer(), batch(0), [(1, "a\0b")])


@pytest.mark.slow
def test_a_value_that_no_statement_carries(mariadb: Server) -> None:
    database = Database(mariadb.url)
    database.clear()
    expected = r"column word holds a value of 9,000,000 bytes, .* max_allowed_packet=16777216: raise that setting"
    with pytest.raises(SettingsError, match=expected):
        write(database.writer(), batch(0), [(1, "a"), (2, "x" * 9_000_000)])
    assert database.rows() == []
    write(database.writer(), batch(0), [(1, "a"), (2, "x" * 8_000_000)])
    assert len(database.rows()) == 2


@pytest.mark.parametrize(
    ("declared", "value", "sentence"),
    [
        ("varchar(2)", "ab   ", r"holds a value of 5 characters, and .*\(2\) of table results takes 2"),
        ("varchar(2) not null", None, "is null in a row, and .* of table results takes no null"),
        ("smallint", 70_000, "holds 70000, which smallint.* of table results does not"),
        ("numeric(3,1)", 100, "holds 100, which .* of table results does not"),
    ],
)
def test_a_value_that_a_column_does_not_take(database: Database, declared: str, value: Any, sentence: str) -> None:
    if database.kind == "sqlite" and "not null" not in declared:
        sentence = ""  # its types have no limits
    database.sql(f"create table results (id bigint, value {declared})")
    schema = pa.schema([("id", pa.int64()), ("value", pa.int64() if isinstance(value, int) else pa.string())])
    if not sentence:
        write(database.writer(), batch(0), [(1, value)], schema)
        assert database.rows() == [(1, value)]
        return
    with pytest.raises(SettingsError, match=f"^column value {sentence}"):
        write(database.writer(), batch(0), [(1, None), (2, value)] if value else [(1, value)], schema)
    assert database.rows() == []


def test_nul_in_slices() -> None:
    column = pa.array(["a", None, "b\0", "c"])
    assert holds_nul(column)
    assert not holds_nul(column[:2])
    assert not holds_nul(column[3:])
    assert not holds_nul(pa.array([None, ""], pa.large_string()))


def test_objects_of_far_years() -> None:
    """Also of what a console shows, where a column has several chunks."""
    times = pa.chunked_array([pa.array([0, FAR[0]], pa.int64()).cast(WIDE), pa.array([None], WIDE)])
    assert python_values(times) == ["1970-01-01 00:00:00.000000Z", f"{FAR[1]}Z", None]
    assert python_values(times[:1]) == [datetime(1970, 1, 1, tzinfo=UTC)]
    assert python_values(pa.array([-719_500], pa.int32()).cast(pa.date32())) == ["0000-01-29"]


def test_the_year_before_the_first(database: Database) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", pa.date32())])
    piece = pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.array([-719_500], pa.int32()).cast(pa.date32())], schema=schema
    )
    columns = columns_of(from_arrow_schema(schema))
    if database.kind == "mysql":
        with pytest.raises(SettingsError, match="column value holds 0000-01-29, which date of table results does not"):
            database.writer().write(batch(0), columns, [piece])
        return
    database.writer().write(batch(0), columns, [piece])
    shown = {"sqlite": ("value", "0000-01-29"), "postgresql": ("value::text", "0001-01-29 BC")}[database.kind]
    assert database.sql(f"select {shown[0]} from results") == [(shown[1],)]
