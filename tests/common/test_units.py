"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from highwater.common.units import (
    change_size_text,
    change_span_text,
    change_text,
    count_text,
    duration_ns_text,
    duration_text,
    percent_text,
    rate_text,
    ratio_text,
    shortened,
    significant,
    size_text,
    wait_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123456, "0.0123"),
        (0.9996, "1"),
        (9.996, "10"),
        (12.34, "12.3"),
        (100, "100"),
        (999.6, "1,000"),
        (12345.6, "12,346"),
        (-4.0, "-4"),
        (math.inf, "–"),
        (math.nan, "–"),
    ],
)
def test_three_digits_at_most_and_whole_numbers_never_cut(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_figure_beside_a_limit_has_more_digits() -> None:
    assert (significant(99.97), significant(99.97, 4), percent_text(0.9997, 4)) == ("100", "99.97", "99.97 %")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (131072, "128 KiB"),
        (2**20 - 1, "1 MiB"),
        (4 * 2**20, "4 MiB"),
        (4.65 * 2**30, "4.65 GiB"),
        (2**60, "1,048,576 TiB"),
    ],
)
def test_sizes(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (3_000, "3 µs"),
        (1_234_567, "1.23 ms"),
        (999_999, "1 ms"),
        (99_960_000, "100 ms"),
        (90 * 10**9, "90 s"),
        (5e12, "5,000 s"),
    ],
)
def test_measured_durations(duration_ns: float, text: str) -> None:
    assert duration_ns_text(duration_ns) == text


def test_durations_in_seconds_are_shown_as_those_in_nanoseconds() -> None:
    assert [duration_text(s) for s in (0, 90.0, 0.0227, 0.000_003, 2e-9)] == ["0 s", "90 s", "22.7 ms", "3 µs", "2 ns"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (9.96, "10 s"),
        (45, "45 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (150, "2 min 30 s"),
        (3720, "1 h 2 min"),
        (7 * 86400, "7 d"),
    ],
)
def test_waits_are_short(seconds: float, text: str) -> None:
    assert wait_text(seconds) == text


def test_counts_and_rates_have_commas() -> None:
    assert (count_text(19962.4), rate_text(19962.4), rate_text(2.534)) == ("19,962", "19,962/s", "2.53/s")


def test_ratios_and_changes() -> None:
    assert [change_text(ratio) for ratio in (0.92, 1.0, 1.00004, 1.0008, 1.005, 0.8766, 2.0, 60.0)] == [
        "−8 %",
        "±0 %",
        "±0 %",
        "+0.08 %",
        "+0.5 %",
        "−12.3 %",
        "+100 %",
        "60×",
    ]
    assert [change_size_text(size) for size in (0.05, 1.0, 2.5)] == ["5 %", "100 %", "3.5×"]
    spans = [change_span_text(low, high) for low, high in ((0.91, 1.06), (0.91, 3), (2.5, 60))]
    assert spans == ["−9 to +6 %", "−9 % to 3×", "2.5× to 60×"]
    assert [ratio_text(ratio) for ratio in (0.5, 0.9963, 1.0042, 1.614, 23.45)] == [
        "0.5×",
        "0.996×",
        "1.004×",
        "1.61×",
        "23.4×",
    ]


def test_a_text_is_cut_at_the_width_that_it_has() -> None:
    assert [shortened(text, 4) for text in ("", "four", "fives")] == ["", "four", "fiv…"]
