"""The table of transactions that are open for long: all of them, or those of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.topic_partition import partition_name
from highwater.common.units import NONE
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import TransactionFigures
from highwater.monitor.web import cells
from highwater.monitor.web.commands import Command
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import COUNT, ID, MILLISECONDS, PROSE, TEXT, TIME

_MOST_COMMANDS: Final = 10
_EMPTY: Final = "No transaction holds up read_committed consumers for more than a minute."


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
            "Aborts it there: read_committed consumers go on, without its records. With TLS or a login the tool needs "
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
        level=lambda row: row.verdict.level,
        notes=_TRANSACTIONS_NOTES,
    )


def _verdict(row: TransactionFigures) -> str:
    return cells.with_note(cells.state(row.verdict.level, row.verdict.value), row.sentence)


def _coordinator(row: TransactionFigures) -> str:
    if row.coordinator is None:
        return NONE
    shown = cells.joined([cells.broker_link(row.coordinator)])
    return cells.with_note(shown, row.state or "not there")


_TRANSACTIONS: Final[tuple[Column[TransactionFigures], ...]] = (
    Column(
        "topic",
        "Partition",
        TEXT,
        lambda r: r.topic,
        lambda r: cells.link("/topic", "name", r.topic, partition_name(*r.key)),
        lambda r: r.key,
    ),
    Column("verdict", "Verdict", PROSE, lambda r: r.verdict.value, _verdict, lambda r: (r.verdict.rank, r.age_ms)),
    Column(
        "transaction",
        "Transactional id",
        TEXT,
        lambda r: r.transactional_id or None,
        lambda r: cells.name_text(r.transactional_id) if r.transactional_id else NONE,
    ),
    Column("age", "Open for", MILLISECONDS, lambda r: r.age_ms),
    Column("timeout", "Time-out", MILLISECONDS, lambda r: r.timeout_ms),
    Column("groups", "Groups there", COUNT, lambda r: len(r.groups), lambda r: cells.few(r.groups, cells.group_link)),
    Column("held_up", "Held up", COUNT, lambda r: r.held_up_offsets),
    Column("coordinator", "Coordinator", COUNT, lambda r: r.coordinator, _coordinator),
    Column("producer_id", "Producer", ID, lambda r: r.producer_id),
    Column("epoch", "Epoch", ID, lambda r: r.producer_epoch),
    Column("start_offset", "From offset", ID, lambda r: r.start_offset),
    Column("since", "Since", TIME, lambda r: r.since_ms),
    Column("partition", "", COUNT, lambda r: r.partition),
    Column("state", "", TEXT, lambda r: r.state or None),
    Column("sentence", "", TEXT, lambda r: r.sentence),
    Column("command", "", TEXT, lambda r: r.command or None),
)
_TRANSACTIONS_NOTES: Final = {
    "transaction": "As the coordinator of the producer says; none where no coordinator knows it.",
    "timeout": "Its own, after which its coordinator ends it.",
    "groups": "They wait at its first record.",
    "held_up": "Offsets from its first record to the end, which read_committed consumers cannot read yet.",
}
