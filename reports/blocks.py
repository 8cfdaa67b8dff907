"""What a report is made of: sections of blocks.

A section says what to show and in which order; `page.py` (HTML) and `markdown.py` are two ways to write the same
sections, so that neither can show what the other leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from markupsafe import Markup

Tone = Literal["", "good", "warn", "bad", "none"]
"""What a mark says: ✓, !, ✕ or, for "none", that there is nothing to say."""


@dataclass(frozen=True)
class Column:
    """`text` columns are aligned to the left; `prose` may wrap; `group` stands above neighbours that share it."""

    title: str
    unit: str = ""
    hint: str = ""
    group: str = ""
    text: bool = False
    prose: bool = False


@dataclass(frozen=True)
class Field:
    """One field of a table; the small text may have several lines.

    `sort` is what a reader's click sorts by; `hint` says why a figure looks as it does; `tone` marks the small text
    where there is one, otherwise the text.
    """

    text: str
    small: str = ""
    sort: float | str | None = None
    tone: Tone = ""
    look: Literal["", "best", "weak", "bad"] = ""
    hint: str = ""
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """`faint` rows are shown for diagnosis, not for use."""

    fields: Sequence[Field]
    faint: bool = False


@dataclass(frozen=True)
class Table:
    kind: ClassVar[str] = "table"
    columns: Sequence[Column]
    rows: Sequence[Row]
    label: str = ""
    """What a screen reader calls it."""
    note: str = ""
    wide: bool = False
    """It takes all the width there is and is set smaller."""
    sortable: bool = False

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The upper line of the header, group and how many columns it spans; empty when no column has a group."""
        if not any(column.group for column in self.columns):
            return []
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found


def table(
    header: Sequence[str | Column], rows: Sequence[Sequence[str | Field]], label: str = "", note: str = ""
) -> Table:
    """A table from plain texts where nothing more is needed."""
    columns = [c if isinstance(c, Column) else Column(c, text=not i) for i, c in enumerate(header)]
    return Table(columns, [Row([f if isinstance(f, Field) else Field(f) for f in row]) for row in rows], label, note)


@dataclass(frozen=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    text: str
    look: Literal["", "caution", "remark", "note"] = ""


@dataclass(frozen=True)
class Heading:
    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Bullet:
    """`mark`: a difference that was shown, one that was not, or no comparison at all."""

    text: str
    subject: str = ""
    mark: Literal["plain", "shown", "open"] = "plain"


@dataclass(frozen=True)
class Bullets:
    kind: ClassVar[str] = "bullets"
    items: Sequence[Bullet]


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    kind: ClassVar[str] = "facts"
    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class FactColumns:
    """Groups of facts side by side."""

    kind: ClassVar[str] = "fact_columns"
    groups: Sequence[Facts]


@dataclass(frozen=True)
class Code:
    """Text as it stands. `folded` is the line behind which it is hidden until asked for."""

    kind: ClassVar[str] = "code"
    text: str
    look: Literal["", "command", "sums"] = ""
    folded: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    drawing: Markup


@dataclass(frozen=True)
class View:
    """One way to draw a figure; a figure with several lets the reader choose."""

    name: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class LegendItem:
    slot: int
    name: str
    swatch: Markup


Layout = Literal["half", "pairs", "many", "full"]
"""Half the page's width, or all of it: two large panels beside each other, as many small ones as fit, or one."""


@dataclass(frozen=True)
class Figure:
    """A chart, what it says in words, and the data behind it, for those who cannot or would rather not look at it."""

    kind: ClassVar[str] = "figure"
    name: str
    title: str
    finding: str
    views: Sequence[View]
    table: Table
    legend: Sequence[LegendItem] = ()
    note: str = ""
    layout: Layout = "half"
    columns: int = 0
    """How many panels stand beside each other, where their places mean something."""


@dataclass(frozen=True)
class Figures:
    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


Block = Table | Paragraph | Heading | Bullets | Facts | FactColumns | Code | Figures


@dataclass(frozen=True)
class Section:
    """`tone` colours the whole section; `nav` is its name where there is little room."""

    id: str
    title: str
    blocks: Sequence[Block]
    tone: Tone = ""
    nav: str = ""

    @property
    def short(self) -> str:
        return self.nav or self.title
