"""Batches of the wire driver, read back by readers that others wrote."""

from __future__ import annotations

import random

import numpy as np
import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch

from highwater.spark_loadgen.compression import CODECS, Codec, compression_of
from highwater.spark_loadgen.stamp import decode_stamps
from highwater.spark_loadgen.wire.batch import HEADER_BYTES, BatchBuffer, BodyPool, ProducerSequence, encode_headers

WORKER, MAGIC = 3, 77
BODIES = [f"body-{number:04}-{'x' * 67}".encode() for number in range(1000)]


def buffer(
    bodies: list[bytes] = BODIES, batch_bytes: int = 1_000_000, records_max: int = 1_000_000, codec: Codec = "none"
) -> BatchBuffer:
    pool = BodyPool(bodies, start=5, records_max=min(20_000, batch_bytes // (len(bodies[0]) + 24) + 1))
    compression = compression_of(codec)
    return BatchBuffer(WORKER, MAGIC, pool, encode_headers([]), batch_bytes, records_max, 64, compression)


def read(batch: bytes) -> tuple[DefaultRecordBatch, list[bytes], list[int]]:
    reader = DefaultRecordBatch(batch)
    assert reader.validate_crc()
    records = list(reader)
    assert all(record.key is None for record in records)
    return reader, [record.value for record in records], [record.offset for record in records]


# On both sides of where the varint of the offset delta grows.
@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 9000])
def test_another_reader_finds_what_was_meant(count: int) -> None:
    written = buffer()
    intended_ns = np.arange(count) * 1000
    written.fill(7, count, intended_ns)
    batch, values, offsets = read(bytes(written.frame(b"")))
    assert offsets == list(range(count))
    assert batch.crc == crc32c(bytes(written.frame(b""))[21:])
    stamps = decode_stamps(b"".join(value[:24] for value in values))
    assert set(stamps["worker"]) == {WORKER}
    assert set(stamps["magic"]) == {MAGIC}
    assert stamps["sequence"].tolist() == list(range(7, 7 + count))
    assert stamps["intended_ns"].tolist() == intended_ns.tolist()
    assert [value[24:] for value in values] == [BODIES[(5 + 7 + n) % 1000] for n in range(count)]


def test_a_buffer_is_used_again_for_a_smaller_batch() -> None:
    written = buffer()
    written.fill(0, 9000, np.zeros(9000, np.int64))
    written.fill(900_000, 70, np.full(70, 2))
    frame = bytes(written.frame(b"prefix"))
    assert frame.startswith(b"prefix")
    assert len(frame) == len(b"prefix") + written.batch_bytes
    _, values, _ = read(frame[len(b"prefix") :])
    stamps = decode_stamps(b"".join(value[:24] for value in values))
    assert stamps["sequence"].tolist() == list(range(900_000, 900_070))
    assert set(stamps["intended_ns"]) == {2}


@pytest.mark.parametrize("codec", CODECS[1:])
def test_another_reader_undoes_what_was_compressed(codec: Codec) -> None:
    packed, plain = buffer(codec=codec), buffer()
    for first, count in ((0, 9000), (9000, 70)):
        for written in (packed, plain):
            written.fill(first, count, np.full(count, 5))
        assert packed.batch_bytes < plain.batch_bytes / 2
        frame = bytes(packed.frame(b"prefix"))
        assert frame.startswith(b"prefix")
        batch, values, offsets = read(frame[len(b"prefix") :])
        assert batch.compression_type == CODECS.index(codec)
        assert (values, offsets) == read(bytes(plain.frame(b"")))[1:]


def test_records_that_compression_makes_larger_go_as_they_are() -> None:
    noise = [random.Random(number).randbytes(500) for number in range(4)]
    written = buffer(noise, codec="lz4")
    written.fill(0, 1, np.zeros(1, np.int64))
    batch, values, _ = read(bytes(written.frame(b"")))
    assert (batch.compression_type, len(values)) == (0, 1)


def test_a_batch_has_its_place_in_a_producers_sequence() -> None:
    written = buffer()
    written.fill(0, 3, np.zeros(3, np.int64), ProducerSequence(producer_id=1 << 40, epoch=7, base_sequence=12))
    batch, _, _ = read(bytes(written.frame(b"")))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1 << 40, 7, 12)


@pytest.mark.parametrize("body_bytes", [0, 1, 30, 100, 5000, 100_000])
def test_values_of_any_size(body_bytes: int) -> None:
    bodies = [bytes([number]) * body_bytes for number in range(1, 17)]
    written = buffer(bodies)
    count = min(written.records_max, 100)
    written.fill(3, count, np.zeros(count, np.int64))
    _, values, _ = read(bytes(written.frame(b"")))
    assert [value[24:] for value in values] == [bodies[(5 + 3 + n) % 16] for n in range(count)]


def test_a_batch_keeps_its_size_but_holds_one_record_at_least() -> None:
    for batch_bytes in (1000, 10_000, 1_000_000):
        written = buffer(batch_bytes=batch_bytes)
        written.fill(0, written.records_max, np.zeros(written.records_max, np.int64))
        assert 0 <= batch_bytes - written.batch_bytes < 120
    assert buffer(batch_bytes=HEADER_BYTES).records_max == 1
    assert buffer(records_max=64).records_max == 64
    assert buffer(records_max=65).records_max == 65


def test_headers_are_on_every_record() -> None:
    headers = [("header-0", b"hh"), ("header-1", b"")]
    pool = BodyPool(BODIES, start=0, records_max=100)
    written = BatchBuffer(WORKER, MAGIC, pool, encode_headers(headers), 10_000, 100, room=0)
    written.fill(0, 70, np.zeros(70, np.int64))
    reader = DefaultRecordBatch(bytes(written.frame(b"")))
    assert [list(record.headers) for record in reader] == [headers] * 70


def test_bodies_of_several_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 to 5 bytes"):
        BodyPool([b"123", b"12345"], 0, 10)
