"""CSV that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io

import pytest

from highwater.common.csv_text import csv_text


def cell(value: object) -> str:
    header, row = csv.reader(io.StringIO(csv_text(["a"], [{"a": value}]), newline=""))
    assert header == ["a"]
    return row[0]


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+x", "-x", "@x"),
        *(" =1+1", "\t=1", "\r=1", "\n=1", "\0=1", "\u200b=1", "\u00a0=1"),
        *("\uff1d1", "\ufe661", "\uff0bx", "\uff20x"),
    ],
)
def test_what_may_be_a_formula_gets_an_apostrophe(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell(cell(text)) == f"'{text}"


@pytest.mark.parametrize("value", ["", "text", "-1.5", "+1e9", "a=b", "'=1", "1 = 1", 7, -7, -0.5])
def test_all_else_stays_as_it_is(value: object) -> None:
    assert cell(value) == str(value)


def test_names_are_cells_too_and_what_is_absent_is_empty() -> None:
    assert csv_text(["=a", "b"], [{"b": 1}, {"=a": None}], "\r\n") == "'=a,b\r\n,1\r\n,\r\n"
