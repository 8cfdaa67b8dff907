"""The table of clients, its picture, the sentence above it, and the command that makes clients push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from highwater.common.units import NONE, count_text, plural
from highwater.drawing.axes import linear, numbered
from highwater.drawing.plot import Bar, Size, bar_panel
from highwater.monitor.command_line import broker_command
from highwater.monitor.figures.clients import ClientFigures, Felt
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import ClientMetrics
from highwater.monitor.web import cells, words
from highwater.monitor.web.commands import Command
from highwater.monitor.web.history_charts import explorer_address
from highwater.monitor.web.tables import Column, Table
from highwater.monitor.web.units import COUNT, GROUP, MILLISECONDS, NAME_IF_ANY, PER_S, TEXT, TIME

_MOST_BARS: Final = 40
_SIZE: Final = Size(580, 200)
_SHOWN: Final = ",".join(
    f"org.apache.kafka.{prefix}"
    for prefix in (
        "producer.request.latency",
        "producer.record",
        "producer.produce.throttle",
        "consumer.fetch.manager.fetch.latency",
        "consumer.coordinator",
    )
)
"""What this page shows, as clients compare prefixes of names."""


class Picture(NamedTuple):
    title: str
    summary: str
    drawing: Markup


def clients_table(felt: Felt | None) -> Table[ClientFigures]:
    return Table(
        name="clients",
        title="Clients",
        columns=_COLUMNS,
        rows=() if felt is None else felt.clients,
        empty="No client pushes what it measures.",
        sort="-produce",
        level=lambda row: row.level,
        notes=_NOTES,
    )


def answer(felt: Felt | None) -> tuple[Level, str]:
    """How clients are served as they feel it, in one sentence."""
    if felt is None:
        return (
            Level.UNKNOWN,
            "What clients feel is not known: none pushes what it measures to a broker of this cluster.",
        )
    failing = [row for row in felt.clients if row.errors_per_s]
    if failing:
        worst = max(failing, key=lambda row: row.errors_per_s or 0)
        more = f", and {plural(len(failing) - 1, 'other client')}" if len(failing) > 1 else ""
        return Level.WARN, f"{worst.client_id} cannot send records, {words.rate(worst.errors_per_s)}{more}."
    parts = [
        _said("producing", felt.all.produce_ms, felt.all.broker_produce_ms),
        _said("fetching", felt.all.fetch_ms, felt.all.broker_fetch_ms),
    ]
    said = "; ".join(part for part in parts if part) or "none of them produced or fetched in its last interval"
    return Level.OK, f"As {plural(felt.all.instances, 'client')} {_feel(felt.all.instances)} it, {said}."


def _feel(many: int) -> str:
    return "feels" if many == 1 else "feel"


def _said(what: str, felt_ms: float | None, broker_ms: float | None) -> str:
    if felt_ms is None:
        return ""
    own = "" if broker_ms is None else f" ({words.time_ms(broker_ms)} in the broker)"
    return f"{what} takes {words.time_ms(felt_ms)}{own}"


def pictures(felt: Felt | None) -> list[Picture]:
    """The clients with the longest means, of producing and of fetching."""
    if felt is None:
        return []
    made = []
    for name, title, read, own_ms in (
        ("produce", "Producing, longest first", _produce_ms, felt.all.broker_produce_ms),
        ("fetch", "Fetching, longest first", _fetch_ms, felt.all.broker_fetch_ms),
    ):
        known = sorted(
            ((value, row) for row in felt.clients if (value := read(row)) is not None), key=lambda each: -each[0]
        )[:_MOST_BARS]
        if known:
            made.append(_picture(name, title, known, own_ms))
    return made


def _picture(name: str, title: str, known: Sequence[tuple[float, ClientFigures]], own_ms: float | None) -> Picture:
    longest_ms, longest = known[0]
    summary = f"1 is {longest.client_id}: {words.time_ms(longest_ms)}."
    if own_ms is not None:
        summary += f" The broker itself takes {words.time_ms(own_ms)}."
    bars = [
        Bar(rank, value, "", f"{rank}: {row.name}, {words.time_ms(value)}")
        for rank, (value, row) in enumerate(known, 1)
    ]
    axis = linear("mean, in ms", "ms", [value for value, _ in known], 4)
    return Picture(
        title, summary, bar_panel(f"client-{name}", title, summary, bars, numbered("client", len(known)), axis, _SIZE)
    )


def _produce_ms(row: ClientFigures) -> float | None:
    return row.produce_ms


def _fetch_ms(row: ClientFigures) -> float | None:
    return row.fetch_ms


def notes_of(metrics: ClientMetrics | None) -> str:
    """What was read, and what was not."""
    if metrics is None:
        return ""
    passed_over = f"; {plural(metrics.passed_over, 'record')} passed over" if metrics.passed_over else ""
    return f"{count_text(metrics.read)} pushes read since the monitor started{passed_over}."


def commands_of(bootstrap: str) -> list[Command]:
    base = ("configs", "-b", bootstrap, "--alter", "--entity-type", "client-metrics", "--entity-name", "all")
    return [
        Command(
            "Have all clients push what they measure",
            broker_command(*base, "--add-config", f"interval.ms=60000,metrics=[{_SHOWN}]"),
            "Once a minute, for this page. Clients hear of it within five minutes, and need no change: librdkafka from "
            "2.5 on, Java clients from 3.7 on.",
        ),
        Command(
            "Have them push no more",
            broker_command(*base, "--delete-config", "interval.ms,metrics"),
            "Clients stop within the interval.",
        ),
    ]


def _name(row: ClientFigures) -> Markup:
    shown = cells.name_text(row.client_id or row.name)
    address = explorer_address("client", row.name, "produce_ms" if row.produce_ms is not None else "fetch_ms", "24h")
    return Markup('<a href="{}">{}</a>').format(address, shown)


_COLUMNS: Final[tuple[Column[ClientFigures], ...]] = (
    Column("client", "Client", TEXT, lambda r: r.client_id, _name),
    Column("produce", "Produce", MILLISECONDS, lambda r: r.produce_ms),
    Column("produce_max", "longest", MILLISECONDS, lambda r: r.produce_max_ms),
    Column("queue", "Waits before", MILLISECONDS, lambda r: r.queue_ms),
    Column("fetch", "Fetch", MILLISECONDS, lambda r: r.fetch_ms),
    Column("fetch_max", "longest", MILLISECONDS, lambda r: r.fetch_max_ms),
    Column("errors", "Errors", PER_S, lambda r: r.errors_per_s),
    Column("retries", "Retries", PER_S, lambda r: r.retries_per_s),
    Column("commit", "Commit", MILLISECONDS, lambda r: r.commit_ms),
    Column("rebalance", "Rebalance", MILLISECONDS, lambda r: r.rebalance_max_ms),
    Column("throttled", "Throttled", MILLISECONDS, lambda r: r.throttle_ms),
    Column("instances", "Instances", COUNT, lambda r: r.instances),
    Column("group", "Group", GROUP, lambda r: r.group, lambda r: cells.group_link(r.group) if r.group else NONE),
    Column("software", "Software", NAME_IF_ANY, lambda r: r.software),
    Column("broker_produce", "", MILLISECONDS, lambda r: r.broker_produce_ms),
    Column("broker_fetch", "", MILLISECONDS, lambda r: r.broker_fetch_ms),
    Column("pushed", "", TIME, lambda r: r.at_ms),
)
_NOTES: Final = {
    "produce": "From a request to its answer, as the client measured it: the mean of the newest interval.",
    "queue": "How long records wait in the client before they are sent: linger.ms, and requests in flight.",
    "fetch": "From a request to its answer, with the time in which the broker waits for records.",
    "rebalance": "The longest of the newest interval.",
    "errors": "Records that could not be sent. librdkafka does not tell.",
    "retries": "Records that were sent again. librdkafka does not tell.",
}
