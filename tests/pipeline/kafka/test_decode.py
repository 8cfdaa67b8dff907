"""The vectorised decoder against the broker's own, over every kind of batch."""

from __future__ import annotations

import pickle
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import HEADER_SIZE, Codec, TimestampType, read_header, update_crc
from highwater.kafka.records.compress import compress
from highwater.kafka.records.record import (
    Record,
    TransactionMarker,
    decode_batch,
    encode_batch,
    encode_end_marker,
    outlines,
    uncompressed_records,
)
from highwater.pipeline.errors import RecordsError, SettingsError
from highwater.pipeline.kafka import records as records_module
from highwater.pipeline.kafka.columns import COLUMNS, DEFAULT_COLUMNS, check_columns, schema_of
from highwater.pipeline.kafka.decode import Decoded, decode
from tests.pipeline.kafka.plain import plain_rows, rows_of

EVERY = tuple(COLUMNS)
NOW_MS = 1_795_000_000_000
_RECORD_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_BASE_OFFSET = struct.Struct(">q")
_LAST_OFFSET_DELTA = struct.Struct(">i")


def read(data: bytes | bytearray, start: int = 0, end: int | None = None, **more: Any) -> Decoded:
    options: dict[str, Any] = {"columns": EVERY, **more}
    return decode(bytes(data), topic="t", partition=3, start_offset=start, end_offset=end, **options)


def batch_of(count: int, base_offset: int = 0, size: int = 10, **more: Any) -> bytearray:
    records = [Record(b"%0*d" % (size, n), b"k%d" % n, NOW_MS + n) for n in range(count)]
    return encode_batch(records, base_offset=base_offset, **more)


def compacted(batch: bytearray, keep: Sequence[int]) -> bytearray:
    """The uncompressed batch with the records of the offset deltas `keep` alone, as the log cleaner leaves it."""
    header = read_header(batch)
    body = uncompressed_records(batch, header)
    kept = b"".join(body[each.start : each.end] for each in outlines(body, header) if each.offset_delta in keep)
    written = batch[:HEADER_SIZE] + kept
    _LENGTH.pack_into(written, 8, len(written) - 12)
    _RECORD_COUNT.pack_into(written, 57, len(keep))
    update_crc(written, 0, len(written))
    return written


keys_and_values = st.none() | st.binary(max_size=12) | st.integers(0, 300).map(lambda size: b"x" * size)
header_keys = st.text(max_size=5)
records = st.builds(
    Record,
    value=keys_and_values,
    key=keys_and_values,
    timestamp_ms=st.integers(-1, 2**42),
    headers=st.lists(st.tuples(header_keys, keys_and_values), max_size=3).map(tuple),
)
equal_records = st.builds(
    lambda record, count: [record] * count, records, st.integers(1, 200)
)  # of runs of equal lengths, the offset's growth apart


@st.composite
def fetches(draw: st.DrawFn) -> bytes:
    """The records of one partition in an answer to Fetch: batches of every kind, the last one perhaps cut off."""
    out = bytearray()
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(0, 5))):
        producer_id = draw(st.sampled_from((-1, 7)))
        if draw(st.integers(0, 6)) == 0:
            batch = encode_end_marker(TransactionMarker(7, 0, 0, draw(st.booleans())), NOW_MS)
            _BASE_OFFSET.pack_into(batch, 0, offset)
            last_offset_delta = 0
        else:
            chosen = draw(st.lists(records, min_size=1, max_size=6) | equal_records)
            codec = draw(st.sampled_from(Codec))
            batch = encode_batch(
                chosen,
                codec=codec,
                base_offset=offset,
                leader_epoch=draw(st.integers(-1, 5)),
                producer_id=producer_id,
                timestamp_type=draw(st.sampled_from(TimestampType)),
            )
            last_offset_delta = len(chosen) - 1
            if codec is Codec.NONE and draw(st.booleans()):
                batch = compacted(batch, sorted(draw(st.sets(st.integers(0, last_offset_delta)))))
        out += batch
        offset += last_offset_delta + 1 + draw(st.integers(0, 3))
    if draw(st.booleans()):
        out += batch_of(3, offset)[: draw(st.integers(0, 90))]
    return bytes(out)


together = pytest.mark.parametrize("batches", [1, 2, 24])
"""How many batches it takes to walk them together: all of them, the shorter ones, none."""


