from __future__ import annotations

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
    ("duration_ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1234567, "1.23 ms"), (999_999, "1 ms"), (99_960_000, "100 ms"), (5e12, "5000 s")],
)
def test_human_durations_keep_three_digits(duration_ns: float, text: str) -> None:
    assert units.human_ns(duration_ns) == text


def test_a_range_is_in_the_unit_of_what_it_stands_beside() -> None:
    assert units.human_ns_range(914_000, 1_084_000, 1_020_000) == "0.914–1.08"
    assert units.human_ns_range(9_000, 1_500_000, 993_000) == "9–1500"


def test_human_rates_and_sizes() -> None:
    assert units.human_rate(19962.4) == "19\u202f962/s"
    assert units.human_bytes(1536) == "1.5 KiB"
    assert units.human_duration(95) == "1 min 35 s"
    assert units.human_duration(3720) == "1 h 02 min"
