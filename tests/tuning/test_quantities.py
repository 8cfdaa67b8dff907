"""Units in, units out."""

from __future__ import annotations

import pytest

from highwater.tuning.quantities import format_bit_rate, format_byte_rate, parse_value


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10GiB", "bytes", 10 * 2**30),
        ("1.5 MiB", "KiB", 1536),
        ("30s", "centiseconds", 3000),
        ("200us", "microseconds", 200),
        ("40 %", "percent", 40),
        ("1000", "pages", 1000),
        ("-1", "bytes", -1),
        ("10  20", "", "10 20"),
    ],
)
def test_values_of_knobs(text: str, unit: str, value: int | str) -> None:
    assert parse_value(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"), [("10 Gb", "bytes"), ("0MB", "KiB"), ("3 x", "centiseconds"), ("ten", "pages")]
)
def test_a_wrong_unit_is_quoted(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        parse_value(text, unit)


def test_rates_are_shown_in_powers_of_1000() -> None:
    assert format_byte_rate(450_000_000) == "450 MB/s"
    assert format_byte_rate(1_234_000_000) == "1.23 GB/s"
    assert format_bit_rate(10**10) == "10 Gbit/s"
