"""Partitions of rows, against librdkafka's murmur2_random and a plain murmur2."""

from __future__ import annotations

import ctypes
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.kafka.arrow_columns import UnwritableError
from highwater.pipeline.kafka.partitioner import partitions_of, sorted_by
from tests.pipeline.kafka.plain import murmur2

keys = st.lists(st.none() | st.binary(max_size=40), max_size=50)


def rows_of(keys: list[bytes | None], partitions: list[int | None] | None = None, padding: int = 0) -> Any:
    columns = {"key": pa.array([b"padding"] * padding + keys, pa.binary())}
    columns["value"] = pa.array(range(len(keys) + padding))
    if partitions is not None:
        columns["partition"] = pa.array([0] * padding + partitions, pa.int32())
    return pa.record_batch(columns).slice(padding)


@given(keys=keys, count=st.integers(1, 100), padding=st.integers(0, 2))
def test_keys_go_where_murmur2_says(keys: list[bytes | None], count: int, padding: int) -> None:
    found = partitions_of(rows_of(keys, padding=padding), count).tolist()
    for key, partition in zip(keys, found, strict=True):
        assert 0 <= partition < count
        if key is not None:
            assert partition == (murmur2(key) & 0x7FFFFFFF) % count


@pytest.mark.clients
def test_librdkafka_agrees() -> None:
    libraries = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(libraries.glob("librdkafka*"))))
    partitioner = library.rd_kafka_msg_partitioner_murmur2_random
    partitioner.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, *[ctypes.c_void_p] * 2]
    chosen = np.random.default_rng(1)
    for count in (1, 2, 7, 64):
        some: list[bytes | None] = [chosen.bytes(size) for size in range(1, 60)]
        found = partitions_of(rows_of(some), count).tolist()
        assert found == [partitioner(None, key, len(key), count, None, None) for key in some if key is not None]


def test_rows_without_a_key_are_spread_evenly_in_runs() -> None:
    found = partitions_of(rows_of([None] * 10), 4, first=3).tolist()
    assert sorted(Counter(found).values()) == [2, 2, 3, 3]
    assert found == [3, 3, 3, 0, 0, 1, 1, 1, 2, 2]
    assert partitions_of(rows_of([None]), 4, first=6).tolist() == [2]


def test_a_partition_that_is_given_counts() -> None:
    found = partitions_of(rows_of([b"k", b"k", None], [3, None, 1]), 4).tolist()
    assert found == [3, (murmur2(b"k") & 0x7FFFFFFF) % 4, 1]


@pytest.mark.parametrize("wrong", [4, -1])
def test_a_partition_that_is_not_there(wrong: int) -> None:
    with pytest.raises(
        UnwritableError, match=f"^the column partition has {wrong}; the topic has the partitions 0 to 3$"
    ):
        partitions_of(rows_of([b"k", b"k"], [0, wrong]), 4)


def test_a_partition_that_is_no_number() -> None:
    rows = pa.record_batch({"value": pa.array([b""]), "partition": pa.array(["0"])})
    with pytest.raises(UnwritableError, match=r"^the column partition is string; cast it to int$"):
        partitions_of(rows, 4)


@given(partitions=st.lists(st.integers(0, 5), max_size=60))
def test_sorted_rows_keep_their_order_within_a_partition(partitions: list[int]) -> None:
    rows = rows_of([None] * len(partitions))
    found = sorted_by(rows, np.array(partitions, np.int64))
    start = 0
    values = found.rows.column("value").to_pylist()
    for partition, end in zip(found.partitions.tolist(), found.ends.tolist(), strict=True):
        assert values[start:end] == [row for row, each in enumerate(partitions) if each == partition]
        assert end > start
        start = end
    assert start == len(partitions)
    assert sorted(set(partitions)) == found.partitions.tolist()
