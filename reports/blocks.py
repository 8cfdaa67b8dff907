"""The parts of a report: sections of blocks such as tables, facts and figures.

`page.py` (HTML) and `markdown.py` write the same sections, so that neither shows something that the other leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from markupsafe import Markup

Tone = Literal["", "good", "warn", "bad", "none"]
"""The meaning of a mark: ✓, !, ✕; "none" for no mark."""


@dataclass(frozen=True)
class Column:
    """`text` columns are aligned to the left; `prose` may wrap; neighbours with the same `group` share a heading."""

    title: str
    unit: str = ""
    hint: str = ""
    group: str = ""
    text: bool = False
    prose: bool = False


@dataclass(frozen=True)
class Field:
    """One field of a table; the small text may have several lines.

    `sort` is the value that a click on the column sorts by; `hint` explains the look of a figure; `tone` marks the
    small text if there is one, otherwise the text.
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
    """A row of a table. `faint` rows are for diagnosis only."""

    fields: Sequence[Field]
    faint: bool = False


@dataclass(frozen=True)
class Table:
    kind: ClassVar[str] = "table"
    columns: Sequence[Column]
    rows: Sequence[Row]
    label: str = ""
    """The table's name for screen readers."""
    note: str = ""
    wide: bool = False
    """The table has the full width of the page and a smaller font."""
    sortable: bool = False
    folded: str = ""
    """A line that shows the table when a reader clicks it."""

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The upper line of the header as (group, number of columns); empty when no column has a group."""
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
    """A table from plain texts."""
    columns = [c if isinstance(c, Column) else Column(c, text=not i) for i, c in enumerate(header)]
    return Table(columns, [Row([f if isinstance(f, Field) else Field(f) for f in row]) for row in rows], label, note)


@dataclass(frozen=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    text: str
    look: Literal["", "caution", "remark", "note"] = ""


@dataclass(frozen=True)
class Headline:
    """The answer in one sentence, with the tone of what it says."""

    kind: ClassVar[str] = "headline"
    text: str
    tone: Tone


@dataclass(frozen=True)
class Strip:
    """A row of a picture: a name, a drawing as wide as there is room, its figure, and what is concluded of it.

    `words`: what the drawing shows, for readers who cannot see it.
    """

    label: str
    drawing: Markup
    figure: str
    note: str
    words: str
    state: str


@dataclass(frozen=True)
class Strips:
    """The picture of an answer: strips over one axis. `legend`: marks and their meanings."""

    kind: ClassVar[str] = "strips"
    title: str
    rows: Sequence[Strip]
    axis: Markup
    legend: Sequence[tuple[Markup, str]]
    note: str = ""


@dataclass(frozen=True)
class Statements:
    """The answer: sentences with the tone of what they say, and what decides the open ones.

    `command` ends `next_step` and is to be pasted; both may be empty. `folded`: a line that shows the sentences.
    """

    kind: ClassVar[str] = "statements"
    items: Sequence[tuple[str, Tone]]
    next_step: str = ""
    command: str = ""
    folded: str = ""


@dataclass(frozen=True)
class Heading:
    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Bullet:
    """`mark`: a difference was shown, was not shown, or nothing was compared."""

    text: str
    subject: str = ""
    mark: Literal["plain", "shown", "open"] = "plain"


@dataclass(frozen=True)
class Bullets:
    kind: ClassVar[str] = "bullets"
    items: Sequence[Bullet]


@dataclass(frozen=True)
class Facts:
    """A list of names and values."""

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
    """Preformatted text. `folded`: a line that shows the text when a reader clicks it."""

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
    """One way to draw a figure; in a figure with several views, the reader chooses one."""

    name: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class LegendItem:
    slot: int
    name: str
    swatch: Markup


Layout = Literal["half", "narrow", "pairs", "many", "full"]
"""narrow: half of the page, and on a telephone the whole chart without scrolling."""
"""Half the page's width, or all of it: two large panels beside each other, as many small ones as fit, or one."""


@dataclass(frozen=True)
class Figure:
    """A chart, its finding in words, and its data as a table, for readers who cannot see the chart."""

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
    """How many panels are side by side, where the position of a panel has a meaning."""


@dataclass(frozen=True)
class Figures:
    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


Block = Table | Paragraph | Headline | Strips | Statements | Heading | Bullets | Facts | FactColumns | Code | Figures


@dataclass(frozen=True)
class Section:
    """`tone` colours the whole section; `nav` is its short name for the navigation.

    `folded`: a line beside the title, which alone is shown until a reader opens the section.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    tone: Tone = ""
    nav: str = ""
    folded: str = ""

    @property
    def short(self) -> str:
        return self.nav or self.title
