"""The smallest cluster that carries a load, and the largest load that a cluster carries."""

from __future__ import annotations

from typing import Final

from highwater.studies.capacity.ceilings import Ceilings
from highwater.studies.capacity.demand import least_brokers, worst_broker
from highwater.studies.capacity.disks import Array
from highwater.studies.capacity.load import Load

MOST_BROKERS: Final = 10_000
_MOST_FACTOR: Final = 1e6
_PRECISION: Final = 1e-3


def fits(load: Load, ceilings: Ceilings, array: Array, brokers: int, factor: float = 1.0) -> bool:
    return brokers >= least_brokers(load) and worst_broker(load, ceilings, array, brokers, factor).fits


def smallest_cluster(load: Load, ceilings: Ceilings, array: Array, factor: float = 1.0) -> int | None:
    """None if not even MOST_BROKERS carry it: something does not become less with more brokers."""
    low = least_brokers(load)
    if fits(load, ceilings, array, low, factor):
        return low
    high = low
    while not fits(load, ceilings, array, high, factor):
        if high >= MOST_BROKERS:
            return None
        low, high = high, min(2 * high, MOST_BROKERS)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(load, ceilings, array, middle, factor):
            high = middle
        else:
            low = middle
    return high


def largest_factor(load: Load, ceilings: Ceilings, array: Array, brokers: int) -> float:
    """How many times the rates of the load fit these brokers, to one in a thousand; 0 if nothing does."""
    if brokers < least_brokers(load):
        return 0.0
    low, high = 0.0, 1.0
    while fits(load, ceilings, array, brokers, high):
        if high >= _MOST_FACTOR:
            return high
        low, high = high, 2 * high
    while high - low > _PRECISION * high and high > _PRECISION / _MOST_FACTOR:
        middle = (low + high) / 2
        if fits(load, ceilings, array, brokers, middle):
            low = middle
        else:
            high = middle
    return low
