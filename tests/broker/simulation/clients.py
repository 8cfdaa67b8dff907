"""Clients of a simulated cluster: they do as real ones do, and tell the checker what they were told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import Endpoint, PeerFailure
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import FETCH, PRODUCE
from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.simulation.checker import IDEMPOTENT, Violation
from tests.broker.simulation.peers import SimulatedPeer, SimulatedPeers
from tests.broker.simulation.wire import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    decode_fetched,
    decode_produced,
    encode_fetch,
    encode_produce,
)
from tests.broker.simulation.world import Process

if TYPE_CHECKING:
    from tests.broker.simulation.cluster import Cluster

_REQUEST_TIMEOUT_MS: Final = 3000
_BACKOFF_MS: Final = 100
_FIRST_PRODUCER_ID: Final = 9000

_NEVER_OF_A_SAFE_PRODUCER: Final = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_record,
    ErrorCode.corrupt_message,
)


class Client:
    """Finds leaders as clients do: by what some broker last heard, which may be out of date."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.process = Process(cluster.world, name)
        self.name = name
        self._peers = SimulatedPeers(cluster.network, self.process, name)
        self._connections: dict[Endpoint, SimulatedPeer] = {}
        self._epochs: dict[TopicPartition, int] = {}

    def leader_of(self, key: TopicPartition) -> tuple[SimulatedPeer, int] | None:
        """A connection to it, and its epoch; None when nobody knows of one."""
        found = self.cluster.look_up(self.name, key)
        if found is None:
            return None
        endpoint, leader_epoch = found
        if leader_epoch < self._epochs.get(key, 0):
            return None  # older than what is known: clients do not believe that (KIP-320)
        self._epochs[key] = leader_epoch
        return self.connection_to(endpoint), leader_epoch

    def connection_to(self, endpoint: Endpoint) -> SimulatedPeer:
        peer = self._connections.get(endpoint)
        if peer is None:
            peer = self._connections[endpoint] = self._peers.connect(endpoint, self.name)
        return peer


class ProducerSettings(NamedTuple):
    acks: int = -1
    is_idempotent: bool = True
    interval_ms: int = 50
    max_records: int = 3


class Producer(Client):
    """One batch under way per partition, sent again until its fate is known."""

    def __init__(self, cluster: Cluster, number: int, settings: ProducerSettings) -> None:
        super().__init__(cluster, f"producer{number}")
        self._settings = settings
        self._producer_id = _FIRST_PRODUCER_ID + number
        self._prefix = (IDEMPOTENT if settings.is_idempotent else b"p") + b"%d" % number
        self._next_number: dict[TopicPartition, int] = {}
        self._busy: set[TopicPartition] = set()
        self.sent = 0
        self.acknowledged = 0
        self.is_stopped = False
        self._tick()

    @property
    def is_idle(self) -> bool:
        return not self._busy

    def _tick(self) -> None:
        if self.is_stopped:
            return
        key = self.cluster.world.rng.choice(self.cluster.keys)
        if key not in self._busy:
            self._produce(key)
        self.process.call_later(self.cluster.world.rng.randint(1, 2 * self._settings.interval_ms), self._tick)

    def _produce(self, key: TopicPartition) -> None:
        settings = self._settings
        first = self._next_number.get(key, 0)
        count = self.cluster.world.rng.randint(1, settings.max_records)
        self._next_number[key] = first + count
        name = b"%s-%d" % (self._prefix, key[1])
        values = [b"%s:%d" % (name, first + number) for number in range(count)]
        records = [Record(value, timestamp_ms=self.process.now_ms()) for value in values]
        batch = bytes(
            encode_batch(records, producer_id=self._producer_id, producer_epoch=0, base_sequence=first)
            if settings.is_idempotent
            else encode_batch(records)
        )
        self.sent += count
        self._busy.add(key)
        self._send(key, values, batch)

    def _send(self, key: TopicPartition, values: list[bytes], batch: bytes) -> None:
        acks = self._settings.acks
        found = self.leader_of(key)
        if found is None:
            self._again(key, values, batch)
            return
        peer, _ = found
        body = encode_produce(*key, batch, acks=acks, timeout_ms=_REQUEST_TIMEOUT_MS // 2)
        if acks == 0:
            peer.send_unanswered(PRODUCE, PRODUCE_VERSION, [body])
            self._busy.discard(key)
            return

        def answered(answer: memoryview | PeerFailure) -> None:
            if isinstance(answer, PeerFailure):
                self._again(key, values, batch)
                return
            error_code, base_offset = decode_produced(answer)
            if error_code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                self._acknowledged(key, values, base_offset)
                return
            if (
                error_code in _NEVER_OF_A_SAFE_PRODUCER
                and self._settings.is_idempotent
                and not self.cluster.checker.may_lose
            ):
                raise Violation(f"{self.name} was told {error_code.name} for {values[0]!r} of {key[0]}-{key[1]}")
            if error_code in _NEVER_OF_A_SAFE_PRODUCER:
                self._busy.discard(key)
                return
            self._again(key, values, batch)

        peer.send(PRODUCE, PRODUCE_VERSION, [body], answered, timeout_ms=_REQUEST_TIMEOUT_MS)

    def _again(self, key: TopicPartition, values: list[bytes], batch: bytes) -> None:
        self.process.call_later(_BACKOFF_MS, lambda: self._send(key, values, batch))

    def _acknowledged(self, key: TopicPartition, values: list[bytes], base_offset: int) -> None:
        self._busy.discard(key)
        self.acknowledged += len(values)
        if self._settings.acks == -1:
            for number, value in enumerate(values):
                self.cluster.checker.acknowledged(key, value, base_offset + number if base_offset >= 0 else -1)


class Consumer(Client):
    """Reads one partition from its start on, and on."""

    def __init__(self, cluster: Cluster, number: int, key: TopicPartition) -> None:
        super().__init__(cluster, f"consumer{number}")
        self.key = key
        self.position = 0
        self._is_stopped = False
        self._poll()

    def _poll(self) -> None:
        if self._is_stopped:
            return
        found = self.leader_of(self.key)
        if found is None:
            self._again()
            return
        peer, leader_epoch = found
        body = encode_fetch(
            *self.key,
            self.position,
            leader_epoch=leader_epoch,
            max_wait_ms=500,
            max_bytes=4096,
            is_committed=False,
        )
        peer.send(FETCH, FETCH_VERSION, [body], self._answered, timeout_ms=_REQUEST_TIMEOUT_MS)

    def _answered(self, answer: memoryview | PeerFailure) -> None:
        if isinstance(answer, PeerFailure):
            self._again()
            return
        fetched = decode_fetched(answer)
        checker = self.cluster.checker
        if fetched.error_code is ErrorCode.offset_out_of_range:
            if not checker.may_lose:
                raise Violation(f"{self.name} was at {self.position} of {self.key}, which is out of range now")
            self.position = 0
        if fetched.error_code:
            self._again()
            return
        for position, header in headers(fetched.records):
            if not header.is_control:
                for record in decode_batch(fetched.records[position:], header):
                    if record.offset >= self.position:
                        checker.consumed(self.key, record.offset, record.value)
            self.position = header.next_offset
        self._poll()

    def _again(self) -> None:
        self.process.call_later(_BACKOFF_MS, self._poll)
