"""The screen of `highwater top`: the cluster's verdict first, then brokers, groups and topics."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from highwater.common.figure_table import FigureTable
from highwater.common.units import NONE, count_text, plural, wait_text
from highwater.monitor.causes import by_cause
from highwater.monitor.events import Event
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.lag import lag_text
from highwater.monitor.figures.rows import BrokerFigures, GroupFigures, Level, TopicFigures
from highwater.monitor.model import Snapshot
from highwater.monitor.state import MonitorState
from highwater.monitor.web import words

_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "", Level.WARN: "yellow", Level.ERROR: "bold red"}
_VERDICT_LINES: Final = 2
"""The most lines of the verdict; a longer one is cut, as the tables show what it speaks of."""
_HEADERS: Final = 8
"""Lines that are no rows, without those of the verdict."""
_FEWEST: Final = 3
_MOST_CHANGES: Final = 3


def screen(
    snapshot: Snapshot,
    figures: Figures,
    state: MonitorState,
    width: int,
    height: int | None,
    events: Sequence[Event] = (),
) -> RenderableType:
    """Return what fits into `height` lines; everything without a height. The worst and the busiest come first."""
    lines = textwrap.wrap(
        _printable(figures.sentence), width, max_lines=None if height is None else _VERDICT_LINES, placeholder=" …"
    )
    brokers = sorted(figures.brokers.values(), key=lambda broker: (-broker.level.rank, broker.node_id))
    groups = sorted(figures.groups.values(), key=lambda group: (-group.verdict.rank, -(group.lag or 0), group.name))
    topics = sorted(
        (topic for topic in figures.topics.values() if not topic.is_internal or topic.level is not Level.OK),
        key=lambda topic: (-topic.level.rank, -(topic.offsets_per_s or 0), topic.name),
    )
    changes = _changes(events)
    left = None if height is None else height - _HEADERS - len(lines) - len(changes)
    shown = _shares((len(brokers), len(groups), len(topics)), left)
    hidden = [len(brokers) - shown[0], len(groups) - shown[1], len(topics) - shown[2]]
    return Stack(
        *(Text(line, style=_STYLES[figures.level]) for line in lines),
        _totals(snapshot, figures),
        Text(),
        _brokers(brokers[: shown[0]]),
        Text(),
        _groups(groups[: shown[1]]),
        Text(),
        _topics(topics[: shown[2]]),
        *changes,
        _footer(snapshot, state, hidden),
    )


def _shares(counts: tuple[int, int, int], lines: int | None) -> list[int]:
    """Rows of each table: what one does not need, the others have."""
    if lines is None:
        return list(counts)
    left = max(lines, 3 * _FEWEST)
    shares = [0, 0, 0]
    while left and any(share < count for share, count in zip(shares, counts, strict=True)):
        for place in range(3):
            if shares[place] < counts[place] and left:
                shares[place] += 1
                left -= 1
    return shares


def _totals(snapshot: Snapshot, figures: Figures) -> Text:
    totals = figures.totals
    controller = NONE if snapshot.controller is None else str(snapshot.controller)
    parts = [
        f"{totals.brokers_alive}/{totals.brokers} {'brokers' if totals.processes is None else 'processes, 1 host'}",
        f"controller {controller}",
        plural(totals.topics, "topic"),
        plural(totals.partitions, "partition"),
        plural(totals.groups, "group"),
        words.rate(totals.offsets_per_s),
        words.size(totals.size_bytes),
    ]
    return Text(" · ".join(parts), style="dim", overflow="ellipsis", no_wrap=True)


def _brokers(brokers: Sequence[BrokerFigures]) -> FigureTable:
    table = FigureTable(header_style="bold", leaves_out=("REPLICAS", "SIZE", "LEADERS", "OUT", "IN"))
    table.add_names("BROKER")
    table.add_figures("LEADERS", "REPLICAS", "OUT OF SYNC", "IN", "OUT", "SIZE", "DISK FREE")
    for each in brokers:
        name = f"{each.node_id}{'' if each.is_alive else ' gone'}"
        table.add_row(
            Text(name, style=_STYLES[each.level]),
            count_text(each.leaders),
            count_text(each.replicas),
            count_text(each.out_of_sync_replicas),
            words.size_rate(each.bytes_in_per_s),
            words.size_rate(each.bytes_out_per_s),
            words.size(each.size_bytes),
            words.percent(each.disk_usable_percent),
        )
    return table


def _groups(groups: Sequence[GroupFigures]) -> FigureTable:
    table = FigureTable(header_style="bold", leaves_out=("STATE", "MEMBERS", "CATCH UP", "LAG TIME"))
    table.add_names("GROUP")
    table.add_figures("VERDICT", "STATE", justify="left")
    table.add_figures("MEMBERS", "LAG", "LAG TIME", "CATCH UP")
    for each in groups:
        table.add_row(
            Text(_printable(each.name)),
            Text(each.verdict.value, style=_STYLES[each.verdict.level]),
            each.state.value,
            count_text(each.members),
            NONE if each.lag is None else lag_text(each.lag, each.lag_error),
            words.age(each.lag_time if each.lag_time is not None and each.lag_time.is_known else None),
            _catch_up(each),
        )
    return table


def _topics(topics: Sequence[TopicFigures]) -> FigureTable:
    table = FigureTable(header_style="bold", leaves_out=("LEADER SKEW", "SKEW", "PARTITIONS", "SIZE"))
    table.add_names("TOPIC")
    table.add_figures("PARTITIONS", "RATE", "SIZE", "SKEW", "LEADER SKEW", "WORST LAG")
    for each in topics:
        table.add_row(
            Text(_printable(each.name), style=_STYLES[each.level]),
            count_text(each.partitions),
            words.rate(each.offsets_per_s),
            words.size(each.size_bytes),
            words.percent(each.balance.skew_percent),
            words.percent(each.balance.leader_skew_percent),
            words.count(each.worst_lag),
        )
    return table


def _changes(events: Sequence[Event]) -> list[Text]:
    """The newest changes, those of one cause in one line; empty without any."""
    lines = by_cause(events)[:_MOST_CHANGES]
    shown = [
        Text(f"{_clock(each.line.at_ms)} {_printable(each.line.text)}", overflow="ellipsis", no_wrap=True)
        for each in lines
    ]
    return [Text(), *shown] if shown else []


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def _footer(snapshot: Snapshot, state: MonitorState, hidden: Sequence[int]) -> Text:
    parts = [f"{_clock(snapshot.taken_at_ms)} UTC", f"{plural(state.cost.requests, 'request')} per tick"]
    names = ("broker", "group", "topic")
    parts += [f"{plural(count, name)} more" for count, name in zip(hidden, names, strict=True) if count]
    if state.error:
        parts.insert(0, f"no answer: {state.error}")
    return Text(" · ".join(parts), style="bold red" if state.error else "dim", overflow="ellipsis", no_wrap=True)


def _catch_up(group: GroupFigures) -> str:
    if group.level.rank >= Level.WARN.rank and group.never_catches_up:
        return "never"
    return NONE if group.catch_up_ms is None else wait_text(group.catch_up_ms / 1000)


def _printable(text: str) -> str:
    """Names come from others: what could steer a terminal is shown as an escape."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
