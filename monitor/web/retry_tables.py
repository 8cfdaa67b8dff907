"""The table of retries and dead letters, and the commands that come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import NONE, count_text, plural
from highwater.monitor.command_line import broker_command
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.retries import RetryFigures, retry_figures
from highwater.monitor.figures.rows import Level
from highwater.monitor.web import cells, words
from highwater.monitor.web.commands import Command
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import COUNT, PER_S, PROSE, TEXT

_MOST_OF_A_KIND: Final = 5


def retries_table(figures: Figures) -> Table[RetryFigures]:
    return Table(
        name="retries",
        title="Retries and dead letters",
        columns=_RETRIES,
        rows=retry_figures(figures),
        empty="No group retries records here, and there are no topics of dead letters.",
        sort="-state",
        level=lambda row: row.level,
        notes=_NOTES,
    )


def answer(rows: Sequence[RetryFigures]) -> str:
    """The sentence above the table; empty without rows."""
    if not rows:
        return ""
    dead, waiting = sum(row.dead or 0 for row in rows), sum((row.waiting or 0) + (row.due or 0) for row in rows)
    ill = [row for row in rows if row.level is Level.WARN]
    if ill:
        others = f" {plural(len(ill) - 1, 'other row')} below." if len(ill) > 1 else ""
        letters = f" At most {plural(dead, 'dead letter')} in all." if dead else ""
        return f"{ill[0].name}: {ill[0].sentence}.{others}{letters}"
    unknown = sum(row.level is Level.UNKNOWN for row in rows)
    if unknown:
        return f"Of {plural(unknown, 'topic')} it is not known how many dead letters there are."
    letters = f"At most {plural(dead, 'dead letter')}, none new" if dead else "No dead letters"
    retries = f"{count_text(waiting)} of retries to go" if waiting else "no retry waits"
    return f"{letters}; {retries}."


def commands_of(bootstrap: str, rows: Sequence[RetryFigures]) -> list[Command]:
    """What delivers records that wait, looks at dead letters, and would handle them again."""
    found = []
    if any(row.unmoved for row in rows):
        found.append(
            Command(
                "Deliver what waits",
                broker_command("delay", "run", "-b", bootstrap),
                "A mover, which runs until it is stopped: as a service of a host, or on the host of a broker.",
            )
        )
    for row in [row for row in rows if row.dead][:_MOST_OF_A_KIND]:
        again = ("--to", f"{row.name}.retry") if row.group else ()
        found.append(
            Command(
                f"Look at the dead letters of {row.name}",
                broker_command("dlq", "show", row.dead_topic, "-b", bootstrap),
                "Each with its last error, and why it is dead.",
            )
        )
        found.append(
            Command(
                f"Handle the dead letters of {row.name} again",
                broker_command("dlq", "replay", row.dead_topic, "-b", bootstrap, *again, "--dry-run"),
                "Says what it would write, each record once; without --dry-run it does. The dead letters stay.",
            )
        )
    return found


def _state(row: RetryFigures) -> str:
    return cells.with_note(cells.state(row.level), row.sentence)


_RETRIES: Final[tuple[Column[RetryFigures], ...]] = (
    Column(
        "topic",
        "Topic",
        TEXT,
        lambda r: r.topic or r.name,
        lambda r: cells.topic_link(r.topic) if r.topic else cells.name_text(r.name),
    ),
    Column("group", "Group", TEXT, lambda r: r.group or None, lambda r: cells.group_link(r.group) if r.group else NONE),
    Column("state", "State", PROSE, lambda r: r.level.value, _state, lambda r: r.level.rank),
    Column("waiting", "Waiting", COUNT, lambda r: r.waiting),
    Column("due", "Due again", COUNT, lambda r: r.due),
    Column(
        "dead",
        "Dead letters",
        COUNT,
        lambda r: r.dead,
        lambda r: cells.link("/topic", "name", r.dead_topic, words.count(r.dead)) if r.dead_topic else NONE,
    ),
    Column("dead_rate", "New dead letters", PER_S, lambda r: r.dead_per_s),
    Column("dead_topic", "", TEXT, lambda r: r.dead_topic or None),
    Column("sentence", "", TEXT, lambda r: r.sentence),
)
_NOTES: Final = {
    "waiting": "Offsets in the topics of delays that no mover has delivered.",
    "due": "Offsets that the group has still to handle again.",
    "dead": "Offsets of the topic: at most so many records, as the end of each transaction takes one.",
}
