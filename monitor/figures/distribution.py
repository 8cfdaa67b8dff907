"""How evenly replicas, leaders and bytes lie on the brokers: spread, skew, severity, moves to balance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from highwater.monitor.figures.rows import Balance

# Shown beside the numbers: other monitors use the same words for other formulas.
FORMULAS: Final = {
    "spread": (
        "100 · T / N, rounded down. N: live brokers. T: brokers with at least one replica assigned; "
        "above 100 %, some of them are gone."
    ),
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
    of_replicas, of_leaders = _evenness(replicas.values(), holders), _evenness(leaders.values(), holders)
    return Balance(
        spread_percent=100 * holders // live_brokers if live_brokers and holders else None,
        skew_percent=of_replicas.percent_above,
        leader_skew_percent=of_leaders.percent_above,
        replica_max_over_mean=of_replicas.max_over_mean,
        leader_max_over_mean=of_leaders.max_over_mean,
        bytes_in_max_over_mean=_max_over_mean(bytes_in_by_leader.values(), holders),
        disk_bytes_max_over_mean=_max_over_mean(disk_bytes_by_broker.values(), holders),
        least_replica_max_over_mean=of_replicas.least,
        least_leader_max_over_mean=of_leaders.least,
        replica_moves=of_replicas.moves,
        leader_moves=of_leaders.moves,
    )


class _Evenness(NamedTuple):
    percent_above: int | None
    max_over_mean: float | None
    least: float | None
    """The smallest possible max/mean."""
    moves: int


def _evenness(counts: Collection[int], holders: int) -> _Evenness:
    total = sum(counts)
    if not holders or not total:
        return _Evenness(0 if holders else None, None, None, total)
    fair, most = -(-total // holders), max(counts)
    above = [count - fair for count in counts if count > fair] if most > fair else ()
    return _Evenness(100 * len(above) // holders, most * holders / total, fair * holders / total, sum(above))


def _max_over_mean(amounts: Iterable[float], holders: int) -> float | None:
    known = tuple(amounts)
    total = sum(known)
    return max(known) * holders / total if holders and total else None
