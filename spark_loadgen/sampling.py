"""Which records are timed: one in N by sequence, so that stalls do not bias the sample. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Final

from highwater.spark_loadgen.assignment import assigned_partitions
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.payload import value_sizes
from highwater.spark_loadgen.records import RoundRobinKeys

_SAMPLES_PER_S: Final = 20_000
# A closed loop's rate is unknown beforehand; on present machines this stride gives at most that many samples.
_CLOSED_LOOP_STRIDE: Final = 127


def sampling_stride(plan: LoadPlan) -> int:
    """One record in how many is timed: every record up to 20 000/s per producer.

    Above that, a prime that divides no cycle of the records. With two topics in turn, a stride of 2 would sample one
    topic only; with a pool of 1024 sizes, a stride of 128 would sample eight sizes only.
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
    """The lengths of the cycles in which a producer's topics, partitions, keys and sizes repeat.

    The number of lines of a payload file is missing: only a task knows it.
    """
    yield len(plan.topics)
    if plan.pairs:
        for worker in range(plan.producers):
            yield len(assigned_partitions(plan.topics, plan.partitions, plan.producers, worker))
    if isinstance(plan.keys, RoundRobinKeys):
        yield plan.keys.n
    if plan.sizes is not None:
        yield len(value_sizes(plan.sizes, plan.seed))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))
