"""Validity before speed: whether the figures can be believed, and which checks failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.common.units import plural
from highwater.drawing.quantity import as_sentence
from highwater.reports.blocks import Block, Bullet, Bullets, Column, Field, Paragraph, Row, Section, Table
from highwater.reports.cells import Run
from highwater.reports.overview import STATE_TONES
from highwater.reports.phases import skipped_sentences
from highwater.reports.storage import emulated_targets, emulation_text
from highwater.results.analysis.causes import causes, limit_text, value_of_reason_text
from highwater.results.models import TrialPlan, TrialSummary

Tone = Literal["good", "warn", "bad"]

_FIGURE: Final = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Problem:
    """One failed check, or one trial that did not finish."""

    trial: str
    cell: str
    state: str
    check: str
    value: str
    limit: str
    text: str


@dataclass(frozen=True)
class Overall:
    badge: str
    tone: Tone
    headline: str
    """How many trials are valid, and the most frequent cause of those that are not."""
    causes: Sequence[str]
    sentences: Sequence[str]
    notes: Sequence[str]
    """Warnings about the whole run, which belong beside every figure quoted from it."""
    problems: Sequence[Problem]
    remarks: Sequence[str]
    """Notes of the trials' own verdicts, each once."""


def verdict_section(run: Run) -> Section:
    """One card, folded: like causes as one, and every trial that is not valid in a table."""
    found = overall(run)
    blocks: list[Block] = [Paragraph(note, "caution") for note in found.notes]
    if found.causes:
        blocks.append(Bullets([Bullet(text) for text in found.causes]))
    blocks.append(Paragraph(" ".join(found.sentences)))
    blocks += [Paragraph(remark, "remark") for remark in found.remarks]
    if found.problems:
        columns = [
            Column("trial", text=True),
            Column("cell", text=True),
            Column("verdict", text=True),
            Column("check", text=True),
            Column("value"),
            Column("limit"),
            Column("what it means", text=True, prose=True),
        ]
        rows = [
            Row(
                [
                    Field(p.trial),
                    Field(p.cell),
                    Field(p.state, tone=STATE_TONES.get(p.state, "warn")),
                    *(Field(text) for text in (p.check, p.value, p.limit, p.text)),
                ]
            )
            for p in found.problems
        ]
        label = "All trials that are not valid"
        blocks.append(Table(columns, rows, label=label, folded=label))
    return Section("verdict", found.badge, blocks, found.tone, nav="Validity", folded=found.headline)


def overall(run: Run) -> Overall:
    """The verdict over all trials that measure a cell, without the twins for the noise floor."""
    manifest = run.result.manifest
    finished = {t.summary.trial_id: t.summary for cell in run.cells for t in cell.trials}
    wanted = [plan for plan in manifest.trials if plan.role == "measure" and plan.status != "skipped"]
    states = [summary.verdict.state for summary in finished.values()]
    valid = states.count("valid")
    has_loss = any(reason.check == "delivery.lost" for each in finished.values() for reason in each.verdict.reasons)
    badge, tone = _badge(len(wanted), states, manifest.status, has_loss=has_loss)
    notes = _notes(run)
    found = [cause.text for cause in causes(summary.verdict for summary in finished.values())]
    warned = [plural(len(notes), "warning")] if notes else []
    return Overall(
        badge=badge,
        tone=tone,
        headline=" · ".join([f"{valid} of {plural(len(wanted), 'trial')} valid", *found[:1], *warned]),
        causes=found,
        sentences=_sentences(len(wanted), states, valid),
        notes=notes,
        problems=[
            problem
            for plan in wanted
            for problem in _problems(plan, finished.get(plan.trial_id), run.label(plan.cell), manifest.status)
        ],
        remarks=[*_remarks(finished.values()), *skipped_sentences(run), *_of_a_search(run, states)],
    )


def _of_a_search(run: Run, states: Sequence[str]) -> list[str]:
    if run.result.search() is None or set(states) <= {"valid"}:
        return []
    return ["This was a search: trials at rates that are not sustained are how it finds the limit."]