@together
@given(data=fetches(), start=st.integers(-3, 40), length=st.none() | st.integers(0, 60))
def test_equal_to_the_plain_decoder(batches: int, data: bytes, start: int, length: int | None) -> None:
    expected = plain_rows(data)
    start += expected[0]["offset"] if expected else 0
    end = None if length is None else start + length
    with mock.patch("highwater.pipeline.kafka.records._LOCKSTEP_MIN", batches):
        decoded = read(data, start, end)
    wanted = [row for row in expected if row["offset"] >= start and (end is None or row["offset"] < end)]
    assert rows_of(decoded.rows) == wanted
    ends = [
        header.next_offset for header in every_header(data) if end is None or header.base_offset < end
    ]  # of control batches and empty ones too
    if end is not None and any(header.base_offset >= end for header in every_header(data)):
        # A batch behind the range says that nothing of it is missing.
        ends.append(end)
    assert decoded.next_offset == min(max([start, *ends]), start + 2**62 if end is None else end)


def every_header(data: bytes) -> list[Any]:
    found, position = [], 0
    while len(data) - position >= HEADER_SIZE:
        header = read_header(data, position)
        if header.size_bytes > len(data) - position:
            break
        found.append(header)
        position += header.size_bytes
    return found


@given(fetches(), st.sets(st.sampled_from(EVERY), min_size=1))
def test_a_subset_of_the_columns_has_the_same_content(data: bytes, names: set[str]) -> None:
    columns = sorted(names)
    every = read(data)
    some = read(data, columns=columns)
    assert some.rows.schema == schema_of(columns)
    assert rows_of(some.rows) == rows_of(every.rows.select(columns))
    assert (some.next_offset, some.batch_bytes) == (every.next_offset, every.batch_bytes)


def test_headers_of_batches_are_enough_for_some_columns() -> None:
    """The records are damaged, under a right CRC: nobody looks at them."""
    data = batch_of(5)
    data[HEADER_SIZE:] = b"\xff" * (len(data) - HEADER_SIZE)
    update_crc(data, 0, len(data))
    columns = ("topic", "partition", "offset", "timestampType", "batchBytes", "codec", "producerId", "leaderEpoch")
    rows = rows_of(read(data, 1, 4, columns=columns).rows)
    assert [row["offset"] for row in rows] == [1, 2, 3]
    with pytest.raises(RecordsError, match=r"t-3 at offset 0: the records of a batch are damaged"):
        read(data, columns=("offset", "value"))


def test_offsets_of_compacted_batches_come_from_the_records() -> None:
    data = compacted(batch_of(9), [1, 4, 5])
    assert [row["offset"] for row in rows_of(read(data, columns=("offset",)).rows)] == [1, 4, 5]
    assert read(data).next_offset == 9


def test_a_range_of_which_nothing_is_left_is_read() -> None:
    data = batch_of(5, base_offset=0) + batch_of(5, base_offset=100)
    assert read(data, 0, 50).next_offset == 50
    assert read(data, 7, 50).next_offset == 50
    assert read(data, 7, 50).rows.num_rows == 0
    # The batches may still come, as long as none behind the range is there.
    assert read(batch_of(5, base_offset=0), 0, 50).next_offset == 5


def test_the_schema_is_that_of_sparks_connector() -> None:
    decoded = decode(batch_of(1), topic="t", partition=3, start_offset=0)
    assert decoded.rows.schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestampType", pa.int32()),
        ]
    )
    assert tuple(decoded.rows.schema.names) == DEFAULT_COLUMNS


@pytest.mark.parametrize("data", [b"", b"\0" * 16, batch_of(3)[:-1]])
def test_nothing_whole(data: bytes) -> None:
    decoded = decode(data, topic="t", partition=3, start_offset=8)
    assert (decoded.rows.num_rows, decoded.next_offset, decoded.batch_bytes) == (0, 8, 0)
    assert decoded.rows.schema == schema_of(DEFAULT_COLUMNS)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytearray:
    batch = encode_end_marker(TransactionMarker(producer_id, 0, 0, is_commit), NOW_MS)
    _BASE_OFFSET.pack_into(batch, 0, offset)
    return batch


