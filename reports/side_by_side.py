"""Two result directories side by side: the ratios of `bench compare`, with charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from highwater.bench.workload.requested_load import load_of
from highwater.common.units import NONE, significant
from highwater.drawing import axes
from highwater.drawing.plot import DotRow, dot_panel
from highwater.drawing.quantity import as_sentence, scalar_words
from highwater.reports import settings
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Code,
    Column,
    Figure,
    Figures,
    Heading,
    Headline,
    Panel,
    Paragraph,
    Section,
    Statements,
    Table,
    Tone,
    View,
    table,
)
from highwater.reports.cells import Cell, Run, values
from highwater.reports.changes import comparison_table
from highwater.reports.charts import Drawn, comparison_legend, comparison_panels
from highwater.reports.evidence import evidence_blocks
from highwater.reports.intervals import MARKS_NOTE, dot_group
from highwater.reports.measures import ACHIEVED, E2E_P99, HEADLINES, OFFERED, PRODUCE_P99, SYSTEM_CPU, TABLE, Measure
from highwater.reports.moments import minute_text
from highwater.reports.page import Document
from highwater.reports.spectrum import spectrum_points
from highwater.reports.verdict import overall
from highwater.results.analysis.compare import compare, headline_of, matched_cells
from highwater.results.analysis.gathering import comparison_evidence
from highwater.results.analysis.next_step import comparison_step
from highwater.results.gate import EnvironmentDifference, ResultComparison
from highwater.results.models import Metric
from highwater.results.reader import RunResult

_HEADLINES: Final = frozenset(measure.key for measure in (*HEADLINES, *TABLE)) - {OFFERED.key}


_Pair = tuple[str, tuple[Run, Cell], tuple[Run, Cell]]
"""A cell's label, and for both sides the run and the cell in it."""


class NothingInCommonError(Exception):
    """The two directories have no cell in common; the text names the cells of each."""


def comparison_document(base: RunResult, head: RunResult) -> Document:
    """Raises NothingInCommonError, and ResultDirectoryError when a file is missing or damaged."""
    try:
        comparison = compare(base, head, load_of=load_of)
    except ValueError as error:
        raise NothingInCommonError(str(error)) from error
    runs = Run.of(base), Run.of(head)
    pairs = list(_pairs(*runs))
    several = len({m.cell for m in comparison.metrics}) > 1
    first = [m for m in comparison.metrics if m.metric in _HEADLINES]
    rest = [m for m in comparison.metrics if m.metric not in _HEADLINES]
    label = runs[1].label
    lead = [_answer(comparison, label, base, head), _validity(comparison, *runs)]
    sections = [
        Section("metrics", "Head against base", [comparison_table(first, several, label)] if first else []),
        Section("every-trial", "Every trial", _figures(_dots(pairs))),
        Section("spectra", "Latency by percentile", _figures(_spectra(pairs)), nav="Percentiles"),
        Section("others", "Every other metric", [comparison_table(rest, several, label)] if rest else []),
        Section("environment", "Differences of environment", _differences(comparison.environment), nav="Environment"),
        Section("workload", "Differences of workload", _differences(comparison.workload), nav="Workload"),
        Section("repeat", "Repeat these runs", _commands(base, head), nav="Repeat"),
        Section("files", "Result files", _files(base, head), nav="Files"),
    ]
    names = dict.fromkeys((base.manifest.name, head.manifest.name))
    meta = "; ".join(
        f"{side}: {result.directory.name}, started {minute_text(result.manifest.created_utc)}"
        for side, result in (("base", base), ("head", head))
    )
    return Document(" against ".join(reversed(list(names))), "", meta, [s for s in sections if s.blocks], lead)


def _pairs(base: Run, head: Run) -> Iterator[_Pair]:
    if len(base.cells) == len(head.cells) == 1:
        yield head.cells[0].label, (base, base.cells[0]), (head, head.cells[0])
        return
    of_head = {cell.key: cell for cell in head.cells}
    for cell in base.cells:
        if cell.key in of_head:
            yield cell.label, (base, cell), (head, of_head[cell.key])


