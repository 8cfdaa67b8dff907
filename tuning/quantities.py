"""Numbers with units: parse what a person writes, print what a person reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from .errors import TuningError

_BYTE_UNITS: Final = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_BIT_RATE_UNITS: Final = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
_DURATION_UNITS: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 60e3, "min": 60e3, "h": 3600e3, "d": 86_400e3}
_NUMBER_AND_UNIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z/]*)")


def parse_bytes(text: str) -> int:
    return round(_parse(text, _BYTE_UNITS, "a size such as 10GiB"))


def parse_byte_rate(text: str) -> int:
    units = {f"{unit}/s": factor for unit, factor in _BYTE_UNITS.items()}
    return round(_parse(text, units, "a rate such as 400MB/s"))


def parse_bit_rate(text: str) -> int:
    return round(_parse(text, _BIT_RATE_UNITS, "a link speed such as 10Gbit/s"))


def parse_duration_ms(text: str) -> float:
    return _parse(text, _DURATION_UNITS, "a duration such as 1ms")


def parse_count(text: str) -> int:
    return round(_parse(text, {"": 1}, "a whole number such as 1000"))


def _parse(text: str, units: dict[str, int] | dict[str, float], wanted: str) -> float:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise TuningError(f"{text!r} is not {wanted} (units: {', '.join(unit for unit in units if unit) or 'none'})")
    value = float(match[1]) * units[match[2]]
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


def format_bytes(count: float) -> str:
    """Binary units with three digits: `512 B`, `128 MiB`, `4.65 GiB`."""
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def format_byte_rate(bytes_per_s: float) -> str:
    """Decimal units, as disks and networks are sold: `400 MB/s`."""
    return _scaled(bytes_per_s, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))


def format_bit_rate(bits_per_s: float) -> str:
    return _scaled(bits_per_s, 1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


def format_duration(seconds: float) -> str:
    """Two units at most, the smaller one whole: `45 s`, `2 min 30 s`, `7 d`; below ten seconds with two digits."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for size, unit, below, unit_below in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            many, rest = divmod(whole, size)
            return f"{many} {unit}" + (f" {rest // below} {unit_below}" if rest >= below else "")
    return f"{whole} s"


def format_value(value: int | str, unit: str) -> str:
    """A knob's value for people: what the kernel counts in KiB or hundredths of a second, as sizes and times."""
    if isinstance(value, str) or value <= 0:
        return str(value)
    match unit:
        case "bytes":
            return format_bytes(value)
        case "KiB":
            return format_bytes(value * 1024)
        case "centiseconds":
            return f"{value / 100:g} s"
        case "microseconds":
            return f"{value} µs"
        case "percent":
            return f"{value} %"
        case "pages":
            return f"{value} pages"
    return str(value)


def _scaled(value: float, step: int, units: Sequence[str]) -> str:
    power = 0
    while value >= step and power < len(units) - 1:
        value /= step
        power += 1
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    digits = f"{value:.{decimals}f}"
    return f"{digits.rstrip('0').rstrip('.') if decimals else digits} {units[power]}"
