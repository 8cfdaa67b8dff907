from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from highwater.bench import units


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("100B", 100), ("64KiB", 65536), ("1.5MiB", 1572864), ("1 kB", 1000), ("2MB", 2000000), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert units.parse_size_bytes(text) == size_bytes
    assert units.parse_size_bytes(units.format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(("text", "rate"), [("500/s", 500), ("20k/s", 20000), ("1.5M/s", 1500000), ("0/s", 0)])
def test_rates(text: str, rate: int) -> None:
    assert units.parse_rate_per_s(text) == rate
    assert units.parse_rate_per_s(units.format_rate(rate)) == rate


@pytest.mark.parametrize(
    ("text", "duration_ns"), [("500us", 500_000), ("1.5ms", 1_500_000), ("15s", 15 * 10**9), ("2m", 120 * 10**9)]
)
def test_durations(text: str, duration_ns: int) -> None:
    assert units.parse_duration_ns(text) == duration_ns
    assert units.parse_duration_ns(units.format_duration_ns(duration_ns)) == duration_ns


@pytest.mark.parametrize("value", [64, 64.0, True, None, "64", "64kb", "64Kb", "64 K", "-1KiB", "0x10B", "", "1KiB\n"])
def test_a_size_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a size with its unit .* for example 64KiB"):
        units.parse_size_bytes(value)


@pytest.mark.parametrize("value", [20000, "20k", "20K/s", "20k/m", "/s"])
def test_a_rate_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not records per second, for example"):
        units.parse_rate_per_s(value)


@pytest.mark.parametrize("value", [15, "15", "15 sec", "15S"])
def test_a_duration_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration with its unit"):
        units.parse_duration_s(value)


def test_fractions_of_the_smallest_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="not a whole number of bytes"):
        units.parse_size_bytes("0.3B")
    with pytest.raises(ValueError, match="not a whole number of seconds"):
        units.parse_duration_s("1500ms")


@pytest.mark.parametrize(
    ("parse", "pattern"),
    [
        (units.parse_size_bytes, units.SIZE_PATTERN),
        (units.parse_rate_per_s, units.RATE_PATTERN),
        (units.parse_duration_ns, units.DURATION_PATTERN),
        (units.parse_percent, units.PERCENT_PATTERN),
        (units.parse_count, units.COUNT_PATTERN),
    ],
)
def test_what_the_schema_accepts_is_what_is_parsed(parse: Callable[[object], float], pattern: str) -> None:
    numbers = ("1", "1.0", "1 ", "1  ", " 1", ".1", "1.", "-1", "")
    names = (
        "",
        "B",
        "b",
        "kB",
        "KB",
        "KiB",
        "TiB",
        "PiB",
        "/s",
        "k/s",
        "K/s",
        "M",
        "k",
        "us",
        "µs",
        "m",
        "min",
        "%",
    )
    for text in (number + name for number in numbers for name in names):
        with nullcontext() if re.fullmatch(pattern, text) else pytest.raises(ValueError, match="is not"):
            parse(text)