def _answer(comparison: ResultComparison, label: Callable[[str], str], base: RunResult, head: RunResult) -> Section:
    """What differs between the two, and whether that can be laid to the systems."""
    verdicts = {m.verdict for m in comparison.metrics if m.metric in comparison.asked}
    tones: dict[str, Tone] = {"worse": "bad", "better": "good", "undecided": "warn"}
    tone: Tone = next((tones[verdict] for verdict in tones if verdict in verdicts), "none")
    tone = "bad" if comparison.is_broken else tone
    items: list[tuple[str, Tone]] = [(as_sentence(comparison.answer), tone)]
    items += [
        (f"{name.capitalize()}: {one.text}", "bad" if one.is_broken else "none")
        for name, one in comparison.deliveries.items()
    ]
    if not comparison.same_environment:
        deciding = ", ".join(d.name or d.fact for d in comparison.environment if d.decides)
        differ = f"The environments differ in what affects figures ({deciding})"
        items += [(f"{differ}: no ratio here is about the system alone.", "warn")]
    if not comparison.same_load:
        items += [("The two had different loads: a ratio here is no verdict on the system.", "warn")]
    if len(comparison.answers) > 1:
        items += [(f"{label(cell)}: {as_sentence(text)}", "none") for cell, text in comparison.answers.items()]
    trials, _ = matched_cells(base, head, None, None, paired=False)
    return Section(
        "answer",
        "Answer",
        [
            Headline(as_sentence(headline_of(comparison, trials)), tone),
            *evidence_blocks(comparison_evidence(comparison.answered, trials)),
            Statements(items, comparison_step(comparison), folded="The answer in full"),
        ],
    )


def _validity(comparison: ResultComparison, base: Run, head: Run) -> Section:
    """Whether each side is valid, folded."""
    sides = (str(base.result.directory), str(head.result.directory))
    # Notes about one side only are in that side's paragraph.
    blocks: list[Block] = [
        Paragraph(as_sentence(text), "caution") for text in comparison.warnings if not text.startswith(sides)
    ]
    tones: list[Tone] = []
    lines = []
    for name, side, run in (("Base", comparison.base, base), ("Head", comparison.head, head)):
        found = overall(run)
        tones.append(found.tone)
        lines.append(f"{name}: {found.headline}")
        what = ", ".join(filter(None, (side.system, side.commit and f"commit {side.commit[:12]}")))
        blocks += [Paragraph(f"{name}: {note}", "caution") for note in found.notes]
        blocks.append(Paragraph(f"{name} ({what}): {found.badge}. {' '.join(found.sentences)}"))
        if found.causes:
            blocks.append(Bullets([Bullet(text) for text in found.causes]))
    tone: Tone = "bad" if "bad" in tones else "warn" if "warn" in tones else "good"
    title = {"bad": "Not both are valid", "warn": "Valid with reservations"}.get(tone, "Both are valid")
    return Section("verdict", title, blocks, tone, nav="Validity", folded="; ".join(lines))


def _figures(figures: Sequence[Figure]) -> list[Block]:
    return [Figures(figures)] if figures else []


def _dots(pairs: Sequence[_Pair]) -> list[Figure]:
    figures = []
    for measure in (ACHIEVED, SYSTEM_CPU, PRODUCE_P99, E2E_P99):
        measured = [v for _, *sides in pairs for _, cell in sides for v in values(cell.trials, measure)]
        if not measured:
            continue
        make = axes.logarithmic if measure.unit == "ms" else axes.linear
        x = make(f"{measure.unit}{', logarithmic' if measure.unit == 'ms' else ''}", measure.unit, measured)
        several = len(pairs) > 1
        rows = [
            DotRow(f"{label}, {side}" if several else side, [dot_group(run, cell, slot, measure)])
            for label, *sides in pairs
            for slot, side, (run, cell) in zip((1, 2), ("base", "head"), sides, strict=True)
        ]
        finding = f"{measure.name} of every trial, base above head."
        name = f"dots-{measure.key.replace('.', '-')}"
        figures.append(
            Figure(
                name,
                measure.name,
                finding,
                [View("", [Panel("", dot_panel(f"{name}-1", finding, finding, rows, x))])],
                _trials_table(pairs, measure),
                note=MARKS_NOTE,
            )
        )
    return figures