def _remarks(summaries: Iterable[TrialSummary]) -> list[str]:
    """Notes that differ only in their figures become one note with the ranges of the figures."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for note in (note for summary in summaries for note in summary.verdict.notes):
        alike.setdefault(tuple(_FIGURE.split(note)), []).append(note)
    return [f"{_ranged(texts, notes)} ({plural(len(notes), 'trial')})" for texts, notes in alike.items()]


def _ranged(texts: Sequence[str], notes: Sequence[str]) -> str:
    ranges = [
        least if (least := min(figures, key=float)) == (most := max(figures, key=float)) else f"{least} to {most}"
        for figures in zip(*map(_FIGURE.findall, notes), strict=True)
    ]
    return "".join(text + figure for text, figure in zip(texts, [*ranges, ""], strict=True))


def _badge(planned: int, states: Sequence[str], status: str, *, has_loss: bool) -> tuple[str, Tone]:
    if not states:
        return "No result", "bad"
    if has_loss:
        return "Records lost", "bad"
    if "valid" not in states:
        return ("Invalid", "bad") if "invalid" in states else ("Inconclusive", "warn")
    if len(states) == planned and set(states) == {"valid"}:
        return ("Valid", "good") if status == "done" else ("Valid, not finished", "warn")
    return "Partly valid", "warn"


def _sentences(planned: int, states: Sequence[str], valid: int) -> list[str]:
    if not states:
        return [f"None of {plural(planned, 'planned trial')} finished, so there are no figures to show."]
    are = "is" if valid == 1 else "are"
    sentences = [f"{valid} of {plural(planned, 'trial')} {are} valid."]
    if valid == planned:
        sentences = [f"{sentences[0][:-1]}: no check of the load generator, of delivery or of the load failed."]
    counts = [
        (states.count("invalid"), "invalid", "Such figures say more about the measurement than about the broker."),
        (states.count("inconclusive"), "inconclusive", "Such figures neither prove nor disprove anything."),
        (planned - len(states), "without a result", ""),
    ]
    for count, word, meaning in counts:
        if count:
            sentences.append(f"{count} {'is' if count == 1 else 'are'} {word}. {meaning}".rstrip())
    if "inconclusive" in states:
        sentences.append(
            "Inconclusive trials stay in all figures: to leave out just what something disturbed would be "
            "choosing by the outcome."
        )
    if "invalid" in states and len(set(states)) > 1:
        sentences.append("Invalid trials count for nothing where a cell has others.")
    return sentences


def _notes(run: Run) -> list[str]:
    manifest = run.result.manifest
    notes: list[str] = []
    if not manifest.for_measurement:
        notes.append(
            "Smoke profile: figures are not for quoting. "
            "The run shows that the parts work together, not how fast they are."
        )
    ended = {
        "interrupted": "This run was interrupted: trials that had not finished are missing.",
        "failed": "This run failed before it was complete: trials that had not finished are missing.",
        "running": "This run had not ended when the report was made: it was still going on.",
    }
    if run.result.was_killed:
        notes.append("This run was killed: trials that had not finished are missing.")
    elif manifest.status in ended:
        notes.append(ended[manifest.status])
    if emulated := emulated_targets(run):
        notes.append(emulation_text(emulated))
    notes += [as_sentence(note) for note in [*run.result.durability_notes(), *run.result.sharing_notes()]]
    notes += [as_sentence(note) for note in run.result.retry_notes()]
    if any(t.summary.generator.oversubscribed and not t.summary.at_once for t in run.result.trials):
        notes.append("More load tasks than cores: the load generator competed with itself, and latencies include that.")
    return notes


def _problems(plan: TrialPlan, summary: TrialSummary | None, label: str, run_status: str) -> list[Problem]:
    if summary is None:
        words = {
            "planned": "It was never started.",
            "skipped": "It was left out.",
            "running": "It was still running when the report was made."
            if run_status == "running"
            else "It was running when the run ended.",
            "interrupted": "It was interrupted.",
            "failed": "It failed.",
            "done": "It is marked as done, but its summary is missing.",
        }
        text = f"{words[plan.status]} Reason: {plan.error}" if plan.error else words[plan.status]
        return [Problem(_short_id(plan), label, "no result", "", "", "", text)]
    if summary.verdict.state == "valid":
        return []
    return [
        Problem(_short_id(plan), label, summary.verdict.state, r.check, value_of_reason_text(r), limit_text(r), r.text)
        for r in summary.verdict.reasons
    ] or [Problem(_short_id(plan), label, summary.verdict.state, "", "", "", "No reason was recorded.")]


def _short_id(plan: TrialPlan) -> str:
    """The trial's number without the name of the cell, which is in the next column."""
    return plan.trial_id.removesuffix(f"-{plan.cell}")
