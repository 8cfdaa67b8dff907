"""How evenly replicas, leaders and bytes lie on the brokers: spread, skew, severity, moves to balance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from highwater.monitor.figures.rows import Balance

# Shown beside the numbers: other monitors use the same words for other formulas.
FORMULAS: Final = {
    "spread": "100 · T / N, rounded down. N: live brokers. T: brokers with at least one replica assigned.",
    "skew": "100 · (brokers with more than ⌈R / T⌉ replicas) / T, rounded down. R: replicas.",
    "leader skew": "100 · (brokers that lead more than ⌈L / T⌉ partitions) / T, rounded down. L: leaders.",
    "max/mean": "the broker with most, by the mean of the T brokers. 1 is even.",
    "moves": "Σ over brokers of max(0, what it has − ⌈mean⌉).",
}


def balance(
    replicas: Mapping[int, int],
    leaders: Mapping[int, int],
    live_brokers: int,
    bytes_in_by_leader: Mapping[int, float],
    disk_bytes_by_broker: Mapping[int, int],
) -> Balance:
    """Balance of a topic or of a cluster, from counts by broker. A broker that is not in `replicas` holds nothing."""
    holders = len(replicas)
    replica_count, leader_count = sum(replicas.values()), sum(leaders.values())
    fair_replicas = _divided_up(replica_count, holders)
    fair_leaders = _divided_up(leader_count, holders)
    return Balance(
        spread_percent=100 * holders // live_brokers if live_brokers and holders else None,
        skew_percent=_share_above(replicas.values(), fair_replicas, holders),
        leader_skew_percent=_share_above(leaders.values(), fair_leaders, holders),
        replica_max_over_mean=_max_over_mean(replicas.values(), holders),
        leader_max_over_mean=_max_over_mean(leaders.values(), holders),
        bytes_in_max_over_mean=_max_over_mean(bytes_in_by_leader.values(), holders),
        disk_bytes_max_over_mean=_max_over_mean(disk_bytes_by_broker.values(), holders),
        least_replica_max_over_mean=fair_replicas * holders / replica_count if replica_count else None,
        least_leader_max_over_mean=fair_leaders * holders / leader_count if leader_count else None,
        replica_moves=sum(max(0, count - fair_replicas) for count in replicas.values()),
        leader_moves=sum(max(0, count - fair_leaders) for count in leaders.values()),
    )


def _divided_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor) if divisor else 0


def _share_above(counts: Iterable[int], limit: int, holders: int) -> int | None:
    return 100 * sum(count > limit for count in counts) // holders if holders else None


def _max_over_mean(amounts: Iterable[float], holders: int) -> float | None:
    known = tuple(amounts)
    total = sum(known)
    return max(known) * holders / total if holders and total else None