def test_aborted_transactions_are_hidden_from_readers_of_committed_records() -> None:
    def part(offset: int, producer_id: int, is_transactional: bool = True) -> bytearray:
        return batch_of(2, offset, producer_id=producer_id, is_transactional=is_transactional)

    data = b"".join(
        (
            part(0, 1),  # aborted
            part(2, 2),  # committed
            part(4, -1, False),
            marker(6, 1, is_commit=False),
            part(7, 1),  # committed: after the marker of the aborted one
            marker(9, 2, is_commit=True),
            part(10, 2),  # aborted, its marker is not here yet
            marker(12, 1, is_commit=True),
        )
    )
    aborted = [(2, 10), (1, 0)]
    assert offsets(read(data, aborted=aborted)) == [2, 3, 4, 5, 7, 8]
    assert offsets(read(data, aborted=None)) == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11]
    assert offsets(read(data, 1, aborted=aborted)) == [2, 3, 4, 5, 7, 8]
    assert read(data, aborted=aborted).next_offset == 13


def offsets(decoded: Decoded) -> list[int]:
    found: list[int] = decoded.rows.column("offset").to_pylist()
    return found


def test_a_wrong_crc_names_the_place() -> None:
    data = batch_of(3, 10) + batch_of(3, 13)
    data[-1] ^= 1
    with pytest.raises(RecordsError, match=r"^t-3 at offset 13: the CRC of a batch of ") as caught:
        read(data)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 3, 13)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - of our own making
    assert (str(copy), copy.offset) == (str(caught.value), 13)
    assert offsets(read(data, 10, 13)) == [10, 11, 12]


@pytest.mark.parametrize("magic", [0, 1])
def test_message_formats_from_before_kafka_0_11(magic: int) -> None:
    message = struct.pack(">qiIbb", 44, 30, 0, magic, 0) + b"\0" * 24
    with pytest.raises(RecordsError, match=rf"^t-3 at offset 44: records in message format {magic}, from before Kafka"):
        read(message)


@pytest.mark.parametrize(
    ("position", "form", "value", "text"),
    [
        (16, "b", 9, "message format 9 is unknown"),
        (8, ">i", 20, "a batch claims 20 bytes, fewer than its header has"),
        (8, ">i", -5, "a batch claims -5 bytes, fewer than its header has"),
        (57, ">i", -1, "a batch has a negative number of records"),
        (57, ">i", 1 << 30, "a batch claims more records than its bytes can hold"),
        (23, ">i", -1, "a batch ends before it begins"),
        (21, ">h", 6, "a batch has a compression that does not exist"),
        (21, ">h", 2, "a batch of .* bytes cannot be unpacked"),
        (57, ">i", 2, "the records of a batch are damaged: the records end"),
        (57, ">i", 4, "the records of a batch are damaged: 1 of 4 records are missing"),
        (23, ">i", 1, "the records of a batch are damaged: a record has an offset outside of its batch"),
    ],
)
def test_damage_under_a_right_crc(position: int, form: str, value: int, text: str) -> None:
    good, bad = batch_of(3, 40), batch_of(3, 43)
    struct.pack_into(form, bad, position, value)
    if position > 17:
        update_crc(bad, 0, len(bad))
    with pytest.raises(RecordsError, match=f"^t-3 at offset 43: {text}"):
        read(good + bad)


@pytest.mark.parametrize("base_ms", [2**62, -(2**62), 1_764_361_007_123_456_789, 2**63 - 1, -(2**63)])
def test_a_time_that_microseconds_cannot_hold_is_null_and_ends_no_read(base_ms: int) -> None:
    good, far = batch_of(3, 40), batch_of(3, 43)
    struct.pack_into(">q", far, 27, base_ms)
    update_crc(far, 0, len(far))
    rows = read(good + far + batch_of(2, 46), columns=DEFAULT_COLUMNS).rows.to_pylist()
    assert [row["offset"] for row in rows if row["timestamp"] is None] == [43, 44, 45]
    assert len({row["timestamp"] for row in rows}) == 4
    assert all(row["value"] is not None for row in rows)


@pytest.mark.parametrize("count", [2048, 1 << 30])
def test_compressed_records_that_are_too_few_bytes(count: int) -> None:
    batch = batch_of(1, 43)[:HEADER_SIZE] + compress(Codec.ZSTD, b"\x10" + bytes(511))
    _LENGTH.pack_into(batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, Codec.ZSTD)
    _RECORD_COUNT.pack_into(batch, 57, count)
    _LAST_OFFSET_DELTA.pack_into(batch, 23, count - 1)
    update_crc(batch, 0, len(batch))
    with pytest.raises(RecordsError, match=r"^t-3 at offset 43: a batch claims more records than its bytes can hold"):
        read(batch)


