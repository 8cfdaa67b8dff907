"""The smallest cluster for a load, the largest load of a cluster, and how long a cluster is enough."""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
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


# A date farther away than this says nothing.
_FARTHEST_MONTHS: Final = 120


@dataclass(frozen=True, slots=True)
class GrowthForecast:
    """A load that grows by the same ratio every month."""

    per_month_ratio: float
    reached: str | None
    """The month in which the limit is reached, such as 2027-03; None if that is more than ten years away."""
    earliest: str | None
    latest: str | None
    months: int
    brokers_then: int | None
    """For the load in so many months; None if no number of brokers fits."""


def month_reached(today: date, factor: float, per_month_ratio: float) -> str | None:
    """The month in which a load that fits `factor` times no longer fits: today's if it does not fit now."""
    months = math.log(factor) / math.log1p(per_month_ratio) if factor > 1 else 0.0
    if months > _FARTHEST_MONTHS:
        return None
    gone = (today.day - 1) / monthrange(today.year, today.month)[1]
    year, month = divmod(today.year * 12 + today.month - 1 + int(gone + months), 12)
    return f"{year}-{month + 1:02d}"
