"""The page of a matrix: which settings matter here, as a sentence, a grid for each disk, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup

from highwater.bench.matrix.answers import (
    Answer,
    Key,
    State,
    effect_of,
    rest_sentence,
    sentence,
    setting_order,
    settings_that_matter,
)
from highwater.bench.matrix.running import answers_of
from highwater.bench.matrix.stored import Matrix, read_matrix
from highwater.bench.matrix.study import load_name, name_of
from highwater.bench.matrix.table import MARKS, legend, ordered, values_of
from highwater.common.units import plural
from highwater.drawing.quantity import as_sentence
from highwater.drawing.svg import element
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Column,
    Field,
    Figure,
    Figures,
    Headline,
    Panel,
    Paragraph,
    Row,
    Section,
    Statements,
    Table,
    Tone,
    View,
    table,
)
from highwater.reports.moments import minute_text
from highwater.reports.page import Document

_TONES: Final[dict[State, Tone]] = {"better": "good", "worse": "bad", "trade": "warn", "undecided": "warn"}
_LABELS: Final = 202.0
_WIDTH: Final = 58.0
_HEIGHT: Final = 26.0
_TOP: Final = 22.0


def matrix_document(directory: Path) -> Document:
    """Raises UsageError for a damaged matrix.json, ResultDirectoryError for a damaged run."""
    matrix = read_matrix(directory)
    study, found = matrix.questions, answers_of(directory, matrix)
    meta = (
        f"{plural(len(study.settings), 'setting')}, {plural(len(study.loads), 'load')}, "
        f"{plural(len(study.disks), 'disk')}, begun {minute_text(matrix.created_utc)}"
    )
    sections = [
        Section("cells", "Every cell", [_cells(matrix, found)], nav="Cells"),
        Section("how", "How it was measured", _how(matrix), nav="How"),
    ]
    title, lead = "Which settings matter here", [_answer(matrix, found)]
    return Document(title, matrix.host, meta, sections, lead, kind="matrix of settings")


def _answer(matrix: Matrix, found: Mapping[Key, Answer]) -> Section:
    settings = matrix.questions.settings
    matter = settings_that_matter(settings, found)
    waiting = any(answer.state in ("missing", "undecided") for answer in found.values())
    helps = matter and all(effect_of(setting, found) == "better" for setting in matter)
    tone: Tone = "good" if helps else "warn" if waiting and not matter else "none"
    blocks: list[Block] = [Headline(sentence(settings, found), tone)]
    items: list[tuple[str, Tone]] = []
    if rest := rest_sentence(settings, found):
        items.append((rest, "none"))
    if matrix.quick:
        items.append(("This was a first look alone: what may differ was not measured again.", "warn"))
    if items:
        blocks.append(Statements(items))
    return Section("answer", "Answer", [*blocks, Figures([_grid(matrix, found)])])


def _grid(matrix: Matrix, found: Mapping[Key, Answer]) -> Figure:
    study = matrix.questions
    order, loads = setting_order(study.settings, found), list(study.loads)
    panels = [Panel(disk, _drawing(disk, order, loads, found)) for disk in study.disks]
    header = ["setting", *(f"{load_name(load)} on {disk}" for disk in study.disks for load in loads)]
    rows = [
        [name_of(s), *(_in_cell(found[Key(s, load, disk)]) for disk in study.disks for load in loads)] for s in order
    ]
    figures = "; ".join(f"{load_name(load)}: {figures[0]}" for load, figures in study.loads.items())
    return Figure(
        "grid",
        "Each setting under each load, on each disk",
        as_sentence(legend(found)),
        [View("", panels)],
        table(header, rows),
        note=f"The figure that changed most is shown; where none did, the main one is ({figures}).",
        layout="many",
    )


def _drawing(disk: str, settings: Sequence[str], loads: Sequence[str], found: Mapping[Key, Answer]) -> Markup:
    width, height = _LABELS + _WIDTH * len(loads) + 4, _TOP + _HEIGHT * len(settings) + 4
    parts: list[Markup] = []
    for column, load in enumerate(loads):
        x = _LABELS + _WIDTH * (column + 0.5)
        parts.append(element("text", _short_load(load), class_="mid faint", x=x, y=_TOP - 8))
    for number, setting in enumerate(settings):
        top = _TOP + number * _HEIGHT
        lines = name_of(setting).split("+")
        for line, text in enumerate(lines):
            y = top + _HEIGHT / 2 + 4 + 11 * (line - (len(lines) - 1) / 2)
            parts.append(element("text", text, class_="end faint", x=_LABELS - 6, y=y))
        for column, load in enumerate(loads):
            parts += _cell(found[Key(setting, load, disk)], _LABELS + _WIDTH * column, top)
    name = f"grid-{disk}"
    return element(
        "svg",
        element("title", f"Settings on {disk}", id=f"{name}-title"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="chart",
        role="img",
        aria_labelledby=f"{name}-title",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=width,
        height=height,
    )


def _cell(answer: Answer, x: float, y: float) -> list[Markup]:
    where = f"{name_of(answer.key.setting)}, {load_name(answer.key.load)} on {answer.key.disk}"
    box = element(
        "rect",
        element("title", f"{where}: {answer.text}"),
        class_=f"answer {answer.state}",
        x=x + 1.5,
        y=y + 1.5,
        width=_WIDTH - 3,
        height=_HEIGHT - 3,
        rx=3,
    )
    text = element("text", _in_cell(answer), class_=f"mid said {answer.state}", x=x + _WIDTH / 2, y=y + _HEIGHT / 2 + 4)
    return [box, text]


def _in_cell(answer: Answer) -> str:
    """Whole per cent: a cell has room for no more."""
    mark, item = MARKS[answer.state], answer.item
    if answer.state in ("better", "worse", "trade") and item is not None and item.ratio is not None:
        if item.ratio > 2:
            return f"{mark} {item.ratio:.1f}×"
        return f"{mark} {100 * (item.ratio - 1):+.0f} %".replace("-", "\N{MINUS SIGN}")
    return f"{mark} <{100 * answer.unseen_ratio:.0f} %" if answer.unseen_ratio is not None else mark


def _short_load(load: str) -> str:
    return load_name(load).replace("connections", "connect.")


def _cells(matrix: Matrix, found: Mapping[Key, Answer]) -> Table:
    columns = [
        *(Column(title, text=True) for title in ("setting, off → on", "load", "disk")),
        Column("answer", text=True, prose=True),
        Column("pairs"),
    ]
    values = values_of(matrix)
    rows = []
    for key in ordered(matrix, found):
        answer = found[key]
        off_on = " → ".join(values[key]) if key in values else ""
        fields = [
            Field(name_of(key.setting), small=off_on),
            Field(load_name(key.load)),
            Field(key.disk),
            Field(answer.text, tone=_TONES.get(answer.state, "")),
            Field(str(answer.pairs), small="measured again" if answer.confirmed else ""),
        ]
        rows.append(Row(fields, faint=answer.state == "cannot"))
    return Table(columns, rows, label="Every cell", sortable=True)


def _how(matrix: Matrix) -> list[Block]:
    study = matrix.questions
    return [
        Paragraph(
            f"Off and on were measured in turn, in random blocks, with pairs of the same thing (A/A) among them. Every "
            f"cell had a first look of {study.first_pairs} pairs. What seemed to differ was measured again with "
            f"{study.confirming_pairs} pairs, and these alone decide and are shown. A difference counts if its 95 % "
            "interval lies beyond the noise and beyond what matters in operation, and a permutation test agrees at 5 % "
            "after Holm's correction over all that was to be measured again."
        ),
        Bullets([Bullet(disk.storage, name) for name, disk in matrix.disks.items()]),
    ]
