"""The metrics of groups: how many there are of each kind and state, and what happened to them.

In Kafka these are in GroupCoordinatorMetrics. The names here are those of the beans, but Prometheus keeps the end
`_count` for histograms. Groups have no series of their own: clients could make any number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from highwater.broker.group.classic import ClassicGroup
from highwater.broker.group.consumer.group import ConsumerGroupState
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.group.members import CONSUMER
from highwater.broker.group.rebalance import GroupState
from highwater.broker.metrics.exposition import NO_LABELS, family

_GROUPS_PER_PIECE: Final = 100
_PREFIX: Final = "kafka_server_group_coordinator_metrics"


def group_page(groups: GroupCoordinator) -> Iterator[str]:
    states = {
        ClassicGroup.kind: dict.fromkeys((state.value for state in GroupState if state is not GroupState.DEAD), 0),
        CONSUMER: dict.fromkeys((state.value for state in ConsumerGroupState), 0),
    }
    for number, group in enumerate(groups.all_groups()[1], 1):
        of_kind = states[group.kind]
        if (state := group.state_name) in of_kind:  # it may be deleted since the last piece
            of_kind[state] += 1
        if not number % _GROUPS_PER_PIECE:
            yield ""
    yield family(
        f"{_PREFIX}_groups",
        "gauge",
        "Groups that this broker coordinates, by the protocol of their members.",
        [({"protocol": kind}, sum(of_kind.values())) for kind, of_kind in states.items()],
    )
    for kind, of_kind in states.items():
        yield family(
            f"{_PREFIX}_{kind}_groups",
            "gauge",
            f"Groups of the {kind} protocol that this broker coordinates, by state.",
            [({"state": state}, count) for state, count in of_kind.items()],
        )
    yield family(
        f"{_PREFIX}_offsets", "gauge", "Committed offsets of these groups.", [(NO_LABELS, groups.offset_count)]
    )
    counters = groups.counters
    totals = (
        ("consumer_group_rebalances", counters.consumer_rebalances, "New epochs of consumer groups."),
        (
            "group_completed_rebalances",
            counters.classic_rebalances,
            "Rebalances of classic groups that came to their end.",
        ),
        ("offset_commits", counters.offsets_committed, "Offsets committed."),
        ("offset_expirations", counters.offsets_expired, "Offsets that expired."),
        (
            "offset_deletions",
            counters.offsets_removed - counters.offsets_expired,
            "Offsets deleted, by a request or with their topic or group.",
        ),
    )
    for name, value, help_text in totals:
        yield family(f"{_PREFIX}_{name}_total", "counter", help_text, [(NO_LABELS, value)])
