"""The cluster as an action asks it: one client, which finds the controller and coordinators."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka import finding
from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request, error_text
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.requests.answered import Answered
from highwater.kafka.requests.find_coordinator import GROUP
from highwater.kafka.requests.list_offsets import all_at, list_offsets
from highwater.kafka.requests.list_partition_reassignments import Move, list_partition_reassignments
from highwater.kafka.requests.metadata import ClusterRow, PartitionRow, TopicRow, metadata
from highwater.monitor.actions.plan import ActionError
from highwater.monitor.kafka_source.parts import refusal

Answer = TypeVar("Answer")
TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 0.2


class ActionCluster:
    """For one action in one thread. Everything raises ActionError."""

    def __init__(self, settings: ClientSettings) -> None:
        self._client = BlockingClient(settings)
        self._deadline_s = time.monotonic() + TIMEOUT_S
        self._row: ClusterRow | None = None

    def close(self) -> None:
        self._client.close()

    @property
    def row(self) -> ClusterRow:
        """Metadata, as new as the action."""
        if self._row is None:
            try:
                self._row = self._client.ask_any(metadata())
            except ClientError as error:
                raise ActionError(f"The cluster does not answer: {error}.") from None
        return self._row

    @property
    def alive(self) -> list[int]:
        return sorted(broker.node_id for broker in self.row.brokers)

    def topic(self, name: str) -> TopicRow:
        found = next((topic for topic in self.row.topics if topic.name == name), None)
        if found is None:
            raise ActionError(f"There is no topic {name!r}.")
        if found.error_code:
            raise ActionError(f"Topic {name}: {refusal(found.error_code)}.")
        return found

    def partitions(self, topic: str, numbers: Collection[int]) -> list[PartitionRow]:
        """All of the topic's if `numbers` is empty."""
        rows = {row.partition: row for row in self.topic(topic).partitions}
        if strange := [number for number in numbers if number not in rows]:
            raise ActionError(f"Topic {topic} has no partition {strange[0]}; it has {len(rows)}, from 0 on.")
        return [rows[number] for number in sorted(numbers or rows)]

    def ask(self, node_id: int, request: Request[Answer]) -> Answer:
        for broker in self.row.brokers:
            if broker.node_id == node_id:
                return self.ask_at((broker.host, broker.port), request)
        raise ActionError(f"There is no broker {node_id} now; there are {', '.join(map(str, self.alive))}.")

    def ask_at(self, address: Address, request: Request[Answer]) -> Answer:
        try:
            return self._client.ask(address, request, max(0.1, self._left_s))
        except ClientError as error:
            raise ActionError(f"The broker does not answer: {error}.") from None

    def ask_controller(self, request: Request[finding.Sent]) -> finding.Sent:
        """Send the request to the controller; waits while an election goes on."""
        try:
            return finding.ask_controller(self._client, request, self._left_s)
        except ClientError as error:
            raise ActionError(f"The controller does not answer: {error}.") from None

    def moves(self) -> Mapping[TopicPartition, Move]:
        """Moves of replicas that are under way."""
        answer = self.ask_controller(list_partition_reassignments(int(TIMEOUT_S * 1000)))
        if answer.error:
            raise ActionError(f"The controller does not list the moves: {answer.error}.")
        return answer.moves

    def ask_coordinator(self, group: str, request: Request[Answered]) -> Answered:
        while True:
            answer = self.ask_at(self.coordinator(group), request)
            if not answer.is_elsewhere or not self._left_s:
                return answer
            time.sleep(_RETRY_S)

    def coordinator(self, group: str) -> Address:
        try:
            found = finding.coordinator_of(self._client, group, GROUP, self._left_s)
        except ClientError as error:
            raise ActionError(f"The broker does not answer: {error}.") from None
        if found.error_code:
            why = error_text(found.error_code, found.detail)
            raise ActionError(f"No coordinator of group {group!r} can be found: {why}.")
        return found.host, found.port

    def offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return the offsets that leaders report; -1 where no record is as late as `timestamp`."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, number in sorted(partitions):
            (row,) = self.partitions(topic, [number])
            by_leader.setdefault(row.leader, {}).setdefault(topic, []).append(number)
        found: dict[TopicPartition, int] = {}
        for leader, wanted in by_leader.items():
            if leader < 0:
                topic, numbers = next(iter(wanted.items()))
                raise ActionError(
                    f"{partition_name(topic, numbers[0])} has no leader now, so its offsets are not known."
                )
            found |= self._listed(leader, wanted, timestamp)
        return found

    def _listed(self, leader: int, wanted: Mapping[str, list[int]], timestamp: int) -> dict[TopicPartition, int]:
        found = {}
        for topic, listed in self.ask(leader, list_offsets(all_at(wanted, timestamp))).items():
            for number, each in listed.items():
                if each.error_code:
                    name = partition_name(topic, number)
                    raise ActionError(f"{name}: its leader does not return its offsets: {refusal(each.error_code)}.")
                found[topic, number] = each.offset
        return found

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline_s - time.monotonic())
