"""`group.version` does not go to 0 while a consumer group has members, whichever broker coordinates it."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.features import GROUP_VERSION
from tests.broker.member.asking import GROUP, AskedCluster


@pytest.fixture
def cluster() -> AskedCluster:
    """A cluster with a topic, at level 1."""
    cluster = AskedCluster()
    cluster.create_topic("t", [1, 2, 3])
    assert set_level(cluster, 1, 1).error_code is ErrorCode.none
    cluster.wait(lambda: [level_of(cluster, of) for of in (1, 2, 3)] == [1, 1, 1])
    return cluster


def level_of(cluster: AskedCluster, broker_id: int) -> int:
    node = cluster[broker_id].node
    assert node is not None
    return node.features.level(GROUP_VERSION)


def set_level(cluster: AskedCluster, broker_id: int, level: int) -> Any:
    update = {"feature": GROUP_VERSION, "max_version_level": level, "upgrade_type": 1 if level else 2}
    return cluster.ask(broker_id, "update_features", 2, timeout=1000, feature_updates=[update], validate_only=False)


def beat(cluster: AskedCluster, broker_id: int, epoch: int) -> Any:
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    told = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    return cluster.ask(broker_id, "consumer_group_heartbeat", 1, **told, **({} if epoch else joining))


def test_members_of_any_broker_hold_the_level(cluster: AskedCluster) -> None:
    coordinator = cluster.coordinator("g", GROUP)
    assert beat(cluster, coordinator, 0).error_code is ErrorCode.none
    for broker_id in (1, 2, 3):
        refused = set_level(cluster, broker_id, 0)
        assert refused.error_code is ErrorCode.invalid_update_version
        assert f"stop the consumers of these groups first (1 of broker {coordinator})" in refused.error_message
    assert beat(cluster, coordinator, -1).error_code is ErrorCode.none
    assert set_level(cluster, 1, 0).error_code is ErrorCode.none
    cluster.wait(lambda: [level_of(cluster, of) for of in (1, 2, 3)] == [0, 0, 0])
    cluster[2].process.pause()
    assert set_level(cluster, 1, 0).error_code is ErrorCode.none, "it is at 0, so nobody needs to be asked"


def test_a_broker_that_does_not_answer_holds_the_level(cluster: AskedCluster) -> None:
    cluster[3].process.pause()
    refused = set_level(cluster, 1, 0)
    assert refused.error_code is ErrorCode.invalid_update_version
    assert "of broker 3 it is not known" in refused.error_message
    cluster[3].resume()
    assert set_level(cluster, 1, 0).error_code is ErrorCode.none
