"""What the brokers are told of one change, gathered so that each gets at most one request of a kind (Kafka's
ControllerBrokerRequestBatch): LeaderAndIsr first, then UpdateMetadata, then StopReplica.

A request is made of what the context knows when the batch is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from broker.cluster.controller.channels import Channels
from broker.cluster.controller.context import ControllerContext
from broker.cluster.peers import SECURITY_PROTOCOLS
from broker.cluster.state import BrokerInfo
from broker.log.checkpoint import TopicPartition
from broker.protocol import cold
from broker.protocol.apis import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

_logger = logging.getLogger(__name__)

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4
"""What Kafka 3.9 sends at inter.broker.protocol.version=3.9."""

_LEADER_DURING_DELETE: Final = -2

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
        """By broker, the partitions, and whether their replicas are new there."""
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}
        """By broker, the partitions, and whether their replicas are to be deleted."""
        self._informed: set[int] = set()
        self._told: dict[TopicPartition, None] = {}

    # Gathering

    def add_leader_and_isr(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Tell these of the partition's leader, and everybody by UpdateMetadata."""
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[partition] = is_new or partitions.get(partition, False)
        self.add_update_metadata(self._context.brokers, [partition])

    def add_stop_replica(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_to_be_deleted: bool) -> None:
        for broker_id in broker_ids:
            partitions = self._stop_replica.setdefault(broker_id, {})
            partitions[partition] = is_to_be_deleted or partitions.get(partition, False)

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Tell these of the brokers that live, and of these partitions."""
        self._informed.update(broker_ids)
        self._told.update(dict.fromkeys(partitions))

    # Sending

    def send(self) -> None:
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()

    def _header(self, broker: BrokerInfo) -> cold.Answer:
        return {
            "controller_id": self._controller_id,
            "controller_epoch": self._context.epoch,
            "broker_epoch": broker.epoch,
        }

    def _send_leader_and_isr(self) -> None:
        wanted, self._leader_and_isr = self._leader_and_isr, {}
        for broker_id, partitions in wanted.items():
            broker = self._context.brokers.get(broker_id)
            if broker is None:
                continue
            leaders: set[int] = set()
            states: dict[str, list[cold.Answer]] = {}
            for key, is_new in partitions.items():
                partition = self._context.get(key)
                if partition is None or partition.leadership is None:
                    continue
                leadership = partition.leadership
                leaders.add(leadership.leader)
                state = {
                    "partition_index": key[1],
                    "controller_epoch": leadership.controller_epoch,
                    "leader": leadership.leader,
                    "leader_epoch": leadership.leader_epoch,
                    "isr": leadership.in_sync_replicas,
                    "partition_epoch": leadership.partition_epoch,
                    "replicas": partition.assignment.replicas,
                    "adding_replicas": partition.assignment.adding,
                    "removing_replicas": partition.assignment.removing,
                    "is_new": is_new,
                    "leader_recovery_state": int(leadership.is_recovering),
                }
                states.setdefault(key[0], []).append(state)
            live_leaders = []
            for leader in sorted(leaders & self._context.brokers.keys()):
                endpoint = self._context.brokers[leader].endpoint(self._listener_name)
                if endpoint is not None:
                    live_leaders.append({"broker_id": leader, "host_name": endpoint.host, "port": endpoint.port})
            fields = self._header(broker) | {"topic_states": self._by_topic(states), "live_leaders": live_leaders}
            self._send(broker, LEADER_AND_ISR, LEADER_AND_ISR_VERSION, fields, self._leader_and_isr_answered)

    def _send_update_metadata(self) -> None:
        informed, self._informed = self._informed, set()
        told, self._told = self._told, {}
        brokers = [self._context.brokers[broker_id] for broker_id in sorted(informed & self._context.brokers.keys())]
        if not brokers:
            return
        fields = {
            "topic_states": self._by_topic(self._metadata(told)),
            "live_brokers": [_broker_fields(broker) for broker in self._context.brokers.values()],
        }
        for broker in brokers:
            every = self._header(broker) | fields
            self._send(broker, UPDATE_METADATA, UPDATE_METADATA_VERSION, every, self._update_metadata_answered)

    def _metadata(self, partitions: Iterable[TopicPartition]) -> dict[str, list[cold.Answer]]:
        states: dict[str, list[cold.Answer]] = {}
        for key in partitions:
            partition = self._context.get(key)
            if partition is None or partition.leadership is None:
                continue
            leadership = partition.leadership
            if self._context.is_to_be_deleted(key[0]):
                leadership = leadership._replace(leader=_LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0)
            replicas = partition.assignment.replicas
            state = {
                "partition_index": key[1],
                "controller_epoch": leadership.controller_epoch,
                "leader": leadership.leader,
                "leader_epoch": leadership.leader_epoch,
                "isr": leadership.in_sync_replicas,
                "zk_version": leadership.partition_epoch,
                "replicas": replicas,
                "offline_replicas": [replica for replica in replicas if not self._context.is_online(replica, key)],
            }
            states.setdefault(key[0], []).append(state)
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
            fields = self._header(broker) | {
                "topic_states": [
                    {"topic_name": topic, "partition_states": topic_states} for topic, topic_states in states.items()
                ]
            }
            deleted = {key for key, is_to_be_deleted in partitions.items() if is_to_be_deleted}

            def answered(broker: BrokerInfo, answer: Any, deleted: set[TopicPartition] = deleted) -> None:
                self._stop_replica_answered(broker, answer, deleted)

            self._send(broker, STOP_REPLICA, STOP_REPLICA_VERSION, fields, answered)

    def _by_topic(self, states: Mapping[str, list[cold.Answer]]) -> list[cold.Answer]:
        return [
            {"topic_name": topic, "topic_id": self._topic_id(topic), "partition_states": topic_states}
            for topic, topic_states in states.items()
        ]

    def _topic_id(self, topic: str) -> UUID:
        return self._context.topics[topic].topic_id

    def _send(self, broker: BrokerInfo, api_key: int, version: int, fields: cold.Answer, answered: Answered) -> None:
        self._channels.send(broker.broker_id, api_key, version, fields, lambda answer: answered(broker, answer))


def _broker_fields(broker: BrokerInfo) -> cold.Answer:
    return {
        "id": broker.broker_id,
        "endpoints": [
            {
                "port": endpoint.port,
                "host": endpoint.host,
                "listener": endpoint.listener_name,
                "security_protocol": SECURITY_PROTOCOLS.index(endpoint.security_protocol),
            }
            for endpoint in broker.endpoints
        ],
        "rack": broker.rack,
    }
