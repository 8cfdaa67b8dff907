"""The page of a plan: the decision first, then why, then what would change it."""

from __future__ import annotations

from typing import Final

from highwater.common.units import change_text, count_text, percent_text, plural, significant, size_text, wait_text
from highwater.drawing.quantity import as_sentence
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Code,
    Column,
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
from highwater.reports.evidence import evidence_blocks
from highwater.reports.page import Document
from highwater.results.analysis.statement import command_of
from highwater.studies.capacity.demand import Demand
from highwater.studies.capacity.plan import AIMED_ERROR_RATIO, Plan
from highwater.studies.capacity.stored import LOAD_FILE
from highwater.studies.capacity.text import (
    amount_text,
    answer,
    beyond_measured,
    brokers_text,
    evidence,
    growth_text,
    headline,
    how_sure,
    lost_disk_text,
    measured_on,
    misses_aim,
    next_step,
    rate_text,
    reference_text,
)

# Above, a resource is near to what the plan may use of it.
_NEAR: Final = 0.8


def plan_document(plan: Plan, load_text: str = "", load_file: str = LOAD_FILE) -> Document:
    """load_text: the load file, to show it; empty if nobody has it. load_file: its place, for commands."""
    sections = [
        Section("why", "Why: what the busiest broker needs", _why(plan), nav="Why"),
        Section("change", "What would change it", _change(plan), nav="Changes"),
        Section("topics", "Topics", _topics(plan)),
        Section("believed", "Can the costs be believed?", _believed(plan), nav="Trust"),
        Section("unknown", "What is not known, and what finds it out", _unknown(plan), nav="Not known"),
        Section("load", "The load, and how this was planned", _load(plan, load_text), nav="Load"),
    ]
    shown = [section for section in sections if section.blocks]
    meta = f"planned on {plan.made_on} from {plural(plan.trials_used, 'trial')} of {', '.join(plan.runs)}"
    asked = plan.asked_brokers
    question = (
        "How many brokers does this load need?" if asked is None else f"Do {plural(asked, 'broker')} carry this load?"
    )
    return Document(f"Plan: {plan.name}", question, meta, shown, [_answer(plan, load_file)], kind="capacity plan")


def _answer(plan: Plan, load_file: str) -> Section:
    is_doubtful = plan.origin is not None or misses_aim(plan) or not plan.predictions or beyond_measured(plan)
    tone: Tone = "bad" if not plan.fits else "warn" if is_doubtful else "good"
    step = next_step(plan, load_file)
    items: list[tuple[str, Tone]] = [(as_sentence(answer(plan)), tone)]
    if plan.origin is not None:
        items.append((as_sentence(reference_text(plan, plan.origin)), "warn"))
    items.append(_how_sure(plan))
    if plan.other_memory:
        items.append((f"The ceilings are of a host with other memory: {plan.other_memory}.", "warn"))
    if growth := growth_text(plan):
        items.append((as_sentence(growth), "none"))
    items += [(as_sentence(f"It is not known {each.what}"), "warn") for each in beyond_measured(plan)[:1]]
    blocks = [
        Headline(as_sentence(headline(plan)), tone),
        *evidence_blocks(evidence(plan)),
        Statements(items, step, command_of(step), "The answer in full"),
    ]
    return Section("answer", "Decision", blocks)


def _how_sure(plan: Plan) -> tuple[str, Tone]:
    return as_sentence(how_sure(plan)), "warn" if misses_aim(plan) or not plan.predictions else "good"


def _why(plan: Plan) -> list[Block]:
    state = plan.state
    if state is None:
        return []
    demands = state.by_use
    columns = [
        Column("resource", text=True),
        Column("needs"),
        Column("ceiling"),
        Column("may use"),
        Column("used of that"),
        Column("the ceiling is from", text=True, prose=True),
    ]
    rows = [
        Row(
            [
                Field(demand.resource),
                Field(amount_text(demand.amount, demand.unit), sort=demand.amount),
                Field(amount_text(demand.ceiling, demand.unit), sort=demand.ceiling),
                Field(percent_text(demand.limit_ratio)),
                Field(percent_text(demand.use_ratio), sort=demand.use_ratio, tone=_tone(demand)),
                Field(", ".join(plan.runs) if demand.measured else "the load file"),
            ]
        )
        for demand in demands
    ]
    late = f" Groups of {', '.join(state.late_topics)} read from the disk." if state.late_topics else ""
    return [
        Table(columns, rows, label="What the busiest broker needs"),
        Paragraph(
            f"One broker has {plural(state.partition_replicas, 'partition replica')} and "
            f"{count_text(state.open_files)} open files beside connections. Its page cache holds the last "
            f"{wait_text(state.cached_s)} of writes.{late} If it lost its disks, it would have its data back after "
            f"{amount_text(state.recovery_s, 's')}.",
            "note",
        ),
    ]


