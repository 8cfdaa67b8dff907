"""Values with units, as people write them in workload files, and back again: `64KiB`, `20k/s`, `15s`.

A bare number is refused where a unit is required: 64 bytes and 64 KiB are both plausible, and the wrong one would be
measured without complaint.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from highwater.common.units import BINARY_BYTES, DECIMAL_BYTES, DURATION_FORM, DURATION_NS, parse_scaled

COUNT_MULTIPLIERS: Final = {"": 1, "k": 10**3, "M": 10**6}
# Without days and second names: the same duration is always written alike, as a workload's digest is of its text.
_WRITTEN_NS: Final = {unit: DURATION_NS[unit] for unit in ("ns", "us", "ms", "s", "m", "h")}
_SIZE_BYTES: Final = BINARY_BYTES | DECIMAL_BYTES
_RATE_PER_S: Final = {f"{unit}/s": multiplier for unit, multiplier in COUNT_MULTIPLIERS.items()}
_PERCENT: Final = {"%": Decimal("0.01")}

# What is accepted, for the schema of workload files and to tell a bound's kind.
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
SIZE_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>B|[KMGT]iB|[kMGT]B)$"
RATE_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>[kM]?)/s$"
DURATION_UNITS: Final = "|".join(DURATION_NS)
DURATION_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>{DURATION_UNITS})$"
PERCENT_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>%)$"
COUNT_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>[kM]?)$"

SIZE_FORM: Final = "a size with its unit (B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB"
RATE_FORM: Final = "records per second, for example 500/s, 20k/s or 1.5M/s"
PERCENT_FORM: Final = "a percentage, for example 0.5%"
COUNT_FORM: Final = "a count, for example 100, 50k or 2M"


def parse_size_bytes(value: object) -> int:
    """`64KiB` -> 65536. Raises ValueError that says what was expected."""
    return _parse(value, _SIZE_BYTES, SIZE_FORM, "a whole number of bytes")


def parse_rate_per_s(value: object) -> int:
    """`20k/s` -> 20000. Raises ValueError that says what was expected."""
    return _parse(value, _RATE_PER_S, RATE_FORM, "a whole number of records per second")


def parse_duration_ns(value: object) -> int:
    """`15s` -> 15000000000. Raises ValueError that says what was expected."""
    return _parse(value, DURATION_NS, DURATION_FORM, "a whole number of nanoseconds")


def parse_duration_s(value: object) -> int:
    """`2m` -> 120; phases are counted in whole seconds. Raises ValueError that says what was expected."""
    seconds, rest_ns = divmod(parse_duration_ns(value), 10**9)
    if rest_ns:
        raise ValueError(f"{value!r} is not a whole number of seconds")
    return seconds


def parse_percent(value: object) -> float:
    """`0.5%` -> 0.005. Raises ValueError that says what was expected."""
    return float(_exact(value, _PERCENT, PERCENT_FORM))


def parse_count(value: object) -> int:
    """`100k` -> 100000; a bare whole number is a count too. Raises ValueError that says what was expected."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return _parse(text, COUNT_MULTIPLIERS, COUNT_FORM, "a whole number")


def _parse(value: object, units: Mapping[str, int], form: str, whole: str) -> int:
    amount = _exact(value, units, form)
    if amount != int(amount):
        raise ValueError(f"{value!r} is not {whole}")
    return int(amount)


def _exact(value: object, units: Mapping[str, int | Decimal], form: str) -> Decimal:
    amount = parse_scaled(value, units) if isinstance(value, str) else None
    if amount is None:
        raise ValueError(f"{value!r} is not {form}")
    return amount


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size: 65536 -> `64KiB`, 1000000 -> `1000000B`."""
    return _format(size_bytes, BINARY_BYTES)


def format_rate(rate_per_s: int) -> str:
    """The shortest exact way to write a rate: 20000 -> `20k/s`."""
    return _format(rate_per_s, _RATE_PER_S)


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
    return _format(count, COUNT_MULTIPLIERS)


def _format(amount: int, multipliers: Mapping[str, int]) -> str:
    unit, multiplier = max(
        ((unit, multiplier) for unit, multiplier in multipliers.items() if amount % multiplier == 0 and amount),
        key=lambda item: item[1],
        default=next(iter(multipliers.items())),
    )
    return f"{amount // multiplier}{unit}"
