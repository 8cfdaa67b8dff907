"""What producers make and what consumers expect must be one thing, for every shape of record."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import value_sizes
from highwater.spark_loadgen.ready_records import ReadyRecords, RecordMaker
from highwater.spark_loadgen.records import (
    FilePayload,
    FixedSize,
    GeneratedPayload,
    Headers,
    RandomKeys,
    Sizes,
    UniformSizes,
    WeightedSizes,
    ZipfKeys,
)
from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.spark_loadgen.stamp import STAMP_BYTES, decode_stamps

MAGIC = 99


def plan_of(**changes: Any) -> LoadPlan:
    settings: dict[str, Any] = {
        "bootstrap_servers": "b:1",
        "topics": ("t",),
        "partitions": 4,
        "producers": 3,
        "groups": 0,
        "consumers_per_group": 0,
        "schedule": OpenSchedule.constant(1e6, "poisson"),
        "warmup": 0,
        "measure_s": 60,
        "drain_max_s": 5,
        "sizes": FixedSize(100),
        "payload": GeneratedPayload(),
        "seed": 11,
        **changes,
    }
    return LoadPlan(**settings)


def blocks_of(plan: LoadPlan, content: Content, worker: int, count: int) -> list[ReadyRecords]:
    blocks = RecordMaker(plan, worker, MAGIC, content, plan.arrivals)
    made: list[ReadyRecords] = []
    while not made or made[-1].end < count:
        made.append(blocks.after(made[-1] if made else None, None, 0))
        sizes = [made[-1].value_bytes(sequence) for sequence in range(made[-1].first, made[-1].end)]
        made[-1].columns[1] = list(map(bytes, made[-1].columns[1]))  # which hold until the next block
        assert sizes == list(map(len, made[-1].columns[1]))
    return made


def values_of(blocks: list[ReadyRecords]) -> list[bytes]:
    return [value for block in blocks for value in block.columns[1]]


@pytest.mark.parametrize(
    ("sizes", "payload", "count"),
    [
        (FixedSize(100), GeneratedPayload(), 70_000),  # round the pool and more
        (FixedSize(1024), GeneratedPayload(), 10_000),
        (FixedSize(1024), b"a text that is shorter than a block of records", 5_000),
        (FixedSize(STAMP_BYTES), GeneratedPayload(), 100),
        (WeightedSizes(((50, 3), (1000, 1))), GeneratedPayload(), 20_000),
        (UniformSizes(24, 2000), b"some text, " * 100, 10_000),
        (None, b"a line\n\nand another\nand a third", 100),
    ],
)
def test_consumers_expect_what_producers_make(sizes: Sizes | None, payload: Any, count: int) -> None:
    plan = plan_of(
        sizes=sizes, payload=FilePayload("f") if isinstance(payload, bytes) else payload, keys=ZipfKeys(1000, 1.2)
    )
    content, expected = Content(plan, payload), Content(plan, payload)
    for worker in (0, 2):
        blocks = blocks_of(plan, content, worker, count)
        values = values_of(blocks)
        stamps = decode_stamps(b"".join(value[:STAMP_BYTES] for value in values))
        sequences = stamps["sequence"].astype(np.int64)
        workers = stamps["worker"].astype(np.int64)
        assert sequences.tolist() == list(range(len(values)))
        assert set(workers.tolist()) == {worker}
        assert set(stamps["magic"].tolist()) == {MAGIC}
        assert plan.arrivals is not None
        assert np.array_equal(stamps["intended_ns"], plan.arrivals.intended_ns(sequences, worker))
        assert [value[STAMP_BYTES:] for value in values] == expected.bodies(workers, sequences)
        assert [key for block in blocks for key in block.columns[2]] == expected.keys(workers, sequences)
        for upto in (0, 1, len(values) // 2, len(values)):
            assert content.value_bytes_before(worker, upto) == sum(map(len, values[:upto]))


def test_weighted_sizes_come_as_often_as_asked_and_in_no_order() -> None:
    sizes = value_sizes(WeightedSizes(((128, 3), (1024, 6), (8192, 1))), seed=4)
    counts = Counter(sizes)
    shares = {size: count / len(sizes) for size, count in counts.items()}
    assert shares == pytest.approx({128: 0.3, 1024: 0.6, 8192: 0.1}, abs=0.001)
    assert sizes != sorted(sizes)
    assert sizes == value_sizes(WeightedSizes(((128, 3), (1024, 6), (8192, 1))), seed=4)


def test_a_rare_size_comes_at_least_once() -> None:
    assert 1_000_000 in value_sizes(WeightedSizes(((1_000_000, 0.0001), (100, 1))), seed=1)


def test_huge_values_make_a_small_pool() -> None:
    assert len(value_sizes(FixedSize(20_000_000), seed=1)) == 3
    assert len(value_sizes(FixedSize(1 << 30), seed=1)) == 1


def test_uniform_sizes_cover_their_range_evenly() -> None:
    sizes = value_sizes(UniformSizes(100, 2000), seed=1)
    assert (min(sizes), max(sizes)) == (100, 2000)
    assert np.mean(sizes) == pytest.approx(1050, rel=0.001)
    assert np.std(sizes) == pytest.approx(1900 / 12**0.5, rel=0.01)


def test_topics_are_taken_in_turn() -> None:
    plan = plan_of(topics=("a", "b", "c"))
    content = Content(plan, GeneratedPayload())
    for worker in range(3):
        topics = [topic for block in blocks_of(plan, content, worker, 3000) for topic in block.columns[0]]
        assert topics == ["abc"[(sequence + worker) % 3] for sequence in range(len(topics))]


def test_a_pair_has_partitions_of_its_own() -> None:
    plan = plan_of(pairs=True, groups=1, consumers_per_group=3, topics=("a", "b"))
    content = Content(plan, GeneratedPayload())
    places: list[set[tuple[str, int]]] = []
    for worker in range(3):
        block = blocks_of(plan, content, worker, 1)[0]
        places.append(set(zip(block.columns[0], block.columns[3], strict=True)))
    assert set.union(*places) == {(topic, partition) for topic in "ab" for partition in range(4)}
    assert sum(map(len, places)) == 8


class Client:
    """Takes what Producer.produce takes; refuses record number `refuses`."""

    def __init__(self, refuses: int = -1) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refuses = refuses

    def produce(self, *arguments: Any) -> None:
        if len(self.calls) == self.refuses:
            raise BufferError("full")
        self.calls.append(arguments)


def nothing(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("changes", "rest", "timed_rest"),
    [
        ({}, (), (None, -1, nothing)),
        ({"keys": RandomKeys(1)}, (b"0", -1), (b"0", -1, nothing)),
        (
            {"headers": Headers(1, 2)},
            (None, -1, None, None, 0, [("header-0", b"hh")]),
            (None, -1, nothing, None, 0, [("header-0", b"hh")]),
        ),
    ],
)
def test_the_client_is_called_with_no_more_than_needed(
    changes: dict[str, Any], rest: tuple[Any, ...], timed_rest: tuple[Any, ...]
) -> None:
    plan = plan_of(**changes)
    block = blocks_of(plan, Content(plan, GeneratedPayload()), 0, 1)[0]
    client = Client()
    assert block.produce(client.produce, 3, 5) == (5, None)
    block.produce_timed(client.produce, 5, nothing)
    values = block.columns[1]
    assert client.calls == [("t", values[3], *rest), ("t", values[4], *rest), ("t", values[5], *timed_rest)]


@pytest.mark.parametrize("refuses", [0, 1, 7])
def test_a_refused_record_is_where_handing_over_ends(refuses: int) -> None:
    plan = plan_of()
    block = blocks_of(plan, Content(plan, GeneratedPayload()), 0, 1)[0]
    ended, refusal = block.produce(Client(refuses).produce, 10, 18)
    assert ended == 10 + refuses
    assert isinstance(refusal, BufferError)


def test_what_is_due_is_found() -> None:
    block = ReadyRecords(100, [0, 5, 5, 9], [["t"] * 4, [b"v"] * 4])
    assert [block.due_end(100, elapsed) for elapsed in (0, 4, 5, 8, 9, 100)] == [101, 101, 103, 103, 104, 104]
    assert block.due_end(103, 5) == 103
    assert block.end == 104
