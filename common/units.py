"""Numbers with units, as people read them.

One way to show a number, in every table, page and message:

- at most three significant digits, and no zeros that say nothing: `4.65 GiB`, `22.7 ms`, `64 KiB`. More digits than
  three are noise in a measurement; fewer hide differences of one percent, which benchmarks are run for;
- digits before the point are never cut: `19,962/s`, because a count is compared digit by digit with other counts;
- thousands are parted by a comma, which can be typed and searched for;
- one space before the unit, also before `%`;
- sizes in powers of 1024 (`KiB`), as memory and files are counted; rates of disks and links, which are sold in powers
  of 1000, have units of their own (`tuning.quantities`).

These texts are rounded, so nothing reads them back. JSON, CSV, workload files, properties and commands have exact
numbers, or values that `quantities` reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

BINARY_BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
NANOSECONDS: Final = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}
# Shown where there is no figure.
NONE: Final = "–"

_SIGNIFICANT_DIGITS: Final = 3
_NEXT_TO_ONE: Final = 1.05
_TWICE: Final = 2
_MIXED_FROM_S: Final = 10
_MIXED_UNITS: Final = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def significant(value: float, digits: int = _SIGNIFICANT_DIGITS) -> str:
    """The value with `digits` significant digits or fewer; no exponent, whole numbers uncut: 0.0123, 12.3, 12,345.

    More `digits` than usual are for a figure beside a limit that it nearly reaches, such as 99.97 of 100.
    """
    if not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def count_text(count: float) -> str:
    """A whole number: 19962.4 -> `19,962`."""
    return f"{round(count):,}"


def exact_text(value: float) -> str:
    """A number that somebody chose, with all of its digits: 4000 -> `4,000`, 0.5 -> `0.5`."""
    return f"{value:,.10f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def rate_text(rate_per_s: float) -> str:
    """Events per second: 19962.4 -> `19,962/s`."""
    return f"{significant(rate_per_s)}/s"


def unit_for(value: float, units: Mapping[str, int]) -> tuple[str, int]:
    """The unit that `value` is shown in, and its size: the largest of `units` that the rounded value fills.

    `units` go from the smallest to the largest.
    """
    # Rounded, so that 1023.9 KiB is shown as 1 MiB.
    smallest, *larger = units.items()
    fits = (item for item in reversed(larger) if float(f"{abs(value) / item[1]:.{_SIGNIFICANT_DIGITS}g}") >= 1)
    return next(fits, smallest)


def scaled_text(value: float, units: Mapping[str, int]) -> str:
    """`value` in the largest of `units` that it fills: 1536 of BINARY_BYTES -> `1.5 KiB`."""
    unit, size = unit_for(value, units)
    return f"{significant(value / size)} {unit}"


def size_text(size_bytes: float) -> str:
    """A size: 1536 -> `1.5 KiB`."""
    return scaled_text(size_bytes, BINARY_BYTES)


def duration_ns_text(duration_ns: float) -> str:
    """A measured duration, in seconds at most: 1234567 -> `1.23 ms`."""
    return scaled_text(duration_ns, NANOSECONDS)


def duration_text(seconds: float) -> str:
    """A measured duration, in seconds at most, so that two of them can be compared: 0.0227 -> `22.7 ms`."""
    return duration_ns_text(seconds * 10**9) if seconds else "0 s"


def wait_text(seconds: float) -> str:
    """A time that somebody waits, in two units at most, the smaller one whole: `45 s`, `2 min 30 s`, `7 d`."""
    whole = round(seconds)
    if whole < _MIXED_FROM_S:
        return duration_text(seconds)
    for unit, size, unit_below, below in _MIXED_UNITS:
        if whole >= size:
            many, rest = divmod(whole, size)
            return f"{many} {unit}" + (f" {rest // below} {unit_below}" if rest >= below else "")
    return f"{whole} s"


def percent_text(ratio: float, digits: int = _SIGNIFICANT_DIGITS) -> str:
    """A ratio as a percentage: 0.0512 -> `5.12 %`; `digits` as those of `significant`."""
    return f"{significant(100 * ratio, digits)} %"


def change_text(ratio: float) -> str:
    """A ratio as a change: 0.92 -> `−8 %`, 1 -> `±0 %`; above twice as a ratio: 60 -> `60×`.

    Two decimals at most, as nothing finer can be measured.
    """
    if ratio > _TWICE:
        return ratio_text(ratio)
    change = significant(round(100 * abs(ratio - 1), 2))
    sign = "±" if change == "0" else "+" if ratio > 1 else "−"
    return f"{sign}{change} %"


def change_span_text(low: float, high: float) -> str:
    """An interval of ratios as changes: 0.91 and 1.06 -> `−9 to +6 %`, 0.91 and 3 -> `−9 % to 3×`."""
    below, above = change_text(low), change_text(high)
    return f"{below.removesuffix(' %') if above.endswith(' %') else below} to {above}"


def change_size_text(size_ratio: float) -> str:
    """A change without a direction: 0.05 -> `5 %`, 2.5 (a change to 3.5 times or by as much downwards) -> `3.5×`."""
    return percent_text(size_ratio) if size_ratio <= _TWICE - 1 else ratio_text(1 + size_ratio)


def ratio_text(ratio: float) -> str:
    """A ratio of two measurements: `1.61×`; three decimals next to 1, where all ratios would look alike."""
    return f"{significant(ratio, _SIGNIFICANT_DIGITS + (1 <= ratio < _NEXT_TO_ONE))}×"


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and `…` where it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plural(count: int, noun: str) -> str:
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count_text(count)} {noun}{ending}"
