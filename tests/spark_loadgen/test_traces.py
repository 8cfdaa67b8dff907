"""What the load generator draws from a trace: due times, sizes, keys and headers."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.keys import traced_keys
from highwater.spark_loadgen.payload import value_sizes
from highwater.spark_loadgen.traces import TracedArrivals, TracedHeaders, TracedKeys, TracedSizes
from highwater.spark_loadgen.windows import SECOND_NS

BIN_NS = 10_000_000


def arrivals_of(counts: list[int], **changes: float) -> TracedArrivals:
    return TracedArrivals(np.array(counts, np.int32), BIN_NS, **changes)


def due_ns(arrivals: TracedArrivals, workers: int, warmup_s: int = 0) -> np.ndarray:
    end_ns = (warmup_s + math.ceil(arrivals.duration_s)) * SECOND_NS
    schedule = arrivals.arrivals(workers, warmup_s * SECOND_NS, end_ns, seed=1)
    rows = [schedule.intended_ns(np.arange(schedule.total(worker)), worker) for worker in range(workers)]
    assert all((np.diff(row) >= 0).all() for row in rows)
    return np.sort(np.concatenate(rows))


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.one_of(st.just(0), st.integers(0, 400)), min_size=1, max_size=300).filter(any),
    workers=st.integers(1, 5),
    warmup_s=st.sampled_from([0, 1, 3]),
)
def test_each_bin_has_the_records_of_the_trace(counts: list[int], workers: int, warmup_s: int) -> None:
    found = due_ns(arrivals_of(counts), workers, warmup_s) - warmup_s * SECOND_NS
    bins = np.bincount(found[found >= 0] // BIN_NS, minlength=len(counts))
    assert bins.tolist() == counts


def test_records_after_a_long_silence_wait_for_its_end() -> None:
    found = due_ns(arrivals_of([3, *[0] * 500, 2]), workers=2)
    assert (found // BIN_NS).tolist() == [0, 0, 0, 501, 501]


def test_faster_and_thinned() -> None:
    counts = [100] * 200 + [10] * 200
    fast = due_ns(arrivals_of(counts, speed=4.0), workers=3)
    assert (len(fast), int(fast[-1]) < SECOND_NS) == (22_000, True)
    assert np.bincount(fast // (SECOND_NS // 2)).tolist() == [20_000, 2_000]
    thin = due_ns(arrivals_of(counts, share=0.1), workers=1)
    assert np.bincount(thin // SECOND_NS).tolist() == [1000, 1000, 100, 100]
    assert arrivals_of(counts, speed=2.0, share=0.5).rate_max_per_s == 10_000


def test_a_schedule_of_a_trace_ends_earlier_without_other_records() -> None:
    schedule = arrivals_of([5, 0, 7] * 100).arrivals(2, 0, 3 * SECOND_NS, 1)
    whole = schedule.intended_ns(np.arange(schedule.total(0)), 0)
    half = schedule.until(3 * SECOND_NS // 2)
    assert half.intended_ns(np.arange(half.total(0)), 0).tolist() == whole[: half.total(0)].tolist()


@pytest.mark.parametrize(
    ("counts", "changes", "says"),
    [([0, 0], {}, "without a record"), ([1], {"speed": 0.0}, "a speed of 0"), ([1], {"share": -1.0}, "a share of -1")],
)
def test_no_load(counts: list[int], changes: dict[str, float], says: str) -> None:
    with pytest.raises(LoadSetupError, match=says):
        arrivals_of(counts, **changes)


def test_sizes_are_distributed_as_the_traces() -> None:
    sizes = TracedSizes(((24, 10), (100, 960), (5000, 29), (90_000, 1)))
    drawn = Counter(value_sizes(sizes, seed=3))
    total = sum(drawn.values())
    assert {size: round(count / total, 2) for size, count in drawn.items() if size < 90_000} == {
        24: 0.01,
        100: 0.96,
        5000: 0.03,
    }
    assert sizes.max_bytes == 90_000
    with pytest.raises(LoadSetupError, match="24 bytes"):
        TracedSizes(((10, 1),))


KEYS = TracedKeys(((5000, 9, 3, 1), (1000, 4, 0, 3), (2, 1, 1, 500), (1000, -1, -1, 1)))


def test_keys_come_as_often_as_in_the_trace() -> None:
    sequences = np.arange(100_000)
    keys, partitions = traced_keys(KEYS, 7, 0, sequences)
    assert (keys, partitions) == traced_keys(KEYS, 7, 0, sequences)
    counts = Counter(keys)
    hottest, times = counts.most_common(1)[0]
    assert hottest == b"000000000"
    assert times == pytest.approx(50_000, rel=0.02)
    assert counts[None] == pytest.approx(10_000, rel=0.05)
    by_length = Counter(len(key) for key in counts if key is not None)
    # 500 keys of one byte were captured: there are no more than 256.
    assert (by_length[9], by_length[4]) == (1, 3)
    assert by_length[1] == pytest.approx(256, abs=2)
    assert {partition for key, partition in zip(keys, partitions, strict=True) if key == hottest} == {3}
    assert {partition for key, partition in zip(keys, partitions, strict=True) if key is None} == {-1}


def test_keys_are_the_same_for_each_order_of_asking() -> None:
    workers, sequences = np.array([2, 0, 1, 2]), np.array([9, 5, 5, 3])
    together, _ = traced_keys(KEYS, 7, workers, sequences)
    alone = [traced_keys(KEYS, 7, int(w), np.array([s]))[0][0] for w, s in zip(workers, sequences, strict=True)]
    assert together == alone


def test_a_short_load_has_the_shares_of_the_trace_too() -> None:
    keys, _ = traced_keys(KEYS, 3, np.repeat([0, 1], 2560), np.tile(np.arange(2560), 2))
    shares = Counter(keys)
    assert shares[b"000000000"] / 5120 == pytest.approx(0.5, abs=0.003)
    assert shares[None] / 5120 == pytest.approx(0.1, abs=0.003)
    # No pattern: the hottest key follows itself as often as by chance.
    row = [key == b"000000000" for key in keys[:2560]]
    assert sum(one and other for one, other in pairwise(row)) / 2560 == pytest.approx(0.25, abs=0.06)


def test_many_keys_of_few_bytes_are_different() -> None:
    keys = TracedKeys(((1, 2, -1, 60_000),))
    assert not keys.has_partitions
    found, _ = traced_keys(keys, 1, 0, np.arange(400_000))
    assert {len(key) for key in found if key is not None} == {2}
    assert len(set(found)) > 59_000


def test_headers_have_the_traces_sizes() -> None:
    headers = TracedHeaders(((0, 0, 0, 50), (3, 20, 100, 50)))
    assert headers.any
    assert headers.made[0] == []
    made = headers.made[1]
    assert [sum(map(len, column)) for column in zip(*made, strict=True)] == [20, 100]
    assert not TracedHeaders(((0, 0, 0, 50),)).any


def test_tasks_get_a_trace_by_pickle() -> None:
    for value in (arrivals_of([1, 2]), TracedSizes(((24, 1),)), KEYS, TracedHeaders(((1, 5, 5, 9),))):
        assert repr(pickle.loads(pickle.dumps(value))) == repr(value)  # noqa: S301 - our own bytes
        assert len(repr(value)) < 80