def _tone(demand: Demand) -> Tone:
    return "bad" if demand.use_ratio > 1 else "warn" if demand.use_ratio > _NEAR else "good"


def _change(plan: Plan) -> list[Block]:
    now = plan.brokers
    rows = [
        [
            each.change,
            brokers_text(each.brokers),
            _difference(each.brokers, now),
        ]
        for each in plan.sensitivities
    ]
    blocks: list[Block] = [
        table(["if it were otherwise", "brokers", "difference"], rows, "What would change the answer")
    ]
    columns = [
        Column("disks of a broker", text=True),
        Column("usable"),
        Column("write"),
        Column("read"),
        Column("copies", hint="Bytes on disks for each byte of the topic with the most replicas"),
        Column("after a disk was lost", text=True, prose=True),
        Column("brokers"),
    ]
    disks = [
        Row(
            [
                Field(f"{choice.array.layout} of {choice.target}", tags=["chosen"] if choice.chosen else []),
                Field(size_text(choice.array.usable_bytes)),
                Field(rate_text(choice.write_bytes_per_s)),
                Field(rate_text(choice.array.read_bytes_per_s)),
                Field(significant(choice.copies)),
                Field(lost_disk_text(choice.array, choice.lost_disk_s)),
                Field(brokers_text(choice.brokers)),
            ]
        )
        for choice in plan.disks
    ]
    if disks:
        media = ", ".join(
            f"{target}: {medium}{', emulated' if emulation else ''}"
            for target, medium, emulation in dict.fromkeys((d.target, d.medium, d.emulation) for d in plan.disks)
        )
        blocks.append(
            Table(columns, disks, label="Other layouts of the disks", note=f"Media of the measured disks: {media}.")
        )
    return blocks


def _difference(brokers: int | None, now: int | None) -> str:
    if brokers is None or now is None:
        return ""
    return "none" if brokers == now else f"{brokers - now:+d}".replace("-", "\N{MINUS SIGN}")


def _topics(plan: Plan) -> list[Block]:
    rows = [
        [topic.name, count_text(topic.partitions), str(topic.replication), str(topic.min_insync_replicas)]
        for topic in plan.topics
    ]
    header = ["topic", "partitions", "replication.factor", "min.insync.replicas"]
    notes = [Bullet(as_sentence(note), topic.name) for topic in plan.topics for note in topic.notes]
    return [table(header, rows, "Topics"), *([Bullets(notes)] if notes else [])]


def _believed(plan: Plan) -> list[Block]:
    if not plan.predictions:
        return []
    rows = [
        [
            Field(each.cell, "fitted once more without it" if each.in_turn else "held out"),
            Field(f"{significant(each.predicted_cores)} cores"),
            Field(f"{significant(each.measured_cores)} cores"),
            Field(
                change_text(1 + each.error_ratio), tone="good" if abs(each.error_ratio) <= AIMED_ERROR_RATIO else "warn"
            ),
        ]
        for each in plan.predictions
    ]
    label = "Cells that costs were not fitted to"
    return [table(["cell", "predicted", "measured", "error"], rows, label)]


def _unknown(plan: Plan) -> list[Block]:
    columns = [Column("not known", text=True, prose=True), Column("what finds it out", text=True, prose=True)]
    rows = [Row([Field(as_sentence(each.what)), Field(each.find_out)]) for each in plan.unknown]
    return [Table(columns, rows, label="What is not known")] if rows else []


def _load(plan: Plan, load_text: str) -> list[Block]:
    blocks: list[Block] = [Paragraph(as_sentence(measured_on(plan)))]
    if load_text:
        blocks.append(Code(load_text, folded="The load file"))
    return blocks
