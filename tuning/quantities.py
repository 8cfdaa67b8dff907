"""Values of knobs, and rates of disks and links: as a person writes them, as a person reads them."""

from __future__ import annotations

from typing import Final

from ..common.quantities import BITS_PER_S, COUNT, DURATION, SIZE
from ..common.units import scaled_text, size_text

# Powers of 1000, as disks and networks are sold.
_SHOWN_BYTE_RATES: Final = {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9}


def parse_value(text: str, unit: str) -> int | str:
    """A knob's value as the kernel counts it, from a number as the kernel writes it or one with its unit (`256MiB`).

    Raises ValueError.
    """
    words = " ".join(str(text).split())
    if not unit:
        return words
    try:
        return int(words)
    except ValueError:
        pass
    match unit:
        case "bytes":
            return round(SIZE.above_zero(words))
        case "KiB":
            return round(SIZE.above_zero(words)) // 1024
        case "centiseconds":
            return round(DURATION.above_zero(words) / 10**7)
        case "microseconds":
            return round(DURATION.above_zero(words) / 1000)
        case "percent":
            return round(COUNT.above_zero(words.removesuffix("%")))
    return round(COUNT.above_zero(words))


def format_byte_rate(bytes_per_s: float) -> str:
    """Decimal units, as disks and networks are sold: `400 MB/s`."""
    return scaled_text(bytes_per_s, _SHOWN_BYTE_RATES)


def format_bit_rate(bits_per_s: float) -> str:
    return scaled_text(bits_per_s, BITS_PER_S)


def format_value(value: int | str, unit: str) -> str:
    """A knob's value for people: what the kernel counts in KiB or hundredths of a second, as sizes and times."""
    if isinstance(value, str) or value <= 0:
        return str(value)
    match unit:
        case "bytes":
            return size_text(value)
        case "KiB":
            return size_text(value * 1024)
        case "centiseconds":
            return f"{value / 100:g} s"
        case "microseconds":
            return f"{value} µs"
        case "percent":
            return f"{value} %"
        case "pages":
            return f"{value} pages"
    return str(value)
