from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import value_sizes
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload, RoundRobinKeys, UniformSizes, WeightedSizes
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.schedule import OpenSchedule


def plan_of(rate_per_s: float | None, **changes: Any) -> LoadPlan:
    settings: dict[str, Any] = {
        "bootstrap_servers": "b",
        "topics": ("t",),
        "partitions": 6,
        "producers": 2,
        "groups": 1,
        "consumers_per_group": 2,
        "schedule": None if rate_per_s is None else OpenSchedule.constant(rate_per_s),
        "warmup": 1,
        "measure_s": 2,
        "drain_max_s": 5,
        "sizes": FixedSize(100),
        "payload": GeneratedPayload(),
        "seed": 1,
        **changes,
    }
    return LoadPlan(**settings)


@pytest.mark.parametrize(("rate_per_s", "stride"), [(40_000.0, 1), (40_002.0, 3), (200_000.0, 5), (None, 127)])
def test_all_are_timed_until_they_are_too_many(rate_per_s: float | None, stride: int) -> None:
    # A pool of 32 768 bodies keeps 2 out.
    assert sampling_stride(plan_of(rate_per_s)) == stride


@pytest.mark.parametrize("rate_per_s", [80_000.0, 130_000.0, None])
def test_records_of_every_kind_are_timed_alike(rate_per_s: float | None) -> None:
    topics = ("a", "b", "c", "d", "e", "f")
    keys = RoundRobinKeys(127 * 5)
    for sizes in (UniformSizes(100, 2000), WeightedSizes(((128, 3.0), (1024, 6.0), (8192, 1.0)))):
        stride = sampling_stride(plan_of(rate_per_s, topics=topics, keys=keys, sizes=sizes))
        assert stride > 1
        pool = value_sizes(sizes, seed=1)
        for cycle in (len(topics), keys.n, len(pool)):
            timed = Counter(sequence % cycle for sequence in range(0, cycle * stride, stride))
            assert timed == Counter(range(cycle))
    paired = sampling_stride(plan_of(rate_per_s, pairs=True, partitions=254))
    assert 127 % paired, "each of a pair's 127 partitions is timed"
