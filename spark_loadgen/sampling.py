"""Which records are timed: one in N by schedule index, so that records which a stall delays keep their weight. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Final

from highwater.spark_loadgen.dealing import partitions_of
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import value_sizes
from highwater.spark_loadgen.records import RoundRobinKeys

_SAMPLES_PER_S: Final = 20_000
# Of a closed loop, whose rate nobody knows before: as many a second or fewer on present machines.
_CLOSED_LOOP_STRIDE: Final = 127


def sampling_stride(plan: LoadPlan) -> int:
    """One record in how many is timed: every one up to 20 000/s per producer.

    Above that a prime without a factor in common with anything that records take in turn: of two topics in turn every
    second record would be of one topic only, of a pool of 1024 sizes one in 128 would be of eight.
    """
    if plan.schedule is None:
        least = _CLOSED_LOOP_STRIDE
    else:
        least = -(-int(plan.schedule.rate_max_per_s / plan.producers) // _SAMPLES_PER_S)
    if least <= 1:
        return 1
    cycles = set(_cycles(plan))
    return next(n for n in count(least) if _is_prime(n) and all(cycle % n for cycle in cycles))


def _cycles(plan: LoadPlan) -> Iterator[int]:
    """After how many records of a producer its topics, partitions, keys and sizes come round again; one is no cycle.

    Of a payload file's lines only a task knows how many there are.
    """
    yield len(plan.topics)
    if plan.pairs:
        for worker in range(plan.producers):
            yield len(partitions_of(plan.topics, plan.partitions, plan.producers, worker))
    if isinstance(plan.keys, RoundRobinKeys):
        yield plan.keys.n
    if plan.sizes is not None:
        yield len(value_sizes(plan.sizes, plan.seed))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))
