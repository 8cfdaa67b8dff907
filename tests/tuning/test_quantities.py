"""Units in, units out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.tuning.errors import TuningError
from highwater.tuning.quantities import (
    format_bit_rate,
    format_byte_rate,
    parse_bit_rate,
    parse_byte_rate,
    parse_bytes,
    parse_count,
    parse_duration_ms,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "10GiB", 10 * 2**30),
        (parse_bytes, "1.5 kB", 1500),
        (parse_byte_rate, "400MB/s", 400_000_000),
        (parse_bit_rate, "25Gbit/s", 25 * 10**9),
        (parse_duration_ms, "1.5s", 1500.0),
        (parse_duration_ms, "200us", 0.2),
        (parse_count, "1000", 1000),
    ],
)
def test_parse(parse: Callable[[str], float], text: str, value: float) -> None:
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bytes, "10"),
        (parse_bytes, "10 Gb"),
        (parse_byte_rate, "400MB"),
        (parse_byte_rate, "0MB/s"),
        (parse_bit_rate, "10GB/s"),
        (parse_duration_ms, "3"),
        (parse_count, "-5"),
        (parse_count, "many"),
        (parse_count, ""),
    ],
)
def test_a_wrong_unit_is_refused_by_name(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(TuningError) as caught:
        parse(text)
    assert repr(text) in str(caught.value)


def test_rates_are_shown_in_powers_of_1000() -> None:
    assert format_byte_rate(450_000_000) == "450 MB/s"
    assert format_byte_rate(1_234_000_000) == "1.23 GB/s"
    assert format_bit_rate(10**10) == "10 Gbit/s"
