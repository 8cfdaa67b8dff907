"""One table as a page shows it, and as CSV and JSON: filtered, sorted, cut into pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from highwater.common.csv_text import csv_text
from highwater.monitor.figures.rows import Level
from highwater.monitor.web import words
from highwater.monitor.web.filters import FilterError, Value, ValueKind, matching, parse_filter
from highwater.monitor.web.units import Unit

Row = TypeVar("Row")
PAGE_ROWS: Final = 50
MOST_PAGE_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    key: str
    """Its name in filters, CSV and JSON."""
    title: str
    """Its head on a page; empty for what only CSV and JSON have."""
    unit: Unit
    value: Callable[[Row], Value]
    show: Callable[[Row], str] | None = None
    """The text or Markup of a page; without it the value in the words of its unit."""
    order: Callable[[Row], Any] | None = None
    """What it is sorted by; without it the value."""

    @property
    def is_shown(self) -> bool:
        return bool(self.title)

    def text(self, row: Row) -> str:
        return self.show(row) if self.show else self.unit.words(self.value(row))


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    name: str
    """Unique in a page, and the end of its address as CSV and JSON: `topics`."""
    title: str
    columns: tuple[Column[Row], ...]
    rows: Sequence[Row]
    empty: str
    """A sentence for a table without any row."""
    sort: str = ""
    """The column it is sorted by at first; with `-` before it, from the largest down. Empty: as the rows are."""
    level: Callable[[Row], Level] | None = None
    """How bad a row is, which gives it its colour."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """The formula or the meaning of columns, by their keys."""

    def column(self, key: str) -> Column[Row] | None:
        return next((column for column in self.columns if column.key == key), None)

    @property
    def kinds(self) -> dict[str, ValueKind]:
        return {column.key: column.unit.kind for column in self.columns}


@dataclass(frozen=True, slots=True)
class Arranged(Generic[Row]):
    """A table after filter and sort, cut to a page."""

    table: Table[Row]
    filter_text: str
    sort: str
    page: int
    """The number of the page, from 1."""
    page_rows: int
    matching: Sequence[Row]
    problem: str
    """Why the filter or the sort was not taken; empty if it was."""

    @property
    def shown(self) -> Sequence[Row]:
        begin = (self.page - 1) * self.page_rows
        return self.matching[begin : begin + self.page_rows]

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.matching) // self.page_rows))


def arrange(table: Table[Row], query: Mapping[str, str], prefix: str = "") -> Arranged[Row]:
    """`prefix` goes before the names of the query, for pages with several tables."""
    filter_text = query.get(f"{prefix}q", "").strip()
    sort = query.get(f"{prefix}sort", "") or table.sort
    rows: Sequence[Row] = table.rows
    problem = ""
    try:
        conditions = parse_filter(filter_text, table.kinds)
        rows = matching(rows, conditions, lambda key: _reader(table, key)) if conditions else rows
    except FilterError as error:
        problem = str(error)
    try:
        rows = _sorted(table, rows, sort)
    except FilterError as error:
        problem = problem or str(error)
        sort = table.sort
    page_rows = min(max(_number(query.get(f"{prefix}rows", ""), PAGE_ROWS), 1), MOST_PAGE_ROWS)
    pages = max(1, -(-len(rows) // page_rows))
    page = min(max(_number(query.get(f"{prefix}page", ""), 1), 1), pages)
    return Arranged(table, filter_text, sort, page, page_rows, rows, problem)


def as_csv(table: Table[Row], rows: Sequence[Row]) -> str:
    """Return the rows as CSV with exact numbers."""
    readers = [(column.key, column.value) for column in table.columns]
    cells = ({key: _csv_cell(read(row)) for key, read in readers} for row in rows)
    return csv_text([column.key for column in table.columns], cells, "\r\n")


def as_objects(table: Table[Row], rows: Sequence[Row]) -> list[dict[str, Value]]:
    readers = [(column.key, column.value) for column in table.columns]
    return [{key: read(row) for key, read in readers} for row in rows]


def address(path: str, query: Mapping[str, str]) -> str:
    kept = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(kept)}" if kept else path


def _csv_cell(value: Value) -> Value:
    return words.yes_no(value) if isinstance(value, bool) else value


def _reader(table: Table[Row], key: str) -> Callable[[Row], Value]:
    column = table.column(key) if key else table.columns[0]
    assert column is not None
    return column.value


def _sorted(table: Table[Row], rows: Sequence[Row], sort: str) -> Sequence[Row]:
    """Rows whose value is not known come last, whichever way the others go."""
    key = sort.removeprefix("-")
    if not key:
        return rows
    column = table.column(key)
    if column is None:
        raise FilterError(f"There is no column {key} to sort by.")
    read = column.order or column.value
    known: list[tuple[Any, Row]] = []
    unknown: list[Row] = []
    for row in rows:
        value = read(row)
        if value is None:
            unknown.append(row)
        else:
            known.append((value, row))
    known.sort(key=_first, reverse=sort.startswith("-"))
    return [row for _, row in known] + unknown


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise
