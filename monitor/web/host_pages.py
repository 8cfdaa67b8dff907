"""The pages of hosts: all of them with their verdict, one, and the headroom of brokers."""

from __future__ import annotations

from starlette.responses import Response

from highwater.monitor.figures import headroom as headroom_figures
from highwater.monitor.figures.hosts import verdict
from highwater.monitor.web import history_charts
from highwater.monitor.web.host_tables import (
    FORMULA,
    headroom_table,
    host_brokers_table,
    host_directories_table,
    host_disks_table,
    host_drift_table,
    hosts_table,
)
from highwater.monitor.web.pages import Seen, not_found, of_cluster, render_cluster
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import arrange


@of_cluster("/hosts")
def hosts(call: Call, seen: Seen) -> Response:
    rows = tuple(seen.figures.hosts.values())
    return render_cluster(
        call,
        seen,
        "hosts.html.j2",
        "Hosts",
        "/hosts",
        verdict=verdict(rows) if rows else None,
        view=arrange(hosts_table(seen), call.query),
    )


@of_cluster("/hosts")
def host(call: Call, seen: Seen) -> Response:
    name = call.query.get("name", "")
    found = seen.snapshot.hosts.get(name)
    row = seen.figures.hosts.get(name)
    if found is None or row is None:
        return not_found(call, seen, "/hosts", "host", name)
    answer = found.answer
    return render_cluster(
        call,
        seen,
        "host.html.j2",
        name,
        "/hosts",
        host=found,
        answer=answer,
        tuning=None if answer is None else answer.tuning,
        row=row,
        brokers=arrange(host_brokers_table(row), call.query, "brokers."),
        disks=arrange(host_disks_table(row), call.query, "disks."),
        directories=arrange(host_directories_table(answer), call.query, "directories."),
        drift=arrange(host_drift_table(answer), call.query, "drift."),
        history=history_charts.section(call, seen, "host", name),
    )


@of_cluster("/headroom")
def headroom(call: Call, seen: Seen) -> Response:
    rows = seen.figures.headroom
    return render_cluster(
        call,
        seen,
        "headroom.html.j2",
        "Headroom",
        "/headroom",
        verdict=headroom_figures.verdict(rows),
        formula=FORMULA,
        has_ceilings=any(row.run for row in rows),
        view=arrange(headroom_table(seen), call.query),
    )
