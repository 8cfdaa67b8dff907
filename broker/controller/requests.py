"""Collects the requests of one change, so that each broker gets at most one request of each kind.

The order is LeaderAndIsr, UpdateMetadata, StopReplica, as in Kafka's ControllerBrokerRequestBatch.
A request is made of what the context knows when the batch is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.cluster.state import LEADER_DURING_DELETE, BrokerInfo
from highwater.broker.controller import encoding
from highwater.broker.controller.channels import Channels
from highwater.broker.controller.context import ControllerContext
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

_logger = logging.getLogger(__name__)

STOP_REPLICA_VERSION: Final = 4
"""What Kafka 3.9 sends at inter.broker.protocol.version=3.9."""

Answered = Callable[[BrokerInfo, Any], None]


class RequestBatch:
    def __init__(
        self,
        controller_id: int,
        listener_name: str,
        context: ControllerContext,
        channels: Channels,
        *,
        leader_and_isr_answered: Answered,
        stop_replica_answered: Callable[[BrokerInfo, Any, set[TopicPartition]], None],
        update_metadata_answered: Answered,
    ) -> None:
        """`stop_replica_answered` gets the partitions that were to be deleted too."""
        self._controller_id = controller_id
        self._listener_name = listener_name
        self._context = context
        self._channels = channels
        self._leader_and_isr_answered = leader_and_isr_answered
        self._stop_replica_answered = stop_replica_answered
        self._update_metadata_answered = update_metadata_answered
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        """The partitions for each broker, and whether their replicas are new there."""
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}
        """The partitions for each broker, and whether their replicas are to be deleted."""
        self._informed: set[int] = set()
        """Who gets UpdateMetadata."""
        self._is_for_all = False
        """Whether everybody does."""
        self._told: dict[TopicPartition, None] = {}

    # Gathering

    def add_leader_and_isr(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Send the partition's leader to these brokers, and to all by UpdateMetadata."""
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[partition] = is_new or partitions.get(partition, False)
        self._told[partition] = None
        self._is_for_all = True

    def add_stop_replica(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_to_be_deleted: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._stop_replica.setdefault(broker_id, {})
            partitions[partition] = is_to_be_deleted or partitions.get(partition, False)

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send these brokers the live brokers, and these partitions."""
        self._informed.update(broker_ids)
        self._told.update(dict.fromkeys(partitions))

    # Sending

    def send(self) -> None:
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()

    def _send_leader_and_isr(self) -> None:
        wanted, self._leader_and_isr = self._leader_and_isr, {}
        encoded: dict[tuple[TopicPartition, bool], bytes] = {}
        for broker_id, partitions in wanted.items():
            broker = self._context.brokers.get(broker_id)
            if broker is None:
                continue
            leaders: set[int] = set()
            states: dict[str, list[bytes]] = {}
            for key, is_new in partitions.items():
                partition = self._context.get(key)
                if partition is None or partition.leadership is None:
                    continue
                leaders.add(partition.leadership.leader)
                state = encoded.get((key, is_new))
                if state is None:
                    state = encoded[key, is_new] = encoding.leader_and_isr_partition(
                        key[1], partition.leadership, partition.assignment, is_new=is_new
                    )
                states.setdefault(key[0], []).append(state)
            live_leaders: dict[int, Endpoint] = {}
            for leader in sorted(leaders & self._context.brokers.keys()):
                endpoint = self._context.brokers[leader].endpoint(self._listener_name)
                if endpoint is not None:
                    live_leaders[leader] = endpoint
            body = encoding.leader_and_isr(
                self._controller_id, self._context.epoch, broker.epoch, self._topics(states), live_leaders
            )
            self._send(broker, LEADER_AND_ISR, encoding.LEADER_AND_ISR_VERSION, body, self._leader_and_isr_answered)

    def _send_update_metadata(self) -> None:
        informed = set(self._context.brokers) if self._is_for_all else self._informed
        told = self._told
        self._informed, self._is_for_all, self._told = set(), False, {}
        brokers = [self._context.brokers[broker_id] for broker_id in sorted(informed & self._context.brokers.keys())]
        if not brokers:
            return
        topics = self._topics(self._metadata(told))
        live = list(self._context.brokers.values())
        for broker in brokers:
            body = encoding.update_metadata(self._controller_id, self._context.epoch, broker.epoch, topics, live)
            self._send(broker, UPDATE_METADATA, encoding.UPDATE_METADATA_VERSION, body, self._update_metadata_answered)

    def _metadata(self, partitions: Iterable[TopicPartition]) -> dict[str, list[bytes]]:
        is_online = self._context.is_online
        states: dict[str, list[bytes]] = {}
        for key in partitions:
            partition = self._context.get(key)
            if partition is None or partition.leadership is None:
                continue
            leadership = partition.leadership
            if self._context.is_to_be_deleted(key[0]):
                leadership = leadership._replace(leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)
            replicas = partition.assignment.replicas
            offline = tuple([replica for replica in replicas if not is_online(replica, key)])
            states.setdefault(key[0], []).append(encoding.metadata_partition(key[1], leadership, replicas, offline))
        return states

    def _send_stop_replica(self) -> None:
        wanted, self._stop_replica = self._stop_replica, {}
        for broker_id, partitions in wanted.items():
            broker = self._context.brokers.get(broker_id)
            if broker is None:
                continue
            states: dict[str, list[cold.Answer]] = {}
            for key, is_to_be_deleted in partitions.items():
                state = {
                    "partition_index": key[1],
                    "leader_epoch": self._context.leader_epoch_to_stop(key),
                    "delete_partition": is_to_be_deleted,
                }
                states.setdefault(key[0], []).append(state)
            fields = {
                "controller_id": self._controller_id,
                "controller_epoch": self._context.epoch,
                "broker_epoch": broker.epoch,
                "topic_states": [
                    {"topic_name": topic, "partition_states": topic_states} for topic, topic_states in states.items()
                ],
            }
            deleted = {key for key, is_to_be_deleted in partitions.items() if is_to_be_deleted}

            def answered(broker: BrokerInfo, answer: Any, deleted: set[TopicPartition] = deleted) -> None:
                self._stop_replica_answered(broker, answer, deleted)

            self._send(broker, STOP_REPLICA, STOP_REPLICA_VERSION, fields, answered)

    def _topics(self, states: Mapping[str, list[bytes]]) -> list[encoding.TopicStates]:
        topics = self._context.topics
        return [encoding.TopicStates(name, topics[name].topic_id, partitions) for name, partitions in states.items()]

    def _send(
        self, broker: BrokerInfo, api_key: int, version: int, body: cold.Answer | bytes, answered: Answered
    ) -> None:
        self._channels.send(broker.broker_id, api_key, version, body, lambda answer: answered(broker, answer))
