"""A consumer group of one that commits offsets and reads them back: what was acknowledged is never taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import PeerFailure, ask
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.common.topic_partition import TopicPartition
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.clients import Client
from tests.broker.simulation.peers import SimulatedPeer

if TYPE_CHECKING:
    from tests.broker.simulation.cluster import Cluster

_OFFSET_COMMIT: Final = 8
_OFFSET_COMMIT_VERSION: Final = 7
_OFFSET_FETCH: Final = 9
_OFFSET_FETCH_VERSION: Final = 5
_FIND_COORDINATOR: Final = 10
_FIND_COORDINATOR_VERSION: Final = 2
_TIMEOUT_MS: Final = 6000
_PAUSE_MS: Final = 200
_COORDINATOR: Final[TopicPartition] = (OFFSETS_TOPIC, 0)
"""The topic of offsets has one partition in simulations, so that is where every group is."""


class Committer(Client):
    def __init__(self, cluster: Cluster, key: TopicPartition) -> None:
        super().__init__(cluster, "committer")
        self._key = key
        self._tried = self.acknowledged = -1
        self._stops_after: int | None = None
        """The last commit that was acknowledged when it was told to stop: one more, and it has."""
        self.is_idle = False
        self._step()

    def stop_after_next(self) -> None:
        """A cluster that is healed takes another commit."""
        self._stops_after = self.acknowledged

    def _step(self) -> None:
        if self._stops_after is not None and self.acknowledged > self._stops_after:
            self.is_idle = True
            return
        found = self.leader_of(_COORDINATOR)
        if found is None:
            self._have_the_topic_made()
        elif self.cluster.world.rng.random() < 0.5:
            self._commit(found[0])
        else:
            self._fetch(found[0])

    def _again(self) -> None:
        self.process.call_later(_PAUSE_MS, self._step)

    def _have_the_topic_made(self) -> None:
        endpoint = self.cluster.world.rng.choice(list(self.cluster.brokers.values())).endpoint
        fields = {"key": "g", "key_type": 0}
        peer = self.connection_to(endpoint)
        ask(peer, _FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, fields, lambda _: self._again(), timeout_ms=_TIMEOUT_MS)

    def _commit(self, peer: SimulatedPeer) -> None:
        self._tried += 1
        offset = self._tried
        topic, partition = self._key
        wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        fields = {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [wanted]}],
        }

        def answered(answer: Any | PeerFailure) -> None:
            if not isinstance(answer, PeerFailure):
                error_code = answer.topics[0].partitions[0].error_code
                if error_code is ErrorCode.none:
                    self.acknowledged = offset
            self._again()

        ask(peer, _OFFSET_COMMIT, _OFFSET_COMMIT_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)

    def _fetch(self, peer: SimulatedPeer) -> None:
        topic, partition = self._key
        fields = {"group_id": "g", "topics": [{"name": topic, "partition_indexes": [partition]}]}

        def answered(answer: Any | PeerFailure) -> None:
            if not isinstance(answer, PeerFailure) and answer.error_code is ErrorCode.none:
                self._found(answer.topics[0].partitions[0].committed_offset)
            self._again()

        ask(peer, _OFFSET_FETCH, _OFFSET_FETCH_VERSION, fields, answered, timeout_ms=_TIMEOUT_MS)

    def _found(self, offset: int) -> None:
        if not self.acknowledged <= offset <= self._tried and not self.cluster.checker.may_lose:
            raise Violation(f"offset {offset} is committed, {self.acknowledged} was acknowledged last")
