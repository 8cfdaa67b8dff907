"""Writes a report as Markdown for a comment on a pull request: the same sections, tables for charts.

It uses GitHub's dialect: tables, and `<details>` around long sections, so that the answer stays visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from highwater.drawing.svg import readable
from highwater.reports.blocks import (
    Block,
    Bullets,
    Code,
    Column,
    FactColumns,
    Facts,
    Field,
    Figure,
    Figures,
    Heading,
    Headline,
    Paragraph,
    Section,
    Statements,
    Strips,
    Table,
    table,
)
from highwater.reports.page import Document

_MARKS: Final = {"good": "✓ ", "warn": "! ", "bad": "✕ "}
# Characters that would start an element, a link, emphasis, code or a mention.
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]<>|~#@])")
_ROOM_FOR_NAMES: Final = 1000
_OPEN: Final = frozenset(
    {"damage", "answer", "aims", "gate", "search", "findings", "compared", "cells", "changes", "metrics", "why"}
)
"""Sections that are not folded."""


def render(document: Document, most_characters: int | None = None) -> str:
    """The whole report, or its first sections that fit in `most_characters`, then the names of those left out."""
    head = _joined([f"# {_text(document.title)}", _text(document.purpose), _text(document.meta)])
    written = {section.title: _section(section) for section in (*document.lead, *document.sections)}
    if most_characters is None:
        return head + "".join(written.values())
    left = most_characters - len(head) - _ROOM_FOR_NAMES
    kept, left_out = [head], []
    for title, text in written.items():
        if len(text) <= left:
            kept.append(text)
            left -= len(text)
        else:
            left_out.append(_text(title))
    if left_out:
        names = ", ".join(left_out)[: _ROOM_FOR_NAMES - 200]
        kept.append(f"Left out, as no more than {most_characters:,} characters were to be written: {names}.\n")
    return "".join(kept)


def _section(section: Section) -> str:
    title = f"{_MARKS.get(section.tone, '')}{_text(section.title)}"
    if section.folded:
        title += f": {_text(section.folded)}"
    body = [text for block in section.blocks for text in _block(block)]
    if section.id in _OPEN:
        return _joined([f"## {title}", *body])
    return _joined([f"<details>\n<summary>{title}</summary>", *body, "</details>"])


def _joined(parts: Iterable[str]) -> str:
    return "".join(f"{part}\n\n" for part in parts if part)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        text = _text(block.text)
        yield f"**{text}**" if block.look == "caution" else text
    elif isinstance(block, Headline):
        yield f"**{_MARKS.get(block.tone, '')}{_text(block.text)}**"
    elif isinstance(block, Strips):
        header: list[str | Column] = ["", block.title, Column("trials", text=True), Column("", text=True)]
        rows = [[row.label, row.figure, row.words, row.note] for row in block.rows]
        yield from _table(table(header, rows, note=block.note))
    elif isinstance(block, Statements):
        if block.next_step:
            yield f"Next: {_text(block.next_step.removesuffix(block.command))}"
        if block.command:
            yield _code(Code(block.command))
        sentences = "\n\n".join(f"**{_MARKS.get(tone, '')}{_text(text)}**" for text, tone in block.items)
        folded = f"<details>\n<summary>{_text(block.folded)}</summary>\n\n{sentences}\n\n</details>"
        yield folded if block.folded else sentences
    elif isinstance(block, Heading):
        yield f"### {_text(block.text)}"
    elif isinstance(block, Bullets):
        subjects = [f"**{_text(item.subject)}:** " if item.subject else "" for item in block.items]
        yield "\n".join(f"- {s}{_text(item.text)}" for s, item in zip(subjects, block.items, strict=True))
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Facts):
        yield from _facts(block)
    elif isinstance(block, FactColumns):
        for facts in block.groups:
            yield from _facts(facts)
    elif isinstance(block, Code):
        yield _code(block)
    elif isinstance(block, Figures):
        for figure in block.figures:
            yield from _figure(figure)


def _facts(facts: Facts) -> Iterator[str]:
    if facts.title:
        yield f"**{_text(facts.title)}**"
    if facts.rows:
        yield "\n".join(["| | |", "|---|---|", *(f"| {_text(name)} | {_text(text)} |" for name, text in facts.rows)])


def _figure(figure: Figure) -> Iterator[str]:
    yield f"### {_text(figure.title)}"
    yield _text(figure.finding)
    yield from _table(figure.table)


def _table(table: Table) -> Iterator[str]:
    if table.folded:
        yield f"<details>\n<summary>{_text(table.folded)}</summary>"
    groups = [name for name, span in table.groups for _ in range(span)] or [""] * len(table.columns)
    titles = [
        " ".join(filter(None, (group, column.title, column.unit and f"({column.unit})")))
        for group, column in zip(groups, table.columns, strict=True)
    ]
    yield "\n".join(
        [
            _row(map(_text, titles)),
            _row("---" if column.text or not index else "---:" for index, column in enumerate(table.columns)),
            *(_row(map(_field, row.fields)) for row in table.rows),
        ]
    )
    if table.note:
        yield f"<sub>{_text(table.note)}</sub>"
    if table.folded:
        yield "</details>"


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _field(field: Field) -> str:
    text = _text(field.text)
    small = "<br>".join(map(_text, field.small.splitlines()))
    mark = _MARKS.get(field.tone, "")
    text = f"▲ **{text}**" if field.look == "best" else text
    tags = "".join(f" ({_text(tag)})" for tag in field.tags)
    return f"{text}{tags}<br><sub>{mark}{small}</sub>" if small else f"{mark}{text}{tags}"


def _code(code: Code) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code.text)), default=0))
    text = f"{fence}\n{readable(code.text).rstrip()}\n{fence}"
    return f"<details>\n<summary>{_text(code.folded)}</summary>\n\n{text}\n\n</details>" if code.folded else text


def _text(text: str) -> str:
    """The text on one line, escaped so that no name is taken for markup."""
    return _ACTIVE.sub(r"\\\1", " ".join(readable(text).split()))