def _trials_table(pairs: Sequence[_Pair], measure: Measure) -> Table:
    rows = [
        [label, side, str(t.summary.trial), measure.figure(value), t.summary.verdict.state]
        for label, *sides in pairs
        for side, (_, cell) in zip(("base", "head"), sides, strict=True)
        for t in cell.trials
        if (value := measure.value(t.summary)) is not None
    ]
    return table(["cell", "side", "trial", f"{measure.title}, {measure.unit}", "verdict"], rows)


def _spectra(pairs: Sequence[_Pair]) -> list[Figure]:
    specs: list[tuple[str, str, Metric, Measure]] = [
        ("spectrum-produce", "Produce latency by percentile", "produce_response", PRODUCE_P99),
        ("spectrum-e2e", "End-to-end latency by percentile", "e2e_response", E2E_P99),
    ]
    figures = []
    for name, title, metric, measure in specs:
        found = []
        for label, *sides in pairs:
            typical = [cell.typical(measure) for _, cell in sides]
            lines = [
                Drawn(side, side, points)
                for side, trial in zip(("base", "head"), typical, strict=True)
                if trial is not None and (points := spectrum_points(trial, metric))
            ]
            if len(lines) == 2:
                found.append((label, lines))
        if not found:
            continue
        points = [p for _, lines in found for line in lines for p in line.main]
        x = axes.percentile("percentile of records", max(p.x for p in points))
        y = axes.logarithmic("latency, ms", "ms", [p.y for p in points if p.y is not None])
        finding = "The trial of each side with the median p99."
        panels = [
            Panel(label if len(found) > 1 else "", panel.drawing)
            for number, (label, lines) in enumerate(found, start=1)
            for panel in comparison_panels(f"{name}-{number}", f"{title}: {label}", finding, lines, x, y)
        ]
        rows = [
            [label, line.name, *(_at(line, p) for p in (50, 90, 99, 99.9))] for label, lines in found for line in lines
        ]
        figures.append(
            Figure(
                name,
                title,
                finding,
                [View("", panels)],
                table(["cell", "side", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms"], rows),
                comparison_legend(found[0][1]),
                layout="pairs" if len(found) > 1 else "half",
            )
        )
    return figures


def _at(line: Drawn, percentile: float) -> str:
    reached = [p.y for p in line.main if p.x >= percentile and p.y is not None]
    return significant(reached[0]) if reached else NONE


def _differences(found: Sequence[EnvironmentDifference]) -> list[Block]:
    rows = [
        [
            d.name or d.fact,
            scalar_words(d.base),
            scalar_words(d.head),
            "decides over figures" if d.decides else "shown only",
        ]
        for d in found
    ]
    header = [Column(title, text=True) for title in ("fact", "base", "head", "comparability")]
    return [table(header, rows, "Differences")] if rows else []


def _commands(base: RunResult, head: RunResult) -> list[Block]:
    return [
        block
        for name, result in (("Base", base), ("Head", head))
        for block in (Heading(name), Code(settings.command_to_repeat(result), "command"))
    ]


def _files(base: RunResult, head: RunResult) -> list[Block]:
    return [
        Code(settings.checksums(result), "sums", folded=f"SHA-256 of each file of {name}, {result.directory.name}")
        for name, result in (("base", base), ("head", head))
    ]
