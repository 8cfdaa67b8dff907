"""Numbers as people read them: three significant digits, grouped thousands, a unit."""

from __future__ import annotations

import math
from typing import Final

NS_PER_US: Final = 1e3
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9
BYTES_PER_MIB: Final = 1 << 20
NONE: Final = "–"
_UNIT_NAMES: Final = {"s_per_gib": "CPU s/GiB", "records": "records"}


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


def unit_text(value: float, unit: str) -> str:
    """A figure of the result files, whose units are ns, bytes, per second and ratios, as people read it."""
    if unit == "ns":
        return duration_text(value / NS_PER_S)
    if unit == "s":
        return duration_text(value)
    if unit in ("bytes", "bytes_per_s"):
        return bytes_text(value) + ("/s" if unit == "bytes_per_s" else "")
    if unit == "per_s":
        return f"{whole(value) if value >= 100 else significant(value)}/s"
    if unit == "ratio":
        return f"{significant(100 * value)} %"
    return f"{whole(value) if value == round(value) else significant(value)} {_UNIT_NAMES.get(unit, unit)}".rstrip()


def duration_text(value_s: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value_s) >= size:
            return f"{significant(value_s / size)} {unit}"
    return f"{significant(value_s * 1e9)} ns" if value_s else "0 s"


def interval_text(value: str, low: str, high: str) -> str:
    """Two ends in brackets, their unit left out where it is the one of the value above."""
    (_, unit), *ends = (_split(text) for text in (value, low, high))
    if all(end_unit == unit for _, end_unit in ends):
        return f"[{ends[0][0]}, {ends[1][0]}]"
    return f"[{low}, {high}]"


def _split(text: str) -> tuple[str, str]:
    number = text.rstrip("/µ%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    return number, text[len(number) :]


def change_text(ratio: float) -> str:
    """A ratio as a change: 0.92 is −8.00 %."""
    change = 100 * (ratio - 1)
    digits = 2 if abs(change) < 10 else 3
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return f"{sign}{significant(abs(change), digits)} %"


def ratio_text(value: float) -> str:
    """A ratio of two measurements: two decimals, and one more next to 1, where they would all look alike."""
    if value >= 10:
        return f"{significant(value, 2)}×"
    return f"{value:.3f}×" if 0.95 < value < 1.05 else f"{value:.2f}×"


def scalar_words(value: str | float | bool | None) -> str:
    """A recorded value as it is, with words for what has no figure."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else axis_number(value)


def as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
