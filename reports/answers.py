"""The answers of a run: its objectives, the search for a rate, the gate between two versions."""

from __future__ import annotations

from typing import Final

from highwater.common.units import NONE, count_text, percent_text, plural
from highwater.drawing.quantity import scalar_words
from highwater.reports.blocks import (
    Block,
    Column,
    Facts,
    Field,
    Headline,
    Paragraph,
    Row,
    Section,
    Statements,
    Table,
    Tone,
    table,
)
from highwater.reports.cells import Cell, Run
from highwater.reports.changes import comparison_table
from highwater.reports.evidence import evidence_blocks
from highwater.reports.measures import metric_text
from highwater.results.analysis.searched import search_statement
from highwater.results.analysis.statement import Answer, StatementState
from highwater.results.analysis_file import Search
from highwater.results.bounds import bound_text
from highwater.results.gate import Gate
from highwater.results.metrics import title_of

_GATE_TITLES: Final[dict[str, tuple[str, Tone]]] = {
    "pass": ("Gate: pass", "good"),
    "regression": ("Gate: regression", "bad"),
    "inconclusive": ("Gate: inconclusive", "warn"),
    "invalid": ("Gate: no valid measurement", "bad"),
    "target_failed": ("Gate: the system failed or lost data", "bad"),
    "environment_mismatch": ("Gate: environments that cannot be compared", "warn"),
    "interrupted": ("Gate: interrupted", "warn"),
}


TONES: Final[dict[StatementState, Tone]] = {"good": "good", "open": "warn", "bad": "bad", "plain": "none"}


def answer_section(answer: Answer) -> Section:
    """What the run says of its workload's question."""
    items = [(statement.text, TONES[statement.state]) for statement in answer.statements]
    return Section(
        "answer",
        "Answer",
        [
            Headline(answer.headline.text, TONES[answer.headline.state]),
            *evidence_blocks(answer.evidence),
            Statements(items, answer.next_step, answer.command, "The answer in full"),
        ],
    )


def gate_section(gate: Gate) -> Section:
    """The evidence for the gate's verdict, which the answer has in words."""
    title, tone = _GATE_TITLES[gate.state]
    confirmed = {True: "yes, by fresh trials", False: "no: fresh trials did not show it", None: "not asked for"}
    facts = [
        ("Base", _side_text(gate.base.given, gate.base.system, gate.base.commit)),
        ("Head", _side_text(gate.head.given, gate.head.system, gate.head.commit)),
        ("Order", "interleaved pairs" if gate.interleaved else "two separate runs: drift of the host is not excluded"),
        ("Confirmed", confirmed[gate.confirmed]),
        ("Exit status", str(gate.exit_code)),
    ]
    blocks: list[Block] = [*(Paragraph(note, "remark") for note in gate.notes), Facts("", facts)]
    for one in gate.rounds:
        stage = "First round" if one.stage == "first" else "Confirmation"
        pairs = f"{one.pairs_valid} of {plural(one.pairs, 'pair')} valid, {plural(one.a_a_pairs, 'A/A pair')}"
        where = f", trials in {one.directory}" if one.directory not in (None, ".") else ""
        blocks.append(Paragraph(f"{stage}: {pairs}{where}. {one.text}"))
        several = len({m.cell for m in one.metrics}) > 1
        blocks.append(comparison_table(one.metrics, with_cell=several))
    if gate.environment:
        rows = [
            [d.name or d.fact, scalar_words(d.base), scalar_words(d.head), "decides" if d.decides else "shown only"]
            for d in gate.environment
        ]
        header = [Column(title, text=True) for title in ("fact", "base", "head", "comparability")]
        blocks.append(table(header, rows, "Differences of environment"))
    return Section("gate", title, blocks, tone, nav="Gate")


def _side_text(given: str, system: str, commit: str | None) -> str:
    return ", ".join(filter(None, (given, system, f"commit {commit}" if commit else None)))


def search_section(search: Search) -> Section:
    """The bracket, the limit that failed, and every rate that was tried; the answer has the rate in words."""
    passing, failing = search.last_passing_per_s, search.first_failing_per_s
    objectives = [f"{metric} {bound_text(bound)}" for metric, bound in search.slo.items()]
    facts = [
        ("Objectives", ", ".join(objectives) or "none but the checks"),
        ("Bracket", f"{_rate(passing)} passed, {_rate(failing)} failed"),
        ("Limit that failed", " ".join(filter(None, (search.limit and f"{search.limit}:", search.text))) or "none"),
        ("Fresh trials at the answer", f"{search.confirmed} of {search.confirmations} passed"),
        ("Status", search.status),
        ("Precision asked for", percent_text(search.precision_ratio)),
    ]
    rows = [
        Row(
            [
                Field(str(number), sort=number),
                Field(probe.stage),
                Field(count_text(probe.rate_per_s), sort=probe.rate_per_s),
                Field("passed" if probe.passed else "failed", tone="good" if probe.passed else "bad"),
                Field(probe.limit or NONE),
                Field(probe.verdict.state if probe.verdict is not None else NONE),
                Field(probe.text or NONE),
            ]
        )
        for number, probe in enumerate(search.probes, start=1)
    ]
    columns = [
        Column("#"),
        Column("stage", text=True),
        Column("rate", "records/s"),
        Column("outcome", text=True),
        Column("limit", text=True),
        Column("verdict", text=True),
        Column("what was measured", text=True, prose=True),
    ]
    blocks: list[Block] = [Facts("", facts), Table(columns, rows, label="Rates that were tried", sortable=True)]
    sound = search_statement(search).state == "good"
    return Section("search", "Highest sustainable rate", blocks, "good" if sound else "warn", nav="Search")


def _rate(rate_per_s: int | None) -> str:
    return "no rate" if rate_per_s is None else f"{count_text(rate_per_s)}/s"


def slo_blocks(run: Run) -> list[Block]:
    """One row for each cell and objective; a cell meets it when every usable trial does."""
    rows = [
        _slo_row(run, cell, index, bound.metric, bound.bound)
        for cell in run.cells
        if cell.shown
        for index, bound in enumerate(cell.shown[0].summary.slo)
    ]
    if not rows:
        return []
    columns = [
        Column("cell", text=True),
        Column("objective", text=True),
        Column("measured", "median"),
        Column("worst", "of the trials"),
        Column("met by", "trials"),
        Column("outcome", text=True),
    ]
    if len(run.cells) == 1:
        columns, rows = columns[1:], [Row(row.fields[1:], row.faint) for row in rows]
    note = "Objectives say what is wanted; they change nothing of the verdict on validity."
    return [Table(columns, rows, label="Service level objectives", note=note, sortable=True)]


def _slo_row(run: Run, cell: Cell, index: int, metric: str, bound: str) -> Row:
    results = [t.summary.slo[index] for t in cell.shown if index < len(t.summary.slo)]
    values = sorted(r.value for r in results if r.value is not None)
    met = sum(r.met for r in results)
    worst = values[0 if bound.startswith(">") else -1] if values else None
    middle = values[(len(values) - 1) // 2] if values else None
    outcome: tuple[str, Tone] = ("met", "good") if met == len(results) else ("missed", "bad")
    return Row(
        [
            Field(cell.caption),
            Field(f"{title_of(metric)} {bound_text(bound)}"),
            _figure(metric, middle),
            _figure(metric, worst),
            Field(f"{met} of {len(results)}", sort=met),
            Field(outcome[0], tone=outcome[1]),
        ],
        faint=not cell.sound,
    )


def _figure(metric: str, value: float | None) -> Field:
    return Field(NONE) if value is None else Field(metric_text(metric, value), sort=value)
