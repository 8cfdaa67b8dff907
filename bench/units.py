"""Values with units, as people write them in workload files: `64KiB`, `20k/s`, `15s`; and back again.

A bare number is refused where a unit is required: 64 bytes and 64 KiB are both plausible, and the wrong one would be
measured without complaint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

BINARY_BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
DECIMAL_BYTES: Final = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
RATE_MULTIPLIERS: Final = {"": 1, "k": 10**3, "M": 10**6}
COUNT_MULTIPLIERS: Final = {"": 1, "k": 10**3, "M": 10**6}
DURATION_NS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
SIZE_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>B|[KMGT]iB|[kMGT]B)$"
RATE_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>[kM]?)/s$"
DURATION_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>ns|us|ms|s|m|h)$"
PERCENT_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>%)$"
COUNT_PATTERN: Final = rf"^{_NUMBER} ?(?P<unit>[kM]?)$"

SIZE_FORM: Final = "a size with its unit (B, KiB, MiB, GiB or kB, MB, GB), for example 64KiB"
RATE_FORM: Final = "records per second, for example 500/s, 20k/s or 1.5M/s"
DURATION_FORM: Final = "a duration with its unit (us, ms, s, m, h), for example 500ms, 15s or 2m"
PERCENT_FORM: Final = "a percentage, for example 0.5%"
COUNT_FORM: Final = "a count, for example 100, 50k or 2M"


def parse_size_bytes(value: object) -> int:
    """`64KiB` -> 65536. Raises ValueError that says what was expected."""
    return _parse(value, SIZE_PATTERN, BINARY_BYTES | DECIMAL_BYTES, SIZE_FORM, "a whole number of bytes")


def parse_rate_per_s(value: object) -> int:
    """`20k/s` -> 20000. Raises ValueError that says what was expected."""
    return _parse(value, RATE_PATTERN, RATE_MULTIPLIERS, RATE_FORM, "a whole number of records per second")


def parse_duration_ns(value: object) -> int:
    """`15s` -> 15000000000. Raises ValueError that says what was expected."""
    return _parse(value, DURATION_PATTERN, DURATION_NS, DURATION_FORM, "a whole number of nanoseconds")


def parse_duration_s(value: object) -> int:
    """`2m` -> 120; phases are counted in whole seconds. Raises ValueError that says what was expected."""
    seconds, rest_ns = divmod(parse_duration_ns(value), 10**9)
    if rest_ns:
        raise ValueError(f"{value!r} is not a whole number of seconds")
    return seconds


def parse_percent(value: object) -> float:
    """`0.5%` -> 0.005. Raises ValueError that says what was expected."""
    match = re.fullmatch(PERCENT_PATTERN, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {PERCENT_FORM}")
    return float(Decimal(match["number"]) / 100)


def parse_count(value: object) -> int:
    """`100k` -> 100000; a bare whole number is a count too. Raises ValueError that says what was expected."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return _parse(text, COUNT_PATTERN, COUNT_MULTIPLIERS, COUNT_FORM, "a whole number")


def _parse(value: object, pattern: str, multipliers: Mapping[str, int], form: str, whole: str) -> int:
    match = re.fullmatch(pattern, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {form}")
    amount = Decimal(match["number"]) * multipliers[match["unit"]]
    if amount != int(amount):
        raise ValueError(f"{value!r} is not {whole}")
    return int(amount)


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size: 65536 -> `64KiB`, 1000000 -> `1000000B`."""
    return _format(size_bytes, BINARY_BYTES)


def format_rate(rate_per_s: int) -> str:
    """The shortest exact way to write a rate: 20000 -> `20k/s`."""
    return _format(rate_per_s, RATE_MULTIPLIERS) + "/s"


def format_duration_ns(duration_ns: int) -> str:
    """The shortest exact way to write a duration: 500000000 -> `500ms`."""
    return _format(duration_ns, DURATION_NS)


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


def human_bytes(size_bytes: float) -> str:
    """A size for people to read, rounded: 1536 -> `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def human_ns(duration_ns: float) -> str:
    """A duration for people to read, three digits: 1234567 -> `1.23 ms`."""
    rounded = float(f"{duration_ns:.3g}")
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if rounded >= scale:
            return f"{rounded / scale:.4g} {unit}"
    return f"{duration_ns:.0f} ns"


def human_ns_range(least_ns: float, most_ns: float, like_ns: float) -> str:
    """A range in the unit that `like_ns` is shown in: `0.914–1.08` beside `1.02 ms`."""
    rounded = float(f"{like_ns:.3g}")
    scale = next((scale for scale in (10**9, 10**6, 10**3) if rounded >= scale), 1)
    return "–".join(f"{float(f'{value / scale:.3g}'):.6g}" for value in (least_ns, most_ns))


def human_count(count: float) -> str:
    """A count for people to read: 19962.4 -> `19 962`, the thousands parted by a narrow no-break space."""
    return f"{count:,.0f}".replace(",", "\u202f")


def human_rate(rate_per_s: float) -> str:
    """A rate for people to read: 19962.4 -> `19 962/s`."""
    return human_count(rate_per_s) + "/s"


def human_duration(seconds: float) -> str:
    """Wall time for people to read: 95 -> `1 min 35 s`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def human_value(value: float, unit: str) -> str:
    """A figure of `highwater.bench.metrics` for people to read, in its unit: 4100000 ns -> `4.1 ms`."""
    match unit:
        case "ns":
            return human_ns(value)
        case "s":
            return f"{value:.3g} s"
        case "bytes":
            return human_bytes(value)
        case "bytes_per_s":
            return human_bytes(value) + "/s"
        case "per_s":
            return human_rate(value)
        case "ratio":
            return f"{value:.1%}"
        case "s_per_gib":
            return f"{value:.3g} s/GiB"
    return human_count(value)


def human_change(ratio: float) -> str:
    """A ratio as a change for people to read: 0.9 -> `−10.0 %`."""
    percent = f"{abs(ratio - 1):.1%}".replace("%", " %")
    return ("−" if ratio < 1 else "+") + percent
