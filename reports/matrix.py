"""The page of a matrix: which settings matter here, as dots with intervals and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from highwater.bench.matrix.answers import (
    MATTERS,
    Answer,
    Effect,
    Key,
    Look,
    State,
    effect_of,
    noise_sentence,
    rest_sentences,
    sentence,
    setting_order,
    settings_that_matter,
)
from highwater.bench.matrix.running import answers_with_dummies
from highwater.bench.matrix.stored import Matrix, read_matrix
from highwater.bench.matrix.study import load_name, name_of
from highwater.bench.matrix.table import MARKS, legend, ordered, values_of
from highwater.common.units import change_size_text, change_text, plural
from highwater.drawing.quantity import as_sentence
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Column,
    Field,
    Headline,
    Paragraph,
    Row,
    Section,
    Statements,
    Table,
    Tone,
)
from highwater.reports.evidence import evidence_blocks
from highwater.reports.moments import minute_text
from highwater.reports.page import Document
from highwater.results.analysis.evidence import Dot, Evidence, EvidenceRow, Limit, RowState

_TONES: Final[dict[State, Tone]] = {"better": "good", "worse": "bad", "trade": "warn", "undecided": "warn"}
_ROWS: Final[dict[State, tuple[RowState, str]]] = {
    "better": ("best", "better"),
    "worse": ("bad", "worse"),
    "trade": ("open", "better, another figure worse"),
    "undecided": ("open", "undecided"),
}
_MOST_ROWS: Final = 12
_TWICE: Final = 2.0


def matrix_document(directory: Path) -> Document:
    """Raises UsageError for a damaged matrix.json, ResultDirectoryError for a damaged run."""
    matrix = read_matrix(directory)
    study = matrix.questions
    found, dummies = answers_with_dummies(directory, matrix)
    meta = (
        f"{plural(len(study.settings), 'setting')}, {plural(len(study.loads), 'load')}, "
        f"{plural(len(study.disks), 'disk')}, begun {minute_text(matrix.created_utc)}"
    )
    sections = [
        *(_disk(disk, matrix, found, dummies) for disk in study.disks),
        _grid(matrix, found),
        Section("cells", "Every cell", [_cells(matrix, found)], nav="Cells"),
        Section("how", "How it was measured", _how(matrix), nav="How"),
    ]
    title, lead = "Which settings matter here", [_answer(matrix, found, dummies), _without_difference(matrix, found)]
    return Document(title, matrix.host, meta, sections, lead, kind="matrix of settings")


def _answer(matrix: Matrix, found: Mapping[Key, Answer], dummies: Mapping[Key, Look]) -> Section:
    settings = matrix.questions.settings
    matter = settings_that_matter(settings, found)
    waiting = any(answer.state in ("missing", "undecided") for answer in found.values())
    helps = matter and all(effect_of(setting, found) == "better" for setting in matter)
    tone: Tone = "good" if helps else "warn" if waiting and not matter else "none"
    blocks: list[Block] = [Headline(sentence(settings, found), tone), *_foremost(matrix, found)]
    items: list[tuple[str, Tone]] = [(rest, "none") for rest in rest_sentences(settings, found)]
    if matrix.quick:
        items.append(("This was a first look alone: what may differ was not measured again, alone.", "warn"))
    if noise := noise_sentence(dummies):
        items.append((noise, "none"))
    return Section("answer", "Answer", [*blocks, Statements(items, folded="The answer in full")])


def _foremost(matrix: Matrix, found: Mapping[Key, Answer]) -> list[Block]:
    """A row for each setting that matters, then for those that may: the cell with its largest difference."""
    rows = []
    for matters in (True, False):
        for setting in setting_order(matrix.questions.settings, found):
            cells = [a for a in found.values() if a.key.setting == setting and a.state not in ("cannot", "missing")]
            shown = [a for a in cells if (a.state in MATTERS if matters else a.may_matter) and a.item is not None]
            if not shown or (not matters and any(a.state in MATTERS for a in cells)):
                continue
            most = max(shown, key=lambda answer: abs(math.log(answer.item.ratio)) if answer.item else 0.0)
            where = f"{load_name(most.key.load)} on {most.key.disk}"
            rows.append(_row(name_of(setting), most, f"{where}; in {len(shown)} of {plural(len(cells), 'cell')}"))
    title = "What matters or may matter: the largest change of each setting"
    return _strips(title, rows[:_MOST_ROWS], max(len(rows) - _MOST_ROWS, 0))


def _without_difference(matrix: Matrix, found: Mapping[Key, Answer]) -> Section:
    """What showed none, with the size that would have been seen."""
    items = []
    for disk in matrix.questions.disks:
        for load, figures in matrix.questions.loads.items():
            sizes = {s: found[Key(s, load, disk)].unseen_ratio for s in matrix.questions.settings}
            known = {name_of(setting): size for setting, size in sizes.items() if size is not None}
            text = "no setting of which this is known"
            if known:
                largest = change_size_text(max(known.values()))
                text = f"{figures[0]} changed by {largest} at most with any of {', '.join(known)}"
            items.append(Bullet(text, f"{load_name(load)} on {disk}", "open"))
    note = Paragraph("A larger difference would have been seen 4 times in 5, and is not in the interval.")
    return Section("none", "No difference was seen", [note, Bullets(items)], nav="No difference")


def _disk(disk: str, matrix: Matrix, found: Mapping[Key, Answer], dummies: Mapping[Key, Look]) -> Section:
    """Every setting under each load, as dots with intervals, and what settings that do not exist seem to do."""
    study = matrix.questions
    blocks: list[Block] = []
    for load in study.loads:
        answers = [found[Key(setting, load, disk)] for setting in setting_order(study.settings, found)]
        rows = [_row(name_of(answer.key.setting), answer) for answer in answers if answer.item is not None]
        rows += [
            _evidence_row(key.setting, effect, f"{effect.metric}, noise", "plain")
            for key, look in dummies.items()
            if (key.load, key.disk) == (load, disk)
            for effect in look.effects[:1]
        ]
        blocks += _strips(f"{load_name(load)}: change of the figure beside it", rows)
    text = matrix.disks[disk].storage if disk in matrix.disks else "not measured yet"
    return Section(f"disk-{disk}", f"On {disk}", [Paragraph(text, "note"), *blocks], nav=f"On {disk}")


def _row(label: str, answer: Answer, where: str = "") -> EvidenceRow:
    assert answer.item is not None
    state, words = _ROWS.get(answer.state, ("plain", ""))
    if answer.unseen_ratio is not None:
        words = f"no difference above {change_size_text(answer.unseen_ratio)}"
    parts = [f"{words}: {answer.item.metric}", where, "measured alone" if answer.confirmed else ""]
    row = _evidence_row(label, answer.item, ", ".join(filter(None, parts)), state)
    return replace(row, figure="") if answer.state == "none" else row


def _evidence_row(label: str, effect: Effect, note: str, state: RowState) -> EvidenceRow:
    dot = Dot(effect.ratio, "estimate", f"{label}: {effect.text}")
    return EvidenceRow(label, [dot], None, effect.interval, change_text(effect.ratio), note, state)


def _strips(title: str, rows: Sequence[EvidenceRow], left_out: int = 0) -> list[Block]:
    if not rows:
        return []
    as_ratio = max(end for row in rows for end in row.interval or ()) > _TWICE

    def at(ratio: float) -> float:
        return ratio if as_ratio else 100 * (ratio - 1)

    moved = [
        replace(
            row,
            dots=[replace(dot, value=at(dot.value)) for dot in row.dots],
            interval=(at(row.interval[0]), at(row.interval[1])) if row.interval else None,
        )
        for row in rows
    ]
    unit, none = ("×", 1.0) if as_ratio else ("%", 0.0)
    return evidence_blocks(Evidence(title, unit, moved, [Limit("no change", none)], left_out, is_change=True))


def _grid(matrix: Matrix, found: Mapping[Key, Answer]) -> Section:
    study = matrix.questions
    places = [(load, disk) for disk in study.disks for load in study.loads]
    columns = [Column("setting", text=True), *(Column(load_name(load), group=disk) for load, disk in places)]
    rows = [
        Row(
            [
                Field(name_of(setting)),
                *(_field(found[Key(setting, load, disk)]) for load, disk in places),
            ]
        )
        for setting in setting_order(study.settings, found)
    ]
    figures = "; ".join(f"{load_name(load)}: {figures[0]}" for load, figures in study.loads.items())
    note = f"{as_sentence(legend(found))} The figure that changed most; where none did, the main one ({figures})."
    return Section("grid", "All at once", [Table(columns, rows, label="All at once", note=note)], nav="Table")


def _field(answer: Answer) -> Field:
    return Field(_in_cell(answer), look="bad" if answer.state == "worse" else "", hint=answer.text)


def _in_cell(answer: Answer) -> str:
    """Whole per cent: a cell has room for no more."""
    mark, item = MARKS[answer.state], answer.item
    if answer.state in MATTERS and item is not None:
        if item.ratio > _TWICE:
            return f"{mark} {item.ratio:.1f}×"
        return f"{mark} {100 * (item.ratio - 1):+.0f} %".replace("-", "\N{MINUS SIGN}")
    return f"{mark} <{100 * answer.unseen_ratio:.0f} %" if answer.unseen_ratio is not None else mark


def _cells(matrix: Matrix, found: Mapping[Key, Answer]) -> Table:
    columns = [
        *(Column(title, text=True) for title in ("setting, off → on", "load", "disk")),
        Column("answer", text=True, prose=True),
        Column("measured in"),
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
            Field(answer.trials, small="measured again" if answer.confirmed else ""),
        ]
        rows.append(Row(fields, faint=answer.state == "cannot"))
    return Table(columns, rows, label="Every cell", sortable=True)


def _how(matrix: Matrix) -> list[Block]:
    study = matrix.questions
    return [
        Paragraph(
            "First look: in each trial about half of all settings were on, by a Plackett-Burman design and its mirror "
            "image, in random order. So every trial informs about every setting, and an effect that two settings have "
            "only together adds nothing to that of a single one. The effects are those over the others on and off, by "
            "least squares on logarithms, with a slow drift of the host taken out; columns of the design that no "
            "setting has (nothing 1, …) show what noise alone does."
        ),
        Paragraph(
            f"What seemed to differ was measured again, off and on in turn in {study.confirming_pairs} pairs, with "
            "everything else as it is on this host; these pairs alone decide then and are shown. A difference counts "
            "if its 95 % interval lies beyond the noise and beyond what matters in operation, and its p-value stays "
            "below 2.5 % after Holm's correction over all cells of the look."
        ),
        Bullets([Bullet(disk.storage, name) for name, disk in matrix.disks.items()]),
    ]
