"""The table of transactions that are open for long: all of them, or those of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.topic_partition import partition_name
from highwater.common.units import NONE, count_text
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import TransactionFigures
from highwater.monitor.web import cells, words
from highwater.monitor.web.commands import Command
from highwater.monitor.web.filters import Kind
from highwater.monitor.web.tables import Column, Table

_MOST_GROUPS: Final = 3
_MOST_COMMANDS: Final = 10
_EMPTY: Final = "No transaction holds up readers of committed data for more than a minute."


def transactions_table(figures: Figures) -> Table[TransactionFigures]:
    return _table("transactions", figures.transactions)


def topic_transactions_table(topic: str, figures: Figures) -> Table[TransactionFigures]:
    return _table("topic/transactions", [row for row in figures.transactions if row.topic == topic])


def commands_of(rows: Sequence[TransactionFigures]) -> list[Command]:
    """What ends hanging transactions; no command ends one that a coordinator knows without harm."""
    return [
        Command(
            f"End the transaction of producer {row.producer_id} in {row.topic}-{row.partition}",
            row.command,
            "Aborts it there: readers of committed data go on, without its records. With TLS or a login the tool needs "
            "--command-config FILE before abort.",
        )
        for row in rows
        if row.command
    ][:_MOST_COMMANDS]


def _table(name: str, rows: Sequence[TransactionFigures]) -> Table[TransactionFigures]:
    return Table(
        name=name,
        title="Open transactions",
        columns=_TRANSACTIONS,
        rows=rows,
        empty=_EMPTY,
        sort="-verdict",
        level=lambda row: words.LEVEL_CLASSES[row.verdict.level],
    )


def _verdict(row: TransactionFigures) -> str:
    return cells.with_note(cells.state(row.verdict.level, row.verdict.value), row.sentence)


def _coordinator(row: TransactionFigures) -> str:
    if row.coordinator is None:
        return NONE
    shown = cells.joined([cells.broker_link(row.coordinator)])
    return cells.with_note(shown, row.state or "not there")


def _groups(row: TransactionFigures) -> str:
    if not row.groups:
        return NONE
    more = f" and {count_text(len(row.groups) - _MOST_GROUPS)} more" if len(row.groups) > _MOST_GROUPS else ""
    return cells.joined([cells.group_link(name) for name in row.groups[:_MOST_GROUPS]]) + more


_TRANSACTIONS: Final[tuple[Column[TransactionFigures], ...]] = (
    Column(
        "topic",
        "Partition",
        Kind.TEXT,
        lambda r: r.topic,
        lambda r: cells.link("/topic", "name", r.topic, partition_name(*r.key)),
        lambda r: r.key,
    ),
    Column(
        "verdict",
        "Verdict",
        Kind.TEXT,
        lambda r: r.verdict.value,
        _verdict,
        lambda r: (r.verdict.rank, r.age_ms),
        is_prose=True,
    ),
    Column(
        "transaction",
        "Transactional id",
        Kind.TEXT,
        lambda r: r.transactional_id or None,
        lambda r: cells.name_text(r.transactional_id) if r.transactional_id else NONE,
        note="As the coordinator of the producer says; none where no coordinator knows it.",
    ),
    Column("age", "Open for", Kind.MILLISECONDS, lambda r: r.age_ms),
    Column(
        "timeout",
        "Time-out",
        Kind.MILLISECONDS,
        lambda r: r.timeout_ms,
        note="Its own, after which its coordinator ends it.",
    ),
    Column(
        "groups", "Groups there", Kind.NUMBER, lambda r: len(r.groups), _groups, note="They stand at its beginning."
    ),
    Column(
        "held_up",
        "Held up",
        Kind.NUMBER,
        lambda r: r.held_up_offsets,
        note="Offsets from its first record to the end, which readers of committed data cannot read yet.",
    ),
    Column("coordinator", "Coordinator", Kind.NUMBER, lambda r: r.coordinator, _coordinator),
    Column("producer_id", "Producer", Kind.NUMBER, lambda r: r.producer_id, lambda r: str(r.producer_id)),
    Column("epoch", "Epoch", Kind.NUMBER, lambda r: r.producer_epoch, lambda r: str(r.producer_epoch)),
    Column("start_offset", "From offset", Kind.NUMBER, lambda r: r.start_offset, lambda r: str(r.start_offset)),
    Column("since", "Since", Kind.NUMBER, lambda r: r.since_ms, lambda r: words.clock_time(r.since_ms)),
    Column("partition", "Partition", Kind.NUMBER, lambda r: r.partition, is_shown=False),
    Column("state", "State", Kind.TEXT, lambda r: r.state or None, is_shown=False),
    Column("sentence", "What is wrong", Kind.TEXT, lambda r: r.sentence, is_shown=False),
    Column("command", "What ends it", Kind.TEXT, lambda r: r.command or None, is_shown=False),
)
