"""Snapshots from answers: what partitions have alike is kept once."""

from __future__ import annotations

from highwater.monitor.kafka_source.assembling import replicas_of
from highwater.monitor.kafka_source.log_dirs import LogDirs


def test_replicas_that_are_behind_by_the_same_share_a_mapping() -> None:
    behind = {("orders", 0): (10, 0), ("orders", 1): (20, 0), ("orders", 2): (30, 7)}
    found = replicas_of({node: LogDirs(0, (), behind) for node in (1, 2)})
    assert found.sizes["orders", 1] == {1: 20, 2: 20}
    assert found.lags["orders", 0] is found.lags["orders", 1]
    assert found.lags["orders", 0] == {1: 0, 2: 0}
    assert found.lags["orders", 2] == {1: 7, 2: 7}
