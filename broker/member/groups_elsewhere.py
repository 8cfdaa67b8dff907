"""Asks the other brokers of a cluster how many consumer groups with members they coordinate (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from highwater.broker.cluster.connections import Connections
from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.consumer.group import ConsumerGroupState
from highwater.broker.group.members import CONSUMER
from highwater.kafka.protocol.apis import LIST_GROUPS

_VERSION: Final = 5
_TIMEOUT_MS: Final = 5_000
_WITH_MEMBERS: Final = {
    "types_filter": [CONSUMER],
    "states_filter": [state.value for state in ConsumerGroupState if state is not ConsumerGroupState.EMPTY],
}


class GroupsElsewhere:
    def __init__(self, broker_id: int, cluster: ClusterView, connections: Connections) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._connections = connections

    def count(self, then: Callable[[Mapping[int, int | None]], None]) -> None:
        """Call back, maybe before this returns, with the number of each live broker; None for one that does not say."""
        peers = {
            broker.broker_id: self._connections.to(broker.broker_id)
            for broker in self._cluster.brokers()
            if broker.broker_id != self._broker_id
        }
        counts: dict[int, int | None] = {broker_id: None for broker_id, peer in peers.items() if peer is None}
        if len(counts) == len(peers):
            then(counts)

        def answered(broker_id: int, answer: Any | PeerFailure) -> None:
            # A broker that still loads groups, or refuses, does not know or say.
            counts[broker_id] = None if isinstance(answer, PeerFailure) or answer.error_code else len(answer.groups)
            if len(counts) == len(peers):
                then(counts)

        for broker_id, peer in peers.items():
            if peer is not None:
                ask(peer, LIST_GROUPS, _VERSION, _WITH_MEMBERS, partial(answered, broker_id), timeout_ms=_TIMEOUT_MS)

    def close(self) -> None:
        self._connections.close()
