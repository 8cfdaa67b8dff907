"""Filter, sort and pages of a table, and its CSV."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.web.filters import FilterError, parse_filter
from highwater.monitor.web.tables import Column, Table, arrange, as_csv, as_objects
from highwater.monitor.web.units import BYTES, MILLISECONDS, TEXT, YES_NO


class Thing(NamedTuple):
    name: str
    size: int | None = 0
    wait_ms: float | None = None
    internal: bool = False


COLUMNS: Final[tuple[Column[Thing], ...]] = (
    Column("name", "Name", TEXT, lambda r: r.name),
    Column("size", "Size", BYTES, lambda r: r.size),
    Column("wait", "Wait", MILLISECONDS, lambda r: r.wait_ms),
    Column("internal", "Internal", YES_NO, lambda r: r.internal),
)
THINGS = (
    Thing("orders", 2048, 500),
    Thing("Billing", None, 90_000),
    Thing("__offsets", 10, None, True),
    Thing("a:b <script>", 5 << 30, 1),
)


def table(rows: tuple[Thing, ...] = THINGS) -> Table[Thing]:
    return Table("things", "Things", COLUMNS, rows, "There are no things.")


def names(**query: str) -> list[str]:
    return [row.name for row in arrange(table(), query).shown]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ord", ["orders"]),
        ("BILL", ["Billing"]),
        ("-orders", ["Billing", "__offsets", "a:b <script>"]),
        ('"a:b"', ["a:b <script>"]),
        ("<script>", ["a:b <script>"]),
        ('name:"a:b"', ["a:b <script>"]),
        ("name=ORDERS", ["orders"]),
        ("size>1KiB", ["orders", "a:b <script>"]),
        ("size>=2,048", ["orders", "a:b <script>"]),
        ("size<2KiB", ["__offsets"]),
        ("size:10", ["__offsets"]),
        ("size!=10", ["orders", "a:b <script>"]),
        ("size:none", ["Billing"]),
        ("size!=none", ["orders", "__offsets", "a:b <script>"]),
        ("wait>1min", ["Billing"]),
        ("wait<=500", ["orders", "a:b <script>"]),
        ("wait>-1", ["orders", "Billing", "a:b <script>"]),
        ("internal:no size>1KiB o", ["orders"]),
        ("-internal:yes -size:none", ["orders", "a:b <script>"]),
        ("nothing", []),
        ("  ", ["orders", "Billing", "__offsets", "a:b <script>"]),
    ],
)
def test_a_filter_keeps_the_rows_that_all_of_its_terms_hold_for(text: str, found: list[str]) -> None:
    view = arrange(table(), {"q": text})
    assert view.problem == ""
    assert [row.name for row in view.shown] == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sise>1", "There is no column sise; did you mean size? To search"),
        ("zzz:1", "There is no column zzz. To search"),
        ("size>many", "size is a number such as 1.5GiB, not many."),
        ("wait>1parsec", "wait is a number such as 5min, not 1parsec."),
        ("internal:perhaps", "internal is yes or no, not perhaps."),
        ('"not closed', "cannot be read from here on"),
        ("size>none", "only : and = and != go with none"),
        ("a" * 501, "501 characters"),
        ("size>__import__('os')", "is a number"),
    ],
)
def test_a_filter_that_cannot_be_read_says_why_and_hides_nothing(text: str, sentence: str) -> None:
    view = arrange(table(), {"q": text})
    assert sentence in view.problem
    assert len(view.shown) == len(THINGS)


@given(st.text(max_size=60))
def test_every_filter_is_read_or_refused(text: str) -> None:
    with suppress(FilterError):
        parse_filter(text, table().kinds)


def test_rows_are_sorted_both_ways_with_unknown_values_last() -> None:
    assert names(sort="size") == ["__offsets", "orders", "a:b <script>", "Billing"]
    assert names(sort="-size") == ["a:b <script>", "orders", "__offsets", "Billing"]
    view = arrange(table(), {"sort": "-nothing"})
    assert view.problem == "There is no column nothing to sort by."
    assert view.shown == THINGS


@pytest.mark.parametrize(
    ("page", "first", "number"),
    [("", 0, 1), ("2", 50, 2), ("3", 100, 3), ("99", 100, 3), ("0", 0, 1), ("-1", 0, 1), ("x", 0, 1), ("9" * 30, 0, 1)],
)
def test_a_page_that_does_not_exist_is_the_nearest_one(page: str, first: int, number: int) -> None:
    many = table(tuple(Thing(f"thing-{n}") for n in range(120)))
    view = arrange(many, {"page": page})
    assert (view.shown[0].name, view.page, view.pages) == (f"thing-{first}", number, 3)


def test_a_query_cannot_ask_for_a_page_of_any_length() -> None:
    many = table(tuple(Thing(f"thing-{n}") for n in range(3000)))
    assert len(arrange(many, {"rows": "100000"}).shown) == 1000
    assert len(arrange(many, {"rows": "0"}).shown) == 1
    assert len(arrange(many, {"rows": "²"}).shown) == 50


def test_several_tables_of_a_page_do_not_share_their_query() -> None:
    assert [row.name for row in arrange(table(), {"q": "orders", "b.q": "bill"}, "b.").shown] == ["Billing"]


def test_csv_has_exact_values_and_no_formula() -> None:
    hostile = (Thing("=HYPERLINK(0)", 1536), Thing('a,"b"\r\nc', None), Thing("-1", -5), Thing("\tx", 0, 0.5))
    rows = list(csv.reader(io.StringIO(as_csv(table(hostile), hostile))))
    assert rows == [
        ["name", "size", "wait", "internal"],
        ["'=HYPERLINK(0)", "1536", "", "no"],
        ['a,"b"\r\nc', "", "", "no"],
        ["-1", "-5", "", "no"],
        ["'\tx", "0", "0.5", "no"],
    ]


def test_objects_have_the_values_themselves() -> None:
    assert as_objects(table(), THINGS[:1]) == [{"name": "orders", "size": 2048, "wait": 500, "internal": False}]
