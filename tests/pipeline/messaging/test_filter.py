"""Filter expressions: what they take, and what a wrong one is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.messaging.filter import FilterError, parse_filter
from highwater.pipeline.messaging.record import Record, parse_place

RECORD = Record(
    *("orders", 2, 5, 1_700_000_000_000, b"k1", b'{"id":1}'),
    (("a", b"7"), ("a", b"8"), ("color", b"red"), ("or-x", b"1"), ("ok", b"true"), ("raw", b"\xff"), ("it's", b"it's")),
)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 8",
        "a > 5 AND color = 'red'",
        "a between 8 and 9",
        "a NOT BETWEEN 1 AND 7.5",
        "color in ('blue', 'red')",
        "color not in ('blue')",
        "missing is null and color IS NOT NULL",
        "NOT (a in (1, 2)) and key startswith 'k'",
        "missing <> 1 or ok",
        "ok = TRUE and not ok = false",
        "or-x = 1",
        "raw is null",
        "\"it's\" = 'it''s'",
        '"a" = 8',
        "topic = 'orders' and partition = 2 and offset >= 5",
        "timestamp >= '2023-11-14T22:13:20Z' and timestamp < '2023-11-15T00:00:00+01:00'",
        "timestamp = 1700000000000",
        "value CONTAINS '\"id\":1' and value not contains 'x' and color endswith 'ed'",
        "a = 1 or a = 8 and color = 'red'",
        "color > 'blue'",
    ],
)
def test_taken(expression: str) -> None:
    assert parse_filter(expression)(RECORD)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 7",
        "missing = 1",
        "missing <> 1",
        "not missing = 1",
        "missing not in ('x')",
        "missing between 1 and 2",
        "color = 5",
        "color <> 5",
        "color contains 5",
        "color",
        "(a = 1 or a = 8) and color = 'blue'",
        "missing = missing",
    ],
)
def test_not_taken(expression: str) -> None:
    assert not parse_filter(expression)(RECORD)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "it ends too early"),
        ("a >", "it ends too early; expected is a name or a number or a text"),
        ("a > 5 xx", "'xx' at 7 is not understood; expected is the end or AND or OR"),
        ("a ~ 5", "'~' at 3 is not understood"),
        ("(a = 7", "it ends too early; expected is )"),
        ("color = red' ", "is not understood"),
        ("timestamp > 'noon'", "'noon' is not a time"),
        ("timestamp > '2026-01-31T12:00:00'", "has no zone"),
        ("__import__('os')", "is not understood"),
    ],
)
def test_wrong(expression: str, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter(expression)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("digits", [400, 5000, 200_000])
def test_a_number_may_have_any_length(digits: int) -> None:
    """Python reads no whole number of more than 4,300 digits."""
    record = RECORD._replace(headers=(("n", b"9" * digits), ("small", b"5")))
    assert parse_filter("n > 1.5")(record)
    assert parse_filter("n > 6")(record)
    assert not parse_filter(f"small > {'9' * digits}")(record)
    assert parse_place(f"orders/{'9' * digits}/0") is None


@given(st.text(alphabet="ab'\"()=<>!., andornotisnullbetween0123456789", max_size=40))
def test_any_text_is_an_expression_or_a_filter_error(text: str) -> None:
    try:
        taken = parse_filter(text)(RECORD)
    except FilterError:
        return
    assert taken in (True, False)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_numbers_are_compared_as_numbers(left: int, right: int) -> None:
    record = RECORD._replace(headers=(("n", str(left).encode()),))
    for operator, holds in (("<", left < right), ("=", left == right), (">=", left >= right)):
        assert parse_filter(f"n {operator} {right}")(record) == holds
