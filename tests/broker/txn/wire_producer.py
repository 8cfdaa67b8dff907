"""A transactional producer over sockets, of version 1 or 2 of transactions, that asks again as Kafka's clients do.

Confluent's client and most others are of version 1: they add partitions themselves, and an end leaves their epoch as it
is. In version 2 the brokers add partitions, and each end raises the epoch (KIP-890). Everything here waits for its
answer, one request after another.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.txn.transaction import NO_PRODUCER, Producer
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.records.record import TRANSACTIONS_2, Record, encode_batch
from tests.broker.handlers.harness import decode_answer, request_frame

_ANSWER_S: Final = 10.0
_PAUSE_S: Final = 0.02
_GROUP: Final = 0
_TRANSACTION: Final = 1
_RETRIABLE: Final = frozenset(
    (
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    )
)


class RefusedError(Exception):
    """An answer after which no client asks the same again."""

    def __init__(self, request: str, error: ErrorCode) -> None:
        super().__init__(f"{request}: {error.name}")
        self.error = error


class Wire:
    """Connections to brokers by address, opened when they are used and given up when they fail."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}

    def ask(self, address: str, name: str, version: int, /, **fields: Any) -> Any:
        """Raises OSError; the next request has a new connection then."""
        try:
            if address not in self._sockets:
                host, _, port = address.rpartition(":")
                self._sockets[address] = socket.create_connection((host, int(port)), _ANSWER_S)
            connection = self._sockets[address]
            frame = request_frame(name, version, **fields)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            size = _received(connection, 4)
            return decode_answer(name, version, [size + _received(connection, *struct.unpack(">i", size))])
        except OSError:
            if (failed := self._sockets.pop(address, None)) is not None:
                failed.close()
            raise

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return data


class WireProducer:
    def __init__(self, bootstrap: str, transactional_id: str, version: int = TRANSACTIONS_2, *, within_s: float = 120):
        """`bootstrap`: host:port, several with commas. A request is repeated for `within_s` at most."""
        self.now = NO_PRODUCER
        """The producer of the next request."""
        self._name = transactional_id
        self._is_2 = version >= TRANSACTIONS_2
        self._bootstrap = bootstrap.split(",")
        self._within_s = within_s
        self.wire = Wire()
        self._coordinators: dict[tuple[int, str], str] = {}
        self._leaders: dict[TopicPartition, str] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()

    def close(self) -> None:
        self.wire.close()

    def init(self, timeout_ms: int = 60_000) -> None:
        """Begin as a new instance, which fences earlier ones."""
        answer = self._of_coordinator(
            _TRANSACTION,
            self._name,
            "init_producer_id",
            4,
            transactional_id=self._name,
            transaction_timeout=timeout_ms,
        )
        self._begin(Producer(answer.producer_id, answer.producer_epoch))

    def write(self, topic: str, partition: int, *values: bytes) -> None:
        key = (topic, partition)
        if not self._is_2 and key not in self._added:
            self._add(key)
        sequence = self._sequences.get(key, 0)
        records = encode_batch(
            [Record(value, timestamp_ms=time.time_ns() // 1_000_000) for value in values],
            producer_id=self.now.producer_id,
            producer_epoch=self.now.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        fields: dict[str, Any] = {
            "transactional_id": self._name,
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": bytes(records)}]}],
        }

        def attempt() -> Any:
            answer = self.wire.ask(self._leader(key), "produce", 12 if self._is_2 else 11, **fields)
            return answer.responses[0].partition_responses[0]

        self._until_answered("produce", attempt)
        self._sequences[key] = sequence + len(values)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Add offsets of a group to the transaction, as a client that is no member of it."""
        ids = {"transactional_id": self._name, "producer_id": self.now.producer_id, "producer_epoch": self.now.epoch}
        if not self._is_2:
            self._of_coordinator(_TRANSACTION, self._name, "add_offsets_to_txn", 3, **ids, group_id=group)
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(topic, []).append(entry)
        told = [{"name": topic, "partitions": entries} for topic, entries in topics.items()]
        version = 5 if self._is_2 else 3
        self._of_coordinator(_GROUP, group, "txn_offset_commit", version, **ids, group_id=group, topics=told)

    def end(self, *, is_commit: bool = True) -> None:
        answer = self._of_coordinator(
            _TRANSACTION,
            self._name,
            "end_txn",
            5 if self._is_2 else 4,
            transactional_id=self._name,
            producer_id=self.now.producer_id,
            producer_epoch=self.now.epoch,
            committed=is_commit,
        )
        self._added.clear()
        if self._is_2:
            self._begin(Producer(answer.producer_id, answer.producer_epoch))

    def _begin(self, producer: Producer) -> None:
        self.now = producer
        self._sequences.clear()
        self._added.clear()

    def _add(self, key: TopicPartition) -> None:
        self._of_coordinator(
            _TRANSACTION,
            self._name,
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self.now.producer_id,
            v3_and_below_producer_epoch=self.now.epoch,
            v3_and_below_topics=[{"name": key[0], "partitions": [key[1]]}],
        )
        self._added.add(key)

    # Asking

    def _of_coordinator(self, kind: int, key: str, name: str, version: int, /, **fields: Any) -> Any:
        return self._until_answered(name, lambda: self.wire.ask(self._coordinator(kind, key), name, version, **fields))

    def _until_answered(self, name: str, attempt: Any) -> Any:
        deadline_s = time.monotonic() + self._within_s
        failure: object = None
        while time.monotonic() < deadline_s:
            try:
                answer = attempt()
                error = max(_errors(answer), default=ErrorCode.none)
            except OSError as lost:
                failure = lost
                self._forget()
            else:
                if error is ErrorCode.none:
                    return answer
                if error not in _RETRIABLE:
                    raise RefusedError(name, error)
                failure = error.name
                if error is not ErrorCode.concurrent_transactions:
                    self._forget()
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{name} of {self._name}: not within {self._within_s:g} s: {failure}")

    def _forget(self) -> None:
        self._coordinators.clear()
        self._leaders.clear()

    def _coordinator(self, kind: int, key: str) -> str:
        """Raises OSError."""
        if (kind, key) not in self._coordinators:
            answer = self._of_anybody("find_coordinator", 3, key=key, key_type=kind)
            if answer.error_code:
                raise ConnectionError(answer.error_code.name)
            self._coordinators[kind, key] = f"{answer.host}:{answer.port}"
        return self._coordinators[kind, key]

    def _leader(self, key: TopicPartition) -> str:
        """Raises OSError."""
        if key not in self._leaders:
            answer = self._of_anybody("metadata", 9, topics=[{"name": key[0]}], allow_auto_topic_creation=False)
            brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.leader_id in brokers:
                        self._leaders[topic.name, partition.partition_index] = brokers[partition.leader_id]
        if key not in self._leaders:
            raise ConnectionError(f"{key} has no leader")
        return self._leaders[key]

    def _of_anybody(self, name: str, version: int, /, **fields: Any) -> Any:
        failure = OSError("no broker is named")
        for address in self._bootstrap:
            try:
                return self.wire.ask(address, name, version, **fields)
            except OSError as lost:
                failure = lost
        raise failure


def _errors(answer: Any) -> list[ErrorCode]:
    """The errors of all levels of an answer."""
    if isinstance(answer, tuple):
        return [error for item in answer for error in _errors(item)]
    if not hasattr(answer, "__dataclass_fields__"):
        return []
    values = {name: getattr(answer, name) for name in answer.__dataclass_fields__}
    told = [ErrorCode(value) for name, value in values.items() if name.endswith("error_code") and value]
    return told + [error for value in values.values() for error in _errors(value)]
