"""Several runs as one page: what was aimed at, then each run's cells, verdict, host and command."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.common.units import plural
from highwater.reports import settings
from highwater.reports.aims import aim_rows, aim_table, variant_of
from highwater.reports.answers import answer_section, slo_blocks
from highwater.reports.blocks import Block, Code, FactColumns, Heading, Paragraph, Section, Statements, Tone
from highwater.reports.cells import Run
from highwater.reports.lifetime import lifetime_blocks
from highwater.reports.moments import minute_text
from highwater.reports.overview import overview_blocks
from highwater.reports.page import Document
from highwater.reports.verdict import verdict_section
from highwater.results.analysis.aims import AimOutcome, outcomes
from highwater.results.analysis.answer import answer_of
from highwater.results.reader import RunResult


def several_document(title: str, purpose: str, results: Sequence[RunResult]) -> Document:
    """Raises ResultDirectoryError when a file of a directory is missing or damaged."""
    runs = [Run.of(result) for result in results]
    rows = [row for run in runs for row in aim_rows(run, run.result.manifest.name)]
    aims = Section(
        "aims", "What was aimed at", [aims_counted(runs), aim_table(rows, with_workload=True)] if rows else []
    )
    sections = [aims, *(_section(run) for run in runs)]
    trials = sum(len(run.result.trials) for run in runs)
    manifests = [run.result.manifest for run in runs]
    meta = f"{plural(len(runs), 'workload')}, {plural(trials, 'trial')}"
    if manifests:
        ended = max(manifest.finished_utc or manifest.created_utc for manifest in manifests)
        began = min(manifest.created_utc for manifest in manifests)
        meta += f", measured from {minute_text(began)} to {minute_text(ended)}"
    return Document(title, purpose, meta, [section for section in sections if section.blocks])


def aims_counted(runs: Sequence[Run]) -> Statements:
    """How many aims each variant reached, over all `runs`."""
    counts: dict[str, list[AimOutcome]] = {}
    for run in runs:
        for outcome in outcomes(run.result):
            counts.setdefault(variant_of(run, outcome.cell), []).append(outcome)
    items: list[tuple[str, Tone]] = []
    for variant, found in counts.items():
        reached = [outcome for outcome in found if outcome.state == "reached"]
        decided = sum(outcome.decided for outcome in reached)
        aims = plural(len(found), "aim")
        text = f"{variant} reached {len(reached)} of {aims}, {decided} of them with the whole interval."
        items.append((text, "good" if len(reached) == len(found) else "warn"))
    return Statements(items)


def _section(run: Run) -> Section:
    manifest, verdict = run.result.manifest, verdict_section(run)
    blocks: list[Block] = [
        Paragraph(manifest.purpose),
        *answer_section(answer_of(run.result)).blocks,
        *overview_blocks(run),
        *lifetime_blocks(run),
        *slo_blocks(run),
        Heading(verdict.title),
        *verdict.blocks,
        Heading("Measured on, and again by"),
        FactColumns(settings.environment_facts(run.result)),
        Code(settings.command_to_repeat(run.result), "command"),
    ]
    return Section(manifest.name, manifest.name, blocks)