@together
@given(body=st.binary(max_size=60), count=st.integers(1, 4), codec=st.sampled_from([Codec.NONE, Codec.ZSTD]))
def test_random_bytes_as_records_are_refused_or_read_like_the_plain_decoder(
    batches: int, body: bytes, count: int, codec: Codec
) -> None:
    batch = batch_of(count)[:HEADER_SIZE] + compress(codec, body)
    _LENGTH.pack_into(batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    update_crc(batch, 0, len(batch))
    try:
        with mock.patch("highwater.pipeline.kafka.records._LOCKSTEP_MIN", batches):
            rows = rows_of(read(batch).rows)
    except RecordsError:
        return
    assert [row["value"] for row in rows] == [record.value for record in decode_batch(batch)]


def varint(value: int) -> bytes:
    """Of up to 70 bits, as protocol buffers have it, so that it can also be one that Kafka does not write."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


# Each width, from both ends; the widths of one read are mixed or alike.
widths = st.integers(0, 8).flatmap(lambda width: st.sampled_from((1, -1)).map(lambda sign: sign << 7 * width + 5))
numbers = st.integers(-(2**63), 2**63 - 1) | widths | st.integers(-9000, 9000)


@given(st.lists(numbers, max_size=8) | st.lists(st.integers(-8192, 8191)) | st.lists(st.integers(-64, 63)))
def test_numbers_of_every_width_are_read(values: list[int]) -> None:
    encoded = [varint(value) for value in values]
    starts = np.cumsum([0, *map(len, encoded)])
    octets = np.frombuffer(b"".join(encoded) + b"\xff", np.uint8)
    found, after = records_module.read_varints(octets, starts[:-1])
    assert found.dtype == after.dtype == np.int64
    assert (found.tolist(), after.tolist()) == (values, starts[1:].tolist())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ((0, 0, 30), "a key does not fit into its record"),
        ((0, 0, -2), "a key does not fit into its record"),
        ((0, 0, 2**63 - 1), "a key does not fit into its record"),
        ((0, 0, -1, 2**63 - 1), "a value does not fit into its record"),
        ((0, 0, -1, -2), "a value does not fit into its record"),
        ((0, 0, -1, -1, -1), "a record's number of headers cannot be"),
        ((0, 0, -1, -1, 0, 0), "a record ends before its length does"),
        ((0, 0, -1, -1, 1, 2**63 - 1), "a header's key does not fit into its record"),
        ((0, 0, -1, -1, 1, -1, 0), "a record header has no key"),
        ((0, 0, -1, -1, 1, 0, 2**62), "a header's value does not fit into its record"),
        ((2**77,), "a variable-length integer does not end"),
    ],
)
def test_a_field_that_leaves_its_record_is_damage(fields: tuple[int, ...], text: str) -> None:
    """Also where a position plus a length is more than 64 bits, and would begin again from below."""
    record = b"\0" + b"".join(map(varint, fields)) + bytes(9)
    batch = batch_of(1, 43)[:HEADER_SIZE] + varint(len(record)) + record
    _LENGTH.pack_into(batch, 8, len(batch) - 12)
    update_crc(batch, 0, len(batch))
    with pytest.raises(RecordsError, match=f"^t-3 at offset 43: the records of a batch are damaged: {text}"):
        read(batch)


def test_batches_in_the_wrong_order() -> None:
    with pytest.raises(RecordsError, match=r"^t-3 at offset 2: a batch begins before the one before it ends"):
        read(batch_of(3) + batch_of(3, 2))


def test_many_batches_of_different_counts() -> None:
    data, offset = bytearray(), 0
    for count in (3, 400, 1, 50, *range(1, 60)):
        data += batch_of(count, offset, size=count * 3)
        offset += count
    assert rows_of(read(data).rows) == plain_rows(bytes(data))


def varied_batch(inside: bytes = b"", base_offset: int = 70) -> bytearray:
    """Large, and of records that vary in length: it is divided."""
    chooser = random.Random(base_offset)
    values = [inside + chooser.randbytes(chooser.randrange(200)) for _ in range(4000)]
    return encode_batch([Record(value, b"k", NOW_MS, (("h", b"\0" * 9),)) for value in values], base_offset=base_offset)


def test_a_large_batch_of_records_that_vary_in_length_is_divided() -> None:
    data = bytes(varied_batch())
    with mock.patch("highwater.pipeline.kafka.records._walk", wraps=records_module._walk) as walk:
        rows = rows_of(read(data).rows)
    assert rows == plain_rows(data)
    ((_, _, parts),) = [call.args for call in walk.call_args_list]
    assert len(parts) > 20


def test_large_batches_among_small_ones_are_divided() -> None:
    batches = (batch_of(9), varied_batch(), varied_batch(b"", 4070), batch_of(300, 9000), varied_batch(b"", 12_000))
    data = bytes(b"".join(batches))
    with mock.patch("highwater.pipeline.kafka.records._walk", wraps=records_module._walk) as walk:
        rows = rows_of(read(data).rows)
    assert rows == plain_rows(data)
    ((_, _, parts),) = [call.args for call in walk.call_args_list]
    ends = np.cumsum([len(batch) for batch in batches])
    found = np.bincount(np.searchsorted(ends, [part.start for part in parts], side="right"), minlength=len(batches))
    assert found[[0, 3]].tolist() == [1, 1]
    assert (found[[1, 2, 4]] > 20).all()


def test_what_only_looks_like_a_record_divides_no_batch() -> None:
    # Each value begins with the records 3000 to 3008 of another batch.
    inside = bytes(compacted(batch_of(4000), range(3000, 3009))[HEADER_SIZE:])
    data = bytes(varied_batch(inside))
    assert rows_of(read(data).rows) == plain_rows(data)


def test_a_large_batch_with_gaps_is_read() -> None:
    data = bytes(compacted(varied_batch(), [number for number in range(4000) if number % 7]))
    assert rows_of(read(data).rows) == plain_rows(data)


def test_header_keys_that_are_no_utf8_are_replaced_as_java_does() -> None:
    data = encode_batch([Record(b"v", None, NOW_MS, (("ab", b"1"),))])
    place = data.index(b"ab")
    data[place] = 0xFF
    update_crc(data, 0, len(data))
    assert rows_of(read(data).rows)[0]["headers"] == [{"key": "\N{REPLACEMENT CHARACTER}b", "value": b"1"}]


def test_large_records_and_empty_ones() -> None:
    values = [b"a" * (1 << 20), b"", None, b"b" * 70_000, b"c"]
    data = encode_batch([Record(value, None, NOW_MS) for value in values])
    assert [row["value"] for row in rows_of(read(data).rows)] == values


def test_what_unfolds_beyond_the_memory_is_left_for_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.pipeline.kafka.unpack._BODY_BYTES_MAX", 100_000)
    data = batch_of(5, 0, 10_000, codec=Codec.ZSTD) + batch_of(5, 5, 15_000, codec=Codec.ZSTD)
    first = read(data)
    assert (offsets(first), first.next_offset) == ([0, 1, 2, 3, 4], 5)
    assert first.batch_bytes == read_header(data).size_bytes
    assert offsets(read(data, 5)) == [5, 6, 7, 8, 9]


def test_unknown_columns() -> None:
    assert check_columns(["offset", "key"]) == ("offset", "key")
    with pytest.raises(SettingsError, match="columns: valueByte is unknown; did you mean valueBytes"):
        check_columns(["offset", "valueByte"])
    with pytest.raises(SettingsError, match="columns: key is there twice"):
        check_columns(["key", "key"])
    with pytest.raises(SettingsError, match="columns: name at least one of key, value"):
        check_columns([])


def test_key_hashes_are_those_of_kafkas_partitioner() -> None:
    """The cases of Apache Kafka's UtilsTest.testMurmur2."""
    expected = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    data = encode_batch([Record(None, key, NOW_MS) for key in expected])
    assert read(data, columns=("keyHash",)).rows.column(0).to_pylist() == list(expected.values())


def test_decoding_imports_no_pandas() -> None:
    """Which would take most of a second of every Python worker that Spark starts."""
    code = f"""
import sys
from highwater.pipeline.kafka.columns import COLUMNS
from highwater.pipeline.kafka.decode import decode
data = {bytes(batch_of(3))!r}
assert decode(data, topic="t", partition=0, start_offset=1, columns=tuple(COLUMNS)).rows.num_rows == 2
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
