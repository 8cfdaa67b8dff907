"""Quantities as people write them: one grammar in the files and options of all rooms."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from highwater.admin.offset_reset import parse_duration_ms
from highwater.admin.terminal import UsageError
from highwater.common import errors, quantities
from highwater.common.quantities import DURATION, LINK_SPEED, SIZE, Quantity
from highwater.common.yaml_nodes import parse
from highwater.common.yaml_part import Part
from highwater.monitor.actions.throttle import rate_of
from highwater.monitor.web.filters import ValueKind, matching, parse_filter
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging.levels import parse_delay_ms
from highwater.pipeline.option_values import OptionValues
from highwater.results.bounds import parse_bound
from highwater.studies.capacity.load import BytesPerS, NetworkBytesPerS, SpanS
from highwater.tuning.errors import TuningError
from highwater.tuning.workload import parse_workload


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("100B", 100), ("64KiB", 65536), ("1.5MiB", 1572864), ("1 kB", 1000), ("2MB", 2000000), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert quantities.SIZE.integer(text) == size_bytes
    assert quantities.SIZE.integer(quantities.format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(("text", "rate"), [("500/s", 500), ("20k/s", 20000), ("1.5M/s", 1500000), ("0/s", 0)])
def test_rates(text: str, rate: int) -> None:
    assert quantities.RATE.integer(text) == rate
    assert quantities.RATE.integer(quantities.format_rate(rate)) == rate


@pytest.mark.parametrize(
    ("text", "duration_ns"), [("500us", 500_000), ("1.5ms", 1_500_000), ("15s", 15 * 10**9), ("2m", 120 * 10**9)]
)
def test_durations(text: str, duration_ns: int) -> None:
    assert quantities.DURATION.integer(text) == duration_ns
    assert quantities.DURATION.integer(quantities.format_duration_ns(duration_ns)) == duration_ns


@pytest.mark.parametrize("value", [64, 64.0, True, None, "64", "64kb", "64Kb", "64 K", "-1KiB", "0x10B", ""])
def test_a_size_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a size with its unit .* for example 64KiB"):
        quantities.SIZE.integer(value)


@pytest.mark.parametrize("value", [20000, "20k", "20K/s", "20k/m", "/s"])
def test_a_rate_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not records per second, for example"):
        quantities.RATE.integer(value)


@pytest.mark.parametrize("value", [15, "15", "15 sec", "15S"])
def test_a_duration_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration with its unit"):
        quantities.parse_duration_s(value)


def test_fractions_of_the_smallest_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="not a whole number of bytes"):
        quantities.SIZE.integer("0.3B")
    with pytest.raises(ValueError, match="not a whole number of seconds"):
        quantities.parse_duration_s("1500ms")


@pytest.mark.parametrize(
    ("parse", "pattern"),
    [
        (quantities.SIZE.integer, quantities.SIZE.pattern),
        (quantities.RATE.integer, quantities.RATE.pattern),
        (quantities.DURATION.integer, quantities.DURATION.pattern),
        (quantities.parse_percent, quantities.PERCENT.pattern),
        (quantities.parse_count, quantities.COUNT.pattern),
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


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("64KiB", 65536),
        ("1.5 MiB", 1572864),
        ("0.1kB", 100),
        ("1.05B", Decimal("1.05")),
        ("64", None),
        (" 64  KiB\n", 65536),
        ("64KB", 64000),
        ("٦٤KiB", None),
        ("64kib", None),
        ("-1KiB", None),
        ("1.KiB", None),
        ("KiB", None),
    ],
)
def test_parsing_is_exact(text: str, amount: Decimal | int | None) -> None:
    assert SIZE.amount(text) == amount


NUMBERS = st.decimals(min_value="0.001", max_value=10**6, places=3).map(lambda number: f"{number:f}")
SPACES = st.sampled_from(["", " ", "  "])


def spelled(quantity: Quantity) -> st.SearchStrategy[tuple[str, float]]:
    """Texts of a quantity with their amounts."""
    return st.tuples(SPACES, NUMBERS, SPACES, st.sampled_from(sorted(quantity.units)), SPACES).map(
        lambda parts: ("".join(parts), float(Decimal(parts[1]) * quantity.units[parts[3]]))
    )


def monitors(value: str) -> Part:
    return Part(parse(yaml, f"every: '{value}'\n", "m.yaml", "every: 15s"), {}, Path())


@given(spelled(DURATION))
def test_a_duration_is_written_alike_in_every_file_and_option(spelling: tuple[str, float]) -> None:
    text, duration_ns = spelling
    seconds = pytest.approx(duration_ns / 1e9)
    assert re.fullmatch(DURATION.pattern, text)
    bound = parse_bound(f"<{text}")
    assert bound.unit == "ns"
    assert bound.value == pytest.approx(duration_ns)
    assert parse_workload({"retention": text}).retention_s == seconds
    assert TypeAdapter(SpanS).validate_python(text) == seconds
    assert monitors(text).seconds("every", 0) == seconds
    just_below_ms = duration_ns / 1e6 * (1 - 1e-9)
    assert matching([just_below_ms], parse_filter(f'lag<="{text}"', {"lag": ValueKind.MILLISECONDS}), lambda _: float)
    if DURATION.parse(text) % 1 == 0:
        assert DURATION.integer(text) == pytest.approx(duration_ns)
    if DURATION.parse(text) % 10**6 == 0:
        assert OptionValues({"every": text}).duration_ms("every", 0) == pytest.approx(duration_ns / 1e6)
        assert parse_delay_ms(text) == parse_duration_ms(text) == pytest.approx(duration_ns / 1e6)


@given(spelled(SIZE))
def test_a_size_is_written_alike_in_every_file_and_option(spelling: tuple[str, float]) -> None:
    text, size_bytes = spelling
    assert re.fullmatch(SIZE.pattern, text)
    assert parse_bound(f"<{text}").value == pytest.approx(size_bytes)
    assert parse_workload({"heap": text}).heap_bytes == pytest.approx(size_bytes, rel=1e-9, abs=0.5)
    assert monitors(text).size_bytes("every", 0) == int(SIZE.parse(text))
    if size_bytes >= 1:
        assert rate_of(text) == rate_of(f"{text.strip()}/s") == int(SIZE.parse(text))
        assert parse_workload({"write_rate": f"{text.strip()}/s"}).write_bytes_per_s == pytest.approx(
            size_bytes, rel=1e-9, abs=0.5
        )
        assert TypeAdapter(BytesPerS).validate_python(f"{text.strip()}/s") == pytest.approx(size_bytes)


@given(spelled(LINK_SPEED))
def test_the_speed_of_a_link_is_written_alike_for_the_tuner_and_the_plan(spelling: tuple[str, float]) -> None:
    text, bits_per_s = spelling
    assert parse_workload({"link": text}).link_bits_per_s == pytest.approx(bits_per_s, abs=0.5)
    assert TypeAdapter(NetworkBytesPerS).validate_python(text) == pytest.approx(bits_per_s / 8)


@pytest.mark.parametrize("text", ["15", "m", "-5s", "1e3s", "15 mins", "5 M", "1h30m", ""])
def test_what_is_no_duration_is_quoted_by_all(text: str) -> None:
    quoted = re.escape(repr(text)) + ".* duration with its unit .* for example 500ms"
    with pytest.raises(ValueError, match=quoted):
        DURATION.parse(text)
    with pytest.raises(TuningError, match=f"retention: {quoted}"):
        parse_workload({"retention": text})
    with pytest.raises(ValueError, match=quoted):
        TypeAdapter(SpanS).validate_python(text)
    if text:
        with pytest.raises(errors.UsageError, match=f"every: {quoted}"):
            monitors(text).seconds("every", 0)
    with pytest.raises(SettingsError, match=re.escape(repr(text))):
        parse_delay_ms(text)
    with pytest.raises(UsageError, match="write it as 150min, or as P1DT2H30M5S"):
        parse_duration_ms(text)
