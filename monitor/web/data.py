"""Every table as CSV and as JSON: the rows of the pages, with exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from starlette.responses import JSONResponse, Response

from highwater.common.host_answer import HostAnswer
from highwater.monitor.figures.hosts import HostFigures
from highwater.monitor.model import Broker, Group, Topic
from highwater.monitor.web.alert_tables import alerts_table, findings_table, notices_table, targets_table
from highwater.monitor.web.broker_tables import brokers_table, directories_table, sources_table
from highwater.monitor.web.client_tables import clients_table
from highwater.monitor.web.event_tables import events_table
from highwater.monitor.web.explorer import points_table
from highwater.monitor.web.group_tables import group_partitions_table, groups_table, members_table, topic_groups_table
from highwater.monitor.web.host_tables import (
    headroom_table,
    host_brokers_table,
    host_directories_table,
    host_disks_table,
    host_drift_table,
    hosts_table,
)
from highwater.monitor.web.pages import Seen, of_cluster
from highwater.monitor.web.retry_tables import retries_table
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import Table, arrange, as_csv, as_objects
from highwater.monitor.web.topic_tables import config_table, partitions_table, topics_table
from highwater.monitor.web.transaction_tables import topic_transactions_table, transactions_table
from highwater.monitor.web.zookeeper_tables import servers_table

Thing = TypeVar("Thing")
Maker = Callable[[Call, Seen], Table[Any] | None]
API: Final = "/api/v1/"
CSV: Final = "/csv/"


def _topic(make: Callable[[Topic, Seen], Table[Any]]) -> Maker:
    return _named(lambda seen: seen.snapshot.topics, make)


def _group(make: Callable[[Group, Seen], Table[Any]]) -> Maker:
    return _named(lambda seen: seen.snapshot.groups, make)


def _host(make: Callable[[HostFigures], Table[Any]]) -> Maker:
    return _named(lambda seen: seen.figures.hosts, lambda row, seen: make(row))


def _agent(make: Callable[[HostAnswer | None], Table[Any]]) -> Maker:
    return _named(lambda seen: seen.snapshot.hosts, lambda host, seen: make(host.answer))


def _named(of: Callable[[Seen], Mapping[str, Thing]], make: Callable[[Thing, Seen], Table[Any]]) -> Maker:
    """Return the maker of the table of one thing, whose name is in the query."""

    def maker(call: Call, seen: Seen) -> Table[Any] | None:
        thing = of(seen).get(call.query.get("name", ""))
        return None if thing is None else make(thing, seen)

    return maker


def _broker(make: Callable[[Broker], Table[Any]]) -> Maker:
    def maker(call: Call, seen: Seen) -> Table[Any] | None:
        text = call.query.get("id", "")
        node_id = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        broker = seen.snapshot.brokers.get(node_id)
        return None if broker is None else make(broker)

    return maker


TABLES: Final[Mapping[str, Maker]] = {
    "about/sources": lambda call, seen: sources_table(seen.snapshot),
    "alerts": lambda call, seen: alerts_table(call.site.alerts.open() if call.site.alerts else (), seen.figures),
    "alerts/notices": lambda call, seen: notices_table(call.site.alerts.recent() if call.site.alerts else ()),
    "alerts/targets": lambda call, seen: targets_table(call.site.alerts.targets() if call.site.alerts else ()),
    "broker/config": _broker(lambda broker: config_table("broker/config", broker.config, "")),
    "broker/directories": _broker(directories_table),
    "brokers": lambda call, seen: brokers_table(seen.snapshot, seen.figures),
    "clients": lambda call, seen: clients_table(seen.figures.felt),
    "events": events_table,
    "explorer": points_table,
    "findings": lambda call, seen: findings_table(seen.figures),
    "group/members": _group(lambda group, seen: members_table(group)),
    "group/partitions": _group(lambda group, seen: group_partitions_table(group.name, seen.figures)),
    "groups": lambda call, seen: groups_table(seen.snapshot, seen.figures),
    "topic/config": _topic(lambda topic, seen: config_table("topic/config", topic.config, "")),
    "topic/groups": _topic(lambda topic, seen: topic_groups_table(topic.name, seen.figures)),
    "topic/partitions": _topic(lambda topic, seen: partitions_table(topic, seen.figures)),
    "topic/transactions": _topic(lambda topic, seen: topic_transactions_table(topic.name, seen.figures)),
    "headroom": lambda call, seen: headroom_table(seen),
    "host/brokers": _host(host_brokers_table),
    "host/directories": _agent(host_directories_table),
    "host/disks": _host(host_disks_table),
    "host/drift": _agent(host_drift_table),
    "hosts": lambda call, seen: hosts_table(seen),
    "retries": lambda call, seen: retries_table(seen.figures),
    "topics": lambda call, seen: topics_table(seen.figures),
    "transactions": lambda call, seen: transactions_table(seen.figures),
    "zookeeper/servers": lambda call, seen: servers_table(seen.snapshot),
}


@of_cluster("")
def table_as_json(call: Call, seen: Seen) -> Response:
    """A page of rows; `rows` and `page` of the query say which."""
    table = TABLES[call.route.path.removeprefix(API)](call, seen)
    if table is None:
        return JSONResponse({"error": "The newest snapshot has nothing of this name."}, 404)
    view = arrange(table, call.query)
    if view.problem:
        return JSONResponse({"error": view.problem}, 400)
    return JSONResponse(
        {
            **_of(seen),
            "matching": len(view.matching),
            "page": view.page,
            "pages": view.pages,
            "rows": as_objects(table, view.shown),
        }
    )


@of_cluster("")
def table_as_csv(call: Call, seen: Seen) -> Response:
    """All rows that match."""
    name = call.route.path.removeprefix(CSV)
    table = TABLES[name](call, seen)
    if table is None:
        return Response("The newest snapshot has nothing of this name.\n", 404, media_type="text/plain")
    view = arrange(table, call.query)
    if view.problem:
        return Response(f"{view.problem}\n", 400, media_type="text/plain")
    headers = {"Content-Disposition": f'attachment; filename="{name.replace("/", "-")}.csv"'}
    return Response(as_csv(table, view.matching), headers=headers, media_type="text/csv")


@of_cluster("")
def cluster_as_json(call: Call, seen: Seen) -> Response:
    figures, totals = seen.figures, seen.figures.totals
    return JSONResponse(
        {
            **_of(seen),
            "cluster_id": seen.snapshot.cluster_id,
            "controller": seen.snapshot.controller,
            "controller_epoch": seen.snapshot.controller_epoch,
            "level": figures.level.value,
            "sentence": figures.sentence,
            "brokers": totals.brokers,
            "brokers_alive": totals.brokers_alive,
            "topics": totals.topics,
            "partitions": totals.partitions,
            "replicas": totals.replicas,
            "groups": totals.groups,
            "groups_by_verdict": {verdict.value: many for verdict, many in totals.groups_by_verdict.items()},
            "offline": totals.health.offline,
            "under_replicated": totals.health.under_replicated,
            "under_min_isr": totals.health.under_min_isr,
            "offsets_per_s": totals.offsets_per_s,
            "bytes_in_per_s": totals.bytes_in_per_s,
            "bytes_out_per_s": totals.bytes_out_per_s,
            "size_bytes": totals.size_bytes,
        }
    )


def _of(seen: Seen) -> dict[str, object]:
    return {
        "cluster": seen.snapshot.cluster,
        "snapshot": seen.snapshot.number,
        "taken_at_ms": seen.snapshot.taken_at_ms,
        "is_stale": bool(seen.stale),
    }
