"""The page for Prometheus: read by Prometheus' own parser and checked by promtool."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.monitor.figures.cluster import derive
from highwater.monitor.history.writer import HistoryState
from highwater.monitor.metrics_page import metrics_page
from highwater.monitor.state import Cost, MonitorState
from tests.monitor import clusters
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
    return metrics_page(view, STATE, view[0].taken_at_ms + 2500, has_partitions=has_partitions)


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
    text = metrics_page(None, replace(STATE, ticks=0, failed_ticks=4), 0)
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
