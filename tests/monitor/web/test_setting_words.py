"""Exact values of settings with their unit beside them, where the name tells it."""

from __future__ import annotations

import pytest

from highwater.monitor.model import ConfigValue
from highwater.monitor.web.setting_words import in_words
from highwater.monitor.web.tables import as_csv
from highwater.monitor.web.topic_tables import config_table


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("log.retention.hours", "168", "7 d"),
        ("log.retention.minutes", "90", "1 h 30 min"),
        ("segment.bytes", "1073741824", "1 GiB"),
        ("leader.replication.throttled.rate", "10485760", "10 MiB/s"),
        ("max.message.bytes", "1048588", "1 MiB"),
        ("connections.max.idle.ms", "600000", "10 min"),
        ("retention.bytes", "-1", "no limit"),
        ("retention.ms", "-1", "no limit"),
        ("flush.ms", "9223372036854775807", "no limit"),
        # What is read as it is, and names and values that tell no unit.
        ("linger.ms", "5", ""),
        ("log.flush.start.offset.checkpoint.interval.ms", "-1", ""),
        ("min.insync.replicas", "2", ""),
        ("log.retention.ms", "soon", ""),
        ("retention.ms", "1" * 40, ""),
        ("programs", "604800000", ""),
    ],
)
def test_a_value_in_words(name: str, value: str, shown: str) -> None:
    assert in_words(name, value) == shown


def test_a_table_shows_both_and_data_have_the_exact_value() -> None:
    week = ConfigValue("604800000", "DYNAMIC_TOPIC_CONFIG", default="86400000")
    table = config_table("topic/config", {"retention.ms": week}, "")
    shown = [str(column.text(table.rows[0])) for column in table.columns]
    assert "604800000" in shown[1]
    assert "7 d" in shown[1]
    assert "86400000" in shown[2]
    assert "1 d" in shown[2]
    assert "7 d" not in as_csv(table, table.rows)
    assert "604800000" in as_csv(table, table.rows)
