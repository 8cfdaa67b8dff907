"""When a growing load no longer fits a cluster, as a month."""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import Final

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
