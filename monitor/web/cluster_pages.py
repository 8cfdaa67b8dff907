"""The pages of a snapshot: overview, brokers, topics, groups, alerts, about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from starlette.responses import Response

from highwater.monitor.causes import Happening
from highwater.monitor.figures.clients import ALL
from highwater.monitor.figures.distribution import FORMULAS
from highwater.monitor.figures.headroom import least_of
from highwater.monitor.figures.rows import FindingKind, LagVerdict, Level
from highwater.monitor.history.reader import About
from highwater.monitor.kafka_source.parts import Part
from highwater.monitor.model import Topic
from highwater.monitor.web import (
    action_pages,
    client_tables,
    commands,
    history_charts,
    message_pages,
    next_steps,
    retry_tables,
    standing,
    words,
)
from highwater.monitor.web.alert_tables import alerts_table, findings_table, notices_table, targets_table
from highwater.monitor.web.broker_tables import (
    brokers_table,
    directories_table,
    sources_table,
)
from highwater.monitor.web.event_tables import causes_table, events_table
from highwater.monitor.web.group_tables import group_partitions_table, groups_table, members_table, topic_groups_table
from highwater.monitor.web.lag_bars import lag_bars
from highwater.monitor.web.pages import Seen, not_found, of_cluster, render_cluster
from highwater.monitor.web.retry_tables import retries_table
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import Arranged, Table, arrange
from highwater.monitor.web.topic_tables import (
    config_table,
    differs_from_default,
    partitions_table,
    topics_table,
)
from highwater.monitor.web.transaction_tables import commands_of, topic_transactions_table, transactions_table

_MOST_MATRIX_CELLS: Final = 3000
_WORST: Final = 5
_MOST_OTHERS: Final = 12
_MOST_CHANGES: Final = 5
_OF_GROUPS: Final = (FindingKind.LAG, FindingKind.RECORDS_LOST)
_TRANSACTIONS: Final = Part.TRANSACTIONS.value


@of_cluster("/")
def overview(call: Call, seen: Seen) -> Response:
    figures = seen.figures
    lagging = sorted(
        (row for row in figures.groups.values() if row.level in (Level.WARN, Level.ERROR)),
        key=lambda row: (row.level.rank, row.verdict.rank, row.lag or 0),
        reverse=True,
    )
    remembered = [row for row in figures.groups.values() if standing.last_known(call, row)]
    lagging += remembered
    findings = [each for each in figures.findings if not each.is_near]
    shown = findings[: 1 + _MOST_OTHERS]
    sparklines, sparklines_time = history_charts.sparklines(call, seen)
    return render_cluster(
        call,
        seen,
        "overview.html.j2",
        "Overview",
        "/",
        findings=findings,
        since=standing.since(call, seen, findings[0]) if findings else "",
        others=[(finding, standing.since(call, seen, finding)) for finding in shown[1:]],
        # Their sentences stand above.
        named_groups={each.subject.removeprefix("group ") for each in shown if each.kind in _OF_GROUPS},
        silent=sum(broker.is_alive and bool(broker.error) for broker in seen.snapshot.brokers.values()),
        worst_groups=[(row, standing.of_group(call, seen, row)) for row in lagging[:_WORST]],
        group_counts=group_counts(figures.totals.groups_by_verdict, len(remembered)),
        unjudged_groups=sum(row.level is Level.UNKNOWN for row in figures.groups.values()),
        least=least_of(figures.headroom),
        sparklines=sparklines,
        sparklines_time=sparklines_time,
        events=history_charts.last_events(call, seen),
    )


def group_counts(by_verdict: Mapping[LagVerdict, int], remembered: int) -> list[str]:
    """How many groups stand how, the worst first. remembered: those listed by an alert from before a restart."""
    found = [f"{words.count(remembered)} with an open alert, not judged again yet"] if remembered else []
    for verdict in sorted(by_verdict, key=lambda each: -each.rank):
        many = by_verdict[verdict] - (remembered if verdict is LagVerdict.UNKNOWN else 0)
        found += [f"{words.count(many)} {words.VERDICT_WORDS[verdict]}"] if many else []
    return found


@of_cluster("/brokers")
def brokers(call: Call, seen: Seen) -> Response:
    return _table_page(call, seen, brokers_table(seen.snapshot, seen.figures), "/brokers")


@of_cluster("/topics")
def topics(call: Call, seen: Seen) -> Response:
    return _table_page(call, seen, topics_table(seen.figures), "/topics")


@of_cluster("/transactions")
def transactions(call: Call, seen: Seen) -> Response:
    view = arrange(transactions_table(seen.figures), call.query)
    source = seen.snapshot.sources.get(_TRANSACTIONS)
    return render_cluster(
        call,
        seen,
        "transactions.html.j2",
        "Open transactions",
        "/transactions",
        view=view,
        commands=commands_of(view.shown),
        problem=source.error.rstrip(".") if source is not None else "",
    )


@of_cluster("/retries")
def retries(call: Call, seen: Seen) -> Response:
    table = retries_table(seen.figures)
    view = arrange(table, call.query)
    return render_cluster(
        call,
        seen,
        "retries.html.j2",
        table.title,
        "/retries",
        view=view,
        lead=retry_tables.answer(table.rows),
        commands=retry_tables.commands_of(call.site.settings.bootstrap, view.shown),
    )


@of_cluster("/clients")
def clients(call: Call, seen: Seen) -> Response:
    felt = seen.figures.felt
    source = seen.snapshot.sources.get(Part.CLIENTS.value)
    return render_cluster(
        call,
        seen,
        "clients.html.j2",
        "Clients",
        "/clients",
        verdict=client_tables.answer(felt),
        problem=source.error.rstrip(".") if source is not None else "",
        pictures=client_tables.pictures(felt),
        view=arrange(client_tables.clients_table(felt), call.query),
        note=client_tables.notes_of(seen.snapshot.client_metrics),
        history=history_charts.section(call, seen, "client", ALL) if felt is not None else None,
        commands=client_tables.commands_of(call.site.settings.bootstrap),
    )


@of_cluster("/groups")
def groups(call: Call, seen: Seen) -> Response:
    return _table_page(call, seen, groups_table(seen.snapshot, seen.figures), "/groups")


@of_cluster("/alerts")
def alerts(call: Call, seen: Seen) -> Response:
    keeper = call.site.alerts
    return render_cluster(
        call,
        seen,
        "alerts.html.j2",
        "Alerts",
        "/alerts",
        findings=arrange(findings_table(seen.figures), call.query, "findings."),
        alerts=arrange(alerts_table(keeper.open(), seen.figures), call.query) if keeper else None,
        notices=arrange(notices_table(keeper.recent()), call.query, "notices.") if keeper else None,
        targets=arrange(targets_table(keeper.targets()), call.query, "targets.") if keeper else None,
        keeper_error=keeper.error if keeper else "",
    )


@of_cluster("/brokers")
def broker(call: Call, seen: Seen) -> Response:
    text = call.query.get("id", "")
    node_id = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    found = seen.snapshot.brokers.get(node_id)
    if found is None:
        return not_found(call, seen, "/brokers", "broker", text)
    own = {name: value for name, value in (found.config or {}).items() if differs_from_default(value)}
    silent = "– not reported by the broker." if found.config is None else "Every setting has its default."
    return render_cluster(
        call,
        seen,
        "broker.html.j2",
        f"Broker {node_id}",
        "/brokers",
        broker=found,
        changes=_changes(call, seen, "broker", str(node_id)),
        row=seen.figures.brokers[node_id],
        standing=standing.of_broker(call, seen, seen.figures.brokers[node_id]),
        as_of=standing.as_of(call, seen, seen.figures.brokers[node_id]),
        directories=arrange(directories_table(found), call.query, "directories."),
        config=arrange(config_table("broker/config", own, silent), call.query, "config."),
        next_step=next_steps.of_broker(found, seen.figures.brokers[node_id]),
        commands=commands.of_broker(call.site.settings.bootstrap, node_id),
        actions=action_pages.of_broker(call, node_id),
        history=history_charts.section(call, seen, "broker", str(node_id)),
    )


@of_cluster("/topics")
def topic(call: Call, seen: Seen) -> Response:
    name = call.query.get("name", "")
    found = seen.snapshot.topics.get(name)
    if found is None:
        return not_found(call, seen, "/topics", "topic", name)
    config = config_table("topic/config", found.config, "– not reported by the broker.")
    return render_cluster(
        call,
        seen,
        "topic.html.j2",
        name,
        "/topics",
        topic=found,
        changes=_changes(call, seen, "topic", name),
        row=seen.figures.topics[name],
        formulas=FORMULAS,
        matrix=distribution(found, {each.node_id for each in seen.snapshot.brokers.values() if each.is_alive}),
        partitions=arrange(partitions_table(found, seen.figures), call.query, "partitions."),
        config=arrange(config, call.query, "config."),
        groups=arrange(topic_groups_table(name, seen.figures), call.query, "groups."),
        transactions=arrange(topic_transactions_table(name, seen.figures), call.query, "transactions."),
        next_step=next_steps.of_topic(seen.figures.topics[name]),
        commands=commands.of_topic(call.site.settings.bootstrap, name),
        actions=action_pages.of_topic(call, name),
        messages=message_pages.address_of(call, name),
        history=history_charts.section(call, seen, "topic", name),
    )


@of_cluster("/groups")
def group(call: Call, seen: Seen) -> Response:
    name = call.query.get("name", "")
    found = seen.snapshot.groups.get(name)
    if found is None:
        return not_found(call, seen, "/groups", "group", name)
    return render_cluster(
        call,
        seen,
        "group.html.j2",
        name or "(empty)",
        "/groups",
        group=found,
        changes=_changes(call, seen, "group", name),
        row=seen.figures.groups[name],
        standing=standing.of_group(call, seen, seen.figures.groups[name]),
        lag=lag_bars(seen.figures.group_partitions.get(name, ())),
        partitions=arrange(group_partitions_table(name, seen.figures), call.query, "partitions."),
        members=arrange(members_table(found), call.query, "members."),
        next_step=next_steps.of_group(seen.figures.groups[name]),
        commands=commands.of_group(call.site.settings.bootstrap, name),
        actions=action_pages.of_group(call, name),
        history=history_charts.section(call, seen, "group", name, {topic for topic, _ in found.commits}),
    )


@of_cluster("/events")
def events(call: Call, seen: Seen) -> Response:
    # A filter looks for single events.
    table = events_table if call.query.get("q") else causes_table
    return _table_page(call, seen, table(call, seen), "/events")


@of_cluster("/about")
def about(call: Call, seen: Seen) -> Response:
    return render_cluster(
        call,
        seen,
        "about.html.j2",
        "About",
        "/about",
        sources=arrange(sources_table(seen.snapshot), call.query),
        history_state=history_charts.state(call),
    )


def _changes(call: Call, seen: Seen, kind: str, name: str) -> list[Happening] | str:
    return history_charts.last_events(call, seen, About(((kind, name),)), _MOST_CHANGES)


def distribution(topic: Topic, alive: Collection[int]) -> tuple[list[int], list[tuple[int, list[str]]]] | None:
    """Brokers, and for each partition what it has on each of them; None if that is too much to look at."""
    brokers = sorted({node_id for partition in topic.partitions for node_id in partition.replicas})
    if not brokers or len(brokers) * len(topic.partitions) > _MOST_MATRIX_CELLS:
        return None
    rows = []
    for partition in topic.partitions:
        marks = []
        for node_id in brokers:
            if node_id == partition.leader:
                marks.append("leader")
            elif node_id not in partition.replicas:
                marks.append("")
            else:
                # A partition without a leader keeps the in-sync replicas that it had at last.
                is_in_sync = node_id in partition.in_sync_replicas and node_id in alive
                marks.append("in sync" if is_in_sync else "out of sync")
        rows.append((partition.partition, marks))
    return brokers, rows


def _table_page(call: Call, seen: Seen, table: Table[Any], section: str) -> Response:
    view: Arranged[Any] = arrange(table, call.query)
    return render_cluster(call, seen, "table_page.html.j2", table.title, section, view=view, lead=_lead(table))


def _lead(table: Table[Any]) -> str:
    """How many rows need a look, as a sentence; empty for a table whose rows are neither well nor ill."""
    if table.level is None or not table.rows:
        return ""
    levels = Counter(map(table.level, table.rows))
    noun, total = table.title.lower().removesuffix("s"), len(table.rows)
    of_all = f"of {words.many(total, noun)}"
    ill, unknown = levels[Level.ERROR] + levels[Level.WARN], levels[Level.UNKNOWN]
    parts = []
    if ill:
        parts.append(f"{words.count(ill)} {of_all} {'needs' if ill == 1 else 'need'} attention.")
    if unknown:
        parts.append(f"{words.count(unknown)}{'' if ill else f' {of_all}'} cannot be judged yet.")
    well = f"The {noun} is healthy." if total == 1 else f"All {words.many(total, noun)} are healthy."
    return " ".join(parts) or well
