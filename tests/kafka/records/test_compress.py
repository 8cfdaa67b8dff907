"""The codecs, against themselves and against hostile input; test_record.py compares them with Apache Kafka's."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.kafka.records.batch import Codec, CorruptBatch
from highwater.kafka.records.compress import compress, decompress

REAL_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MEBIBYTE = 1 << 20


@given(st.sampled_from(list(Codec)), st.binary(max_size=3000))
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_round_trip_around_the_block_sizes(codec: Codec, size: int) -> None:
    for data in (bytes(size), os.urandom(size)):
        assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_data_that_unfolds_past_the_limit_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(4 * MEBIBYTE))
    assert len(decompress(codec, bomb, limit_bytes=4 * MEBIBYTE)) == 4 * MEBIBYTE
    with pytest.raises(CorruptBatch):
        decompress(codec, bomb, limit_bytes=4 * MEBIBYTE - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_damaged_data_is_an_error_and_nothing_else(codec: Codec) -> None:
    whole = compress(codec, os.urandom(500))
    for data in (b"\x05", b"nonsense" * 10, whole[:-5], whole[: len(whole) // 2]):
        with pytest.raises(CorruptBatch):
            decompress(codec, data)


@given(st.sampled_from(REAL_CODECS), st.binary(max_size=300))
def test_any_bytes_unfold_or_are_refused(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, limit_bytes=MEBIBYTE)) <= MEBIBYTE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_memory_is_not_taken_for_what_might_come(codec: Codec) -> None:
    bomb = compress(codec, bytes(4 * MEBIBYTE))
    tracemalloc.start()
    try:
        decompress(codec, bomb, limit_bytes=1024 * MEBIBYTE)
        with contextlib.suppress(CorruptBatch):
            decompress(codec, bomb[:-5], limit_bytes=1024 * MEBIBYTE)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * MEBIBYTE


def test_snappy_is_read_bare_and_with_xerial_framing() -> None:
    bare = bytes(cramjam.snappy.compress_raw(b"librdkafka sends it so"))
    assert decompress(Codec.SNAPPY, bare) == b"librdkafka sends it so"
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(bare)) + bare
    assert decompress(Codec.SNAPPY, framed) == b"librdkafka sends it so"
    assert compress(Codec.SNAPPY, b"x")[:16] == framed[:16]
    for end in range(17, len(framed)):
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, framed[:end])


def test_lz4_frames_are_what_kafkas_reader_takes() -> None:
    frame = compress(Codec.LZ4, b"a" * 200_000)
    # Version 1 and independent blocks, 64 KiB; KafkaLZ4BlockInputStream refuses dependent ones.
    assert (frame[4] & 0xE0, frame[5]) == (0x60, 0x40)
    assert bytes(cramjam.lz4.decompress(frame)) == b"a" * 200_000


def test_gzip_members_are_joined() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
