"""The metrics of groups, of both protocols."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.broker.metrics.group_page import group_page
from tests.broker.group.asking import GroupHarness
from tests.broker.metrics.test_page import samples


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[GroupHarness]:
    node = GroupHarness(tmp_path)
    node.find()
    yield node
    node.close()


def read(node: GroupHarness) -> dict[str, float]:
    """By the end of the name, and the value of the label if there is one."""
    return {
        " ".join((name.removeprefix("kafka_server_group_coordinator_metrics_"), *(value for _, value in labels))): count
        for (name, labels), count in samples("".join(group_page(node.node.groups))).items()
    }


def test_every_kind_and_state_is_there_before_there_is_a_group(groups: GroupHarness) -> None:
    found = read(groups)
    assert set(found.values()) == {0}
    assert {"groups classic", "groups consumer", "classic_groups Stable", "consumer_groups Reconciling"} <= found.keys()
    assert not any("Dead" in name for name in found)


def test_groups_count_by_kind_and_state(groups: GroupHarness) -> None:
    groups.become_stable(group="old")
    groups.commit({("t", 0): 5}, group="tool")
    groups.beat("a", group="new")
    groups.beat("b", group="left")
    groups.beat("b", -1, group="left")
    found = {name: count for name, count in read(groups).items() if count}
    assert found == {
        "groups classic": 2,
        "groups consumer": 2,
        "classic_groups Empty": 1,
        "classic_groups Stable": 1,
        "consumer_groups Empty": 1,
        "consumer_groups Stable": 1,
        "offsets": 1,
        "consumer_group_rebalances_total": 3,
        "group_completed_rebalances_total": 1,
        "offset_commits_total": 1,
    }


def test_a_heartbeat_that_changes_nothing_is_no_rebalance(groups: GroupHarness) -> None:
    groups.beat("a")
    for _ in range(3):
        groups.beat("a", 1)
    assert read(groups)["consumer_group_rebalances_total"] == 1


def test_offsets_that_expire_are_not_deleted_ones(groups: GroupHarness) -> None:
    groups.commit({("t", 0): 5, ("t", 1): 5})
    groups.create_topic("u")
    groups.commit({("u", 0): 5})
    assert groups.topics.delete("u") is None
    groups.advance(8 * 24 * 3_600_000)
    found = read(groups)
    assert (found["offsets"], found["offset_commits_total"]) == (0, 3)
    assert (found["offset_expirations_total"], found["offset_deletions_total"]) == (2, 1)


def test_many_groups_are_counted_in_pieces(groups: GroupHarness) -> None:
    for number in range(250):
        groups.beat("a", group=f"g{number}")
    pieces = list(group_page(groups.node.groups))
    assert pieces[:2] == ["", ""]
    assert read(groups)["groups consumer"] == 250
