"""Which replicas and brokers a throttle of moves is set for."""

from __future__ import annotations

from highwater.admin.replication_throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS, throttled_replicas
from highwater.kafka.requests.list_partition_reassignments import Move


def test_a_throttle_holds_for_who_sends_and_for_who_copies() -> None:
    planned = {("a", 0): [2, 3], ("a", 1): [2, 1], ("b", 10): [3]}
    current = {("a", 0): [1, 2], ("a", 1): [1, 2], ("b", 10): [1]}
    topics, brokers = throttled_replicas(planned, current, {})
    assert topics == {
        "a": {LEADER_REPLICAS: "0:1,0:2,1:1,1:2", FOLLOWER_REPLICAS: "0:3"},
        "b": {LEADER_REPLICAS: "10:1", FOLLOWER_REPLICAS: "10:3"},
    }
    assert brokers == {1, 2, 3}
    # Of what moves already, the replicas before the move send; the settings of its topic are not overwritten.
    moves = {("a", 0): Move((4, 1), adding=(4,), removing=(1,)), ("a", 2): Move((5, 1), adding=(5,), removing=(1,))}
    topics, brokers = throttled_replicas({("a", 0): [2]}, {("a", 0): [4, 1]}, moves)
    assert topics == {"a": {LEADER_REPLICAS: "0:1,2:1", FOLLOWER_REPLICAS: "0:2,2:5"}}
    assert brokers == {1, 2, 5}
