"""Quantities with units, as people write them in files and options: `64KiB`, `20k/s`, `15min`.

A bare number is refused where a unit is required: 64 bytes and 64 KiB are both plausible, and the wrong one would be
used without complaint. A space may stand before the unit and around the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from .units import BINARY_BYTES, NANOSECONDS

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_NUMBER_AND_UNIT: Final = re.compile(rf"\s*({_NUMBER})\s*([^\d\s]*)\s*")


class Quantity:
    """A kind of quantity: the size of each unit, and what a value looks like, for messages."""

    def __init__(self, units: Mapping[str, int | Decimal], form: str, whole: str = "") -> None:
        """whole: the unit that `integer` counts in, for messages."""
        self.units: Final = units
        self.form: Final = form
        self._whole: Final = whole

    @property
    def pattern(self) -> str:
        """The regular expression of what is accepted, for a JSON schema."""
        return rf"^\s*{_NUMBER}\s*(?:{'|'.join(self.units)})\s*$"

    def amount(self, text: object) -> Decimal | None:
        """Returns the exact amount: `1.5KiB` or `1.5 KiB` -> 1536; None if `text` is no such quantity."""
        match = _NUMBER_AND_UNIT.fullmatch(text) if isinstance(text, str) else None
        return None if match is None or match[2] not in self.units else Decimal(match[1]) * self.units[match[2]]

    def parse(self, text: object) -> Decimal:
        """Returns the exact amount. Raises ValueError that quotes `text` and says what was expected."""
        amount = self.amount(text)
        if amount is None:
            raise ValueError(f"{text!r} is not {self.form}")
        return amount

    def above_zero(self, text: object) -> Decimal:
        """Returns the exact amount. Raises ValueError also for 0."""
        amount = self.parse(text)
        if not amount:
            raise ValueError(f"{text!r} must be more than zero")
        return amount

    def integer(self, text: object) -> int:
        """Returns the amount. Raises ValueError also if it is not whole."""
        amount = self.parse(text)
        if amount != int(amount):
            raise ValueError(f"{text!r} is not a whole number{self._whole}")
        return int(amount)


_COUNTS: Final = {"": 1, "k": 10**3, "M": 10**6}
_BYTES: Final = BINARY_BYTES | {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BITS_PER_S: Final = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
_DURATIONS: Final = NANOSECONDS | {
    "us": 10**3,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
# Without days and second names: the same duration is always written alike, as a workload's digest is of its text.
_WRITTEN_NS: Final = {unit: _DURATIONS[unit] for unit in ("ns", "us", "ms", "s", "m", "h")}
_RATES: Final = {f"{unit}/s": size for unit, size in _COUNTS.items()}

COUNT: Final = Quantity(_COUNTS, "a count, for example 100, 50k or 2M")
PERCENT: Final = Quantity({"%": Decimal("0.01")}, "a percentage, for example 0.5%")
"""A ratio: parts of 1."""
DURATION: Final = Quantity(
    _DURATIONS,
    "a duration with its unit (us, ms, s, m or min, h, d), for example 500ms, 15s, 5min or 3d",
    " of nanoseconds",
)
"""A number of nanoseconds."""
SIZE: Final = Quantity(_BYTES, "a size with its unit (B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB", " of bytes")
RATE: Final = Quantity(_RATES, "records per second, for example 500/s, 20k/s or 1.5M/s", " of records per second")
BYTE_RATE: Final = Quantity(
    {f"{unit}/s": size for unit, size in _BYTES.items()},
    "bytes per second with their unit, for example 40MB/s or 512KiB/s",
    " of bytes per second",
)
LINK_SPEED: Final = Quantity(BITS_PER_S, "the speed of a link, for example 10Gbit/s or 500Mbit/s")
"""A number of bits per second."""


def parse_duration_s(text: object) -> int:
    """`2m` -> 120; phases are counted in whole seconds. Raises ValueError that says what was expected."""
    seconds, rest_ns = divmod(DURATION.integer(text), 10**9)
    if rest_ns:
        raise ValueError(f"{text!r} is not a whole number of seconds")
    return seconds


def parse_percent(text: object) -> float:
    """`0.5%` -> 0.005. Raises ValueError that says what was expected."""
    return float(PERCENT.parse(text))


def parse_count(value: object) -> int:
    """`100k` -> 100000; a bare whole number is a count too. Raises ValueError that says what was expected."""
    return COUNT.integer(str(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size: 65536 -> `64KiB`, 1000000 -> `1000000B`."""
    return _format(size_bytes, BINARY_BYTES)


def format_rate(rate_per_s: int) -> str:
    """The shortest exact way to write a rate: 20000 -> `20k/s`."""
    return _format(rate_per_s, _RATES)


def format_duration_ns(duration_ns: int) -> str:
    """The shortest exact way to write a duration: 500000000 -> `500ms`."""
    return _format(duration_ns, _WRITTEN_NS)


def format_duration_s(duration_s: int) -> str:
    """The shortest exact way to write whole seconds: 120 -> `2m`."""
    return format_duration_ns(duration_s * 10**9) if duration_s else "0s"


def format_percent(ratio: float) -> str:
    """A ratio as people write it: 0.005 -> `0.5%`."""
    return f"{Decimal(str(ratio)) * 100:f}".rstrip("0").rstrip(".") + "%"


def format_count(count: int) -> str:
    """The shortest exact way to write a count: 100000 -> `100k`."""
    return _format(count, _COUNTS)


def _format(amount: int, multipliers: Mapping[str, int]) -> str:
    unit, multiplier = max(
        ((unit, multiplier) for unit, multiplier in multipliers.items() if amount % multiplier == 0 and amount),
        key=lambda item: item[1],
        default=next(iter(multipliers.items())),
    )
    return f"{amount // multiplier}{unit}"
