"""Numbers with units: parse what a person writes, print what a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from ..common.units import BINARY_BYTES, DECIMAL_BYTES, DURATION_NS, NANOSECONDS, parse_scaled, scaled_text, size_text
from .errors import TuningError

_BYTE_UNITS: Final = {"B": 1, "kB": 10**3, "KB": 10**3} | DECIMAL_BYTES | BINARY_BYTES
_BYTE_RATE_UNITS: Final = {f"{unit}/s": factor for unit, factor in _BYTE_UNITS.items()}
_BIT_RATE_UNITS: Final = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
# Powers of 1000, as disks and networks are sold.
_SHOWN_BYTE_RATES: Final = {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9}


def parse_bytes(text: str) -> int:
    return round(_parse(text, _BYTE_UNITS, "a size such as 10GiB"))


def parse_byte_rate(text: str) -> int:
    return round(_parse(text, _BYTE_RATE_UNITS, "a rate such as 400MB/s"))


def parse_bit_rate(text: str) -> int:
    return round(_parse(text, _BIT_RATE_UNITS, "a link speed such as 10Gbit/s"))


def parse_duration_ms(text: str) -> float:
    return float(_parse(text, DURATION_NS, "a duration such as 1ms") / NANOSECONDS["ms"])


def parse_count(text: str) -> int:
    return round(_parse(text, {"": 1}, "a whole number such as 1000"))


def _parse(text: str, units: Mapping[str, int | Decimal], wanted: str) -> Decimal:
    value = parse_scaled(" ".join(text.split()), units)
    if value is None:
        raise TuningError(f"{text!r} is not {wanted} (units: {', '.join(unit for unit in units if unit) or 'none'})")
    if value <= 0:
        raise TuningError(f"{text!r} must be more than zero")
    return value


def parse_value(text: str, unit: str) -> int | str:
    """A knob's value as the kernel counts it, from a number as the kernel writes it or one with its unit (`256MiB`)."""
    words = " ".join(str(text).split())
    if not unit:
        return words
    try:
        return int(words)
    except ValueError:
        pass
    match unit:
        case "bytes":
            return parse_bytes(words)
        case "KiB":
            return parse_bytes(words) // 1024
        case "centiseconds":
            return round(parse_duration_ms(words) / 10)
        case "microseconds":
            return round(parse_duration_ms(words) * 1000)
        case "percent":
            return parse_count(words.removesuffix("%").strip())
    return parse_count(words)


def format_byte_rate(bytes_per_s: float) -> str:
    """Decimal units, as disks and networks are sold: `400 MB/s`."""
    return scaled_text(bytes_per_s, _SHOWN_BYTE_RATES)


def format_bit_rate(bits_per_s: float) -> str:
    return scaled_text(bits_per_s, _BIT_RATE_UNITS)


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
