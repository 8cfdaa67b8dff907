"""Numbers as people read them: three significant digits, thousands separated, the unit named beside them."""

from __future__ import annotations

import math
from typing import Final

NS_PER_US: Final = 1e3
NS_PER_MS: Final = 1e6
BYTES_PER_MIB: Final = 1 << 20
NONE: Final = "–"


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits, never in exponents, whole numbers never cut: 0.0123, 12.3, 12,345."""
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        decimals = max(0, decimals - 1)
    return f"{rounded:,.{decimals}f}"


def whole(value: float) -> str:
    return f"{round(value):,}"


def axis_number(value: float) -> str:
    """A tick's label: no more digits than the tick needs."""
    return f"{value:,.10f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def bytes_text(value: float) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    return f"{whole(value)} bytes"


def ratio_text(value: float) -> str:
    """A ratio of two measurements: two decimals, and one more next to 1, where they would all look alike."""
    if value >= 10:
        return f"{significant(value, 2)}×"
    return f"{value:.3f}×" if 0.95 < value < 1.05 else f"{value:.2f}×"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
