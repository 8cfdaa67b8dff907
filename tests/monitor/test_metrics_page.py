"""The page for Prometheus: read by Prometheus' own parser and checked by promtool."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.common.ceilings import PRODUCE
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.headroom import CPU, Headroom
from highwater.monitor.history.writer import HistoryState
from highwater.monitor.metrics_page import metrics_page
from highwater.monitor.model import Snapshot
from highwater.monitor.state import Cost, MonitorState
from tests.monitor import clusters
from tests.monitor.agents import DRIFT, TUNING, with_hosts
from tests.monitor.figures.test_headroom import MEASURED
from tests.promtool import promtool

STATE = MonitorState(
    started_ms=0, tick_s=15.0, ticks=3, cost=Cost(rss_bytes=1 << 20, cpu_s=1.5), history=HistoryState("")
)
SHAPE = clusters.Shape(hostile=True, groups=30, topics=20, partitions=100)
# kafka_exporter and kafka-lag-exporter have these names, so dashboards ask for them.
GIVEN_NAMES = ("kafka_consumergroup_current_offset_sum", "kafka_consumergroup_lag_sum")


def page(*, has_partitions: bool = True) -> str:
    window = clusters.window(SHAPE)
    view = (window[-1], derive(window))
    return "".join(metrics_page(view, STATE, view[0].taken_at_ms + 2500, has_partitions=has_partitions))


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_value_is_that_of_the_snapshot() -> None:
    text = page()
    window = clusters.window(SHAPE)
    snapshot, figures = window[-1], derive(window)
    found = samples(text)

    def value(name: str, **labels: object) -> float | None:
        return found.get((name, frozenset((key, str(each)) for key, each in labels.items())))

    assert value("kafka_brokers") == 3
    for name, topic in snapshot.topics.items():
        assert value("kafka_topic_partitions", topic=name) == len(topic.partitions)
        for each in topic.partitions:
            labels = {"topic": name, "partition": each.partition}
            assert value("kafka_topic_partition_current_offset", **labels) == each.end_offset
            assert value("kafka_topic_partition_leader", **labels) == each.leader
        for row in figures.partitions[name]:
            labels = {"topic": name, "partition": row.partition}
            assert value("kafka_cluster_partition_underminisr", **labels) == row.is_under_min_isr
            assert value("kafka_cluster_partition_atminisr", **labels) == row.is_at_min_isr
    assert set(figures.groups) & set(clusters.HOSTILE_NAMES)
    for name, group in figures.groups.items():
        assert value("kafka_consumergroup_members", consumergroup=name) == group.members
        assert value("kafka_consumergroup_group_sum_lag", cluster_name="synthetic", group=name) == group.lag
        for lag in figures.group_partitions[name]:
            labels = {"consumergroup": name, "topic": lag.topic, "partition": lag.partition}
            assert value("kafka_consumergroup_lag", **labels) == lag.lag
            assert value("kafka_consumergroup_current_offset", **labels) == lag.committed_offset
    assert value("highwater_monitor_snapshot_age_seconds") == 2.5
    assert value("process_cpu_seconds_total") == 1.5
    assert value("highwater_monitor_history_paused") == 0


def test_series_of_partitions_are_behind_a_switch() -> None:
    text = page(has_partitions=False)
    assert not [labels for _, labels in samples(text) if "partition" in dict(labels)]
    assert "kafka_consumergroup_lag_sum" in text


def test_before_the_first_snapshot_the_monitor_speaks_of_itself() -> None:
    text = "".join(metrics_page(None, replace(STATE, ticks=0, failed_ticks=4), 0))
    found = {name for name, _ in samples(text)}
    assert "highwater_monitor_failed_ticks_total" in found
    assert not any(name.startswith("kafka_") for name in found)


@pytest.mark.slow
def test_promtool_takes_the_page() -> None:
    text = page()
    done = promtool("check", "metrics", given=text)
    complaints = [
        line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(GIVEN_NAMES) and line.strip()
    ]
    assert complaints == []


def host_view() -> tuple[Snapshot, Figures]:
    hosts = with_hosts(clusters.window(), "h1", "h2", "h3", tuning=replace(TUNING, drift=(DRIFT,)))
    silent = replace(hosts[-1].hosts["h3"], error="refused", as_of_ms=hosts[-1].taken_at_ms - 300_000)
    hosts[-1] = replace(hosts[-1], hosts={**hosts[-1].hosts, "h3": silent})
    return hosts[-1], derive(hosts, [MEASURED])


def test_hosts_and_headroom_are_those_of_the_pages() -> None:
    snapshot, figures = host_view()
    found = samples("".join(metrics_page((snapshot, figures), STATE, snapshot.taken_at_ms)))

    def value(name: str, **labels: object) -> float | None:
        return found.get((f"highwater_monitor_{name}", frozenset((key, str(each)) for key, each in labels.items())))

    assert [value("host_up", host=name) for name in ("h1", "h2", "h3")] == [1, 1, 0]
    row = figures.hosts["h1"]
    assert value("host_as_tuned", host="h1") == 0
    assert value("host_drifted_settings", host="h1") == 1
    assert value("host_cpu_ratio", host="h1") == row.cpu_ratio == 0.5
    assert value("host_disk_busy_ratio", host="h1", device="sda") == row.busiest_disk_ratio
    assert value("host_broker", host="h1", broker=0) == 1
    answer = snapshot.hosts["h1"].answer
    assert answer is not None
    assert value("host_network_sent_bytes_total", host="h1") == answer.network.sent_bytes
    assert value("host_cpu_seconds_total", host="h1") == answer.cpu.busy_s
    assert value("broker_cache_served_ratio", host="h1", broker=0) == row.processes[0].cache_served_ratio
    of_h3 = {name for name, labels in found if ("host", "h3") in labels}
    assert of_h3 == {"highwater_monitor_host_up"}
    headroom = {(each.broker_id, each.resource): each for each in figures.headroom}
    assert value("headroom_ratio", broker=0, resource=CPU) == headroom[0, CPU].ratio == 0.5
    assert value("headroom_stale", broker=0, resource=CPU) == 0
    assert value("ceiling_bytes_per_second", broker=0, resource=PRODUCE) == 200e6
    assert value("demand_bytes_per_second", broker=0, resource=CPU) is None


def test_a_grey_figure_has_no_ratio() -> None:
    snapshot, figures = host_view()
    grey = Headroom(1, PRODUCE, 0.1, 1.0, 2.0, stale=("another kernel",))
    page_of_grey = metrics_page((snapshot, replace(figures, headroom=(grey,))), STATE, snapshot.taken_at_ms)
    found = samples("".join(page_of_grey))
    names = {name for name, labels in found if ("resource", PRODUCE) in labels}
    assert "highwater_monitor_headroom_ratio" not in names
    assert "highwater_monitor_headroom_stale" in names


def test_promtool_takes_the_series_of_hosts() -> None:
    snapshot, figures = host_view()
    text = "".join(metrics_page((snapshot, figures), STATE, snapshot.taken_at_ms))
    done = promtool("check", "metrics", given=text)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("highwater_")]
    assert complaints == []
