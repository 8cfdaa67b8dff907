"""The vectorised encoder against the broker's own encoder and decoder, and against the pipeline's decoder."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import Codec, read_header, validate_produced
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from highwater.pipeline.kafka.arrow_columns import UnwritableError
from highwater.pipeline.kafka.columns import COLUMNS
from highwater.pipeline.kafka.decode import decode
from highwater.pipeline.kafka.encode import EncodedBatch, encode
from highwater.pipeline.kafka.model import Producer

NOW_MS = 1_795_000_000_000
WRITTEN = ("key", "value", "headers", "timestamp")
SCHEMA = pa.schema([(name, COLUMNS[name].type) for name in WRITTEN])

contents = st.none() | st.binary(max_size=12) | st.integers(0, 300).map(lambda size: b"x" * size)
records = st.builds(
    Record,
    value=contents,
    key=contents,
    timestamp_ms=st.integers(0, 2**42),
    headers=st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple),
    offset=st.just(0),
)


def arrow(rows: list[Record], *, padding: int = 0) -> Any:
    """A RecordBatch of the rows; `padding` rows before them are cut off again, so that offsets do not begin at 0."""
    padded = [Record(b"padding", b"pad", 1, (("h", b"v"),))] * padding + rows
    columns = [
        pa.array([row.key for row in padded], SCHEMA.field("key").type),
        pa.array([row.value for row in padded], SCHEMA.field("value").type),
        pa.array([[{"key": k, "value": v} for k, v in row.headers] or None for row in padded], SCHEMA.field(2).type),
        pa.array([row.timestamp_ms * 1000 for row in padded], SCHEMA.field("timestamp").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).slice(padding)


def decoded(batches: list[EncodedBatch]) -> list[Record]:
    found = []
    for batch in batches:
        data = batch.seal()
        header = validate_produced(data, max_message_bytes=1 << 30)
        assert not isinstance(header, int), header
        assert header.size_bytes == len(data) == batch.size_bytes
        of_batch = decode_batch(data)
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in of_batch)
        found += [record._replace(offset=0) for record in of_batch]
    return found


@given(
    rows=st.lists(records, min_size=1, max_size=40) | st.builds(lambda r, n: [r] * n, records, st.integers(1, 300)),
    codec=st.sampled_from(Codec),
    batch_bytes=st.sampled_from([70, 500, 4000, 1 << 20]),
    padding=st.integers(0, 3),
)
def test_records_come_back_from_the_plain_decoder(
    rows: list[Record], codec: Codec, batch_bytes: int, padding: int
) -> None:
    batches = list(encode(arrow(rows, padding=padding), now_ms=NOW_MS, codec=codec, batch_bytes=batch_bytes))
    assert decoded(batches) == rows
    if codec is Codec.NONE:
        assert all(batch.size_bytes <= batch_bytes or batch.record_count == 1 for batch in batches)


@given(rows=st.lists(records, min_size=1, max_size=30))
def test_bytes_are_those_of_the_plain_encoder(rows: list[Record]) -> None:
    (batch,) = encode(arrow(rows), now_ms=NOW_MS)
    identity = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11, "is_transactional": True}
    assert batch.seal(Producer(7, 3), 11, is_transactional=True) == encode_batch(rows, **identity)  # type: ignore[arg-type]
    assert batch.seal() == encode_batch(rows)


@given(rows=st.lists(records, min_size=1, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_groups_of_rows_do_not_share_batches(rows: list[Record], cuts: list[int]) -> None:
    ends = np.array([*sorted(min(cut, len(rows)) for cut in cuts), len(rows)], np.int64)
    batches = list(encode(arrow(rows), now_ms=NOW_MS, ends=ends, batch_bytes=900))
    start = 0
    for group, end in enumerate(ends.tolist()):
        assert decoded([batch for batch in batches if batch.group == group]) == rows[start:end]
        start = end
    assert [batch.group for batch in batches] == sorted(batch.group for batch in batches)


def test_offset_deltas_of_every_width_and_the_decoder_of_the_pipeline() -> None:
    rows = [Record(b"%d" % n, None, NOW_MS + n % 3) for n in range(20_000)]
    (batch,) = encode(arrow(rows), now_ms=0, batch_bytes=1 << 20)
    found = decode(batch.seal(), topic="t", partition=0, start_offset=0, columns=("offset", "value")).rows
    assert found.column("value").to_pylist() == [row.value for row in rows]
    assert found.column("offset").to_pylist() == list(range(20_000))


def test_only_a_value_and_text() -> None:
    rows = pa.record_batch([pa.array(["a", None, "ä"])], names=["value"])
    (batch,) = encode(rows, now_ms=NOW_MS)
    assert decoded([batch]) == [Record(value, None, NOW_MS) for value in (b"a", None, "ä".encode())]


def test_a_null_that_has_bytes_behind_it_is_null() -> None:
    edges, data = np.array([0, 2, 4], np.int32), b"aabb"
    keys = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(edges), pa.py_buffer(data)])
    (batch,) = encode(pa.record_batch([keys, keys], names=["key", "value"]), now_ms=NOW_MS)
    assert decoded([batch]) == [Record(None, None, NOW_MS), Record(b"bb", b"bb", NOW_MS)]


def test_null_timestamps_are_now() -> None:
    stamps = pa.array([5_000_999, None], pa.timestamp("us", tz="UTC"))
    (batch,) = encode(pa.record_batch([pa.array([b"", b""]), stamps], names=["value", "timestamp"]), now_ms=NOW_MS)
    assert [record.timestamp_ms for record in decode_batch(batch.seal())] == [5000, NOW_MS]


def test_no_rows_are_no_batch() -> None:
    assert list(encode(arrow([]), now_ms=NOW_MS)) == []


def test_header_of_an_idempotent_batch() -> None:
    (batch,) = encode(arrow([Record(b"v", None, NOW_MS)]), now_ms=NOW_MS)
    header = read_header(batch.seal(Producer(9, 2), 5))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 5)
    assert not header.is_transactional


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("value", pa.array([1]), "the column value is int64; cast it to binary or string"),
        ("key", pa.array([1.5]), "the column key is double; cast it to binary or string"),
        ("timestamp", pa.array([1]), "the column timestamp is int64; cast it to timestamp"),
        ("headers", pa.array(["h"]), "the column headers is string; it must be array<struct<key:string,value:binary>>"),
        (
            "headers",
            pa.array([[{"key": None, "value": b""}]], COLUMNS["headers"].type),
            "a record header has no key; Kafka needs one",
        ),
    ],
)
def test_columns_that_cannot_be_written(name: str, column: Any, message: str) -> None:
    columns = {"value": pa.array([b"v"]), name: column}
    with pytest.raises(UnwritableError) as refused:
        list(encode(pa.record_batch(columns), now_ms=NOW_MS))
    assert str(refused.value) == message


def test_a_worker_does_not_load_pandas() -> None:
    code = (
        "import sys, pyarrow as pa, numpy as np\n"
        "from highwater.pipeline.kafka.encode import encode\n"
        "edges = pa.py_buffer(np.array([0, 1], np.int32))\n"
        "values = pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(b'v')])\n"
        "rows = pa.RecordBatch.from_arrays([values], schema=pa.schema([('value', pa.binary())]))\n"
        "assert len(list(encode(rows, now_ms=1))) == 1\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
