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
    in_flight: int = 1
    """Batches of a partition from the first one that is undecided on: a broker knows the last five of a producer."""
    shares_requests: bool = False
    """Whether batches for several partitions go in one request, as Java's client sends them."""


class _Batch:
    def __init__(self, key: TopicPartition, position: int, values: list[bytes], content: bytes) -> None:
        self.key = key
        self.position = position
        self.values = values
        self.content = content
        self.is_under_way = False
        self.is_first = True
        """Whether no batch of its partition was undecided before it when it was sent."""


class Producer(Client):
    """Sends batches again until their fate is known. Those of a partition are sent in the order of their sequence.

    What was sent behind a batch that failed is out of order then, and is sent again too. A leader that does not know a
    producer takes any sequence number, so the first batch of a partition goes alone.
    """

    def __init__(self, cluster: Cluster, number: int, settings: ProducerSettings) -> None:
        super().__init__(cluster, f"producer{number}")
        self._settings = settings
        self._producer_id = _FIRST_PRODUCER_ID + number
        self._prefix = (IDEMPOTENT if settings.is_idempotent else b"p") + b"%d" % number
        self._next_number: dict[TopicPartition, int] = {}
        self._undecided: dict[TopicPartition, list[_Batch]] = {}
        self._made_count: dict[TopicPartition, int] = {}
        self._known_to: set[TopicPartition] = set()
        """Partitions that have acknowledged a batch."""
        self._pausing: set[TopicPartition] = set()
        """Partitions with batches that are to be sent again."""
        self.acknowledged = 0
        self.is_stopped = False
        self._tick()

    @property
    def is_idle(self) -> bool:
        return not any(self._undecided.values())

    def _tick(self) -> None:
        if self.is_stopped:
            return
        rng, most = self.cluster.world.rng, self._settings.in_flight
        made = []
        for _ in range(1 if most == 1 else rng.randint(1, 2 * most)):
            key = rng.choice(self.cluster.keys)
            under_way = self._undecided.setdefault(key, [])
            goes_alone = self._settings.is_idempotent and key not in self._known_to
            last = self._made_count.get(key, 0)
            first = under_way[0].position if under_way else last
            if key not in self._pausing and last - first < (1 if goes_alone else most):
                made.append(self._made(key))
                under_way.append(made[-1])
        self._send(made)
        self.process.call_later(rng.randint(1, 2 * self._settings.interval_ms), self._tick)

    def _made(self, key: TopicPartition) -> _Batch:
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
        position = self._made_count.get(key, 0)
        self._made_count[key] = position + 1
        return _Batch(key, position, values, batch)

    def _send(self, batches: list[_Batch]) -> None:
        """Send batches in their order; those that nobody leads wait."""
        by_leader: dict[SimulatedPeer, list[_Batch]] = {}
        for batch in batches:
            batch.is_under_way = True
            batch.is_first = batch is self._undecided[batch.key][0]
            found = self.leader_of(batch.key)
            if found is None:
                self._again(batch)
            else:
                by_leader.setdefault(found[0], []).append(batch)
        for peer, its in by_leader.items():
            while its:
                request = [its[0]]
                if self._settings.shares_requests:
                    topic, keys = its[0].key[0], {batch.key: batch for batch in reversed(its)}
                    request = [batch for batch in keys.values() if batch.key[0] == topic]
                its = [batch for batch in its if batch not in request]
                self._request(peer, request)

    def _request(self, peer: SimulatedPeer, batches: list[_Batch]) -> None:
        """Produce the batches, one for each of some partitions of a topic."""
        acks, topic = self._settings.acks, batches[0].key[0]
        contents = [(batch.key[1], batch.content) for batch in batches]
        body = encode_produce(topic, contents, acks=acks, timeout_ms=_REQUEST_TIMEOUT_MS // 2)
        if acks == 0:
            peer.send_unanswered(PRODUCE, PRODUCE_VERSION, [body])
            for batch in batches:
                self._undecided[batch.key].remove(batch)
            return

        def answered(answer: memoryview | PeerFailure) -> None:
            if isinstance(answer, PeerFailure):
                for batch in batches:
                    self._again(batch)
                return
            for batch, produced in zip(batches, decode_produced(answer), strict=True):
                self._decided(batch, *produced)

        peer.send(PRODUCE, PRODUCE_VERSION, [body], answered, timeout_ms=_REQUEST_TIMEOUT_MS)

    def _decided(self, batch: _Batch, error_code: ErrorCode, base_offset: int) -> None:
        undecided = self._undecided[batch.key]
        if error_code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            undecided.remove(batch)
            self._acknowledged(batch, base_offset)
        elif error_code is ErrorCode.out_of_order_sequence_number and not batch.is_first:
            self._again(batch)
        elif error_code in _NEVER_OF_A_SAFE_PRODUCER:
            if self._settings.is_idempotent and not self.cluster.checker.may_lose:
                topic, index = batch.key
                raise Violation(f"{self.name} was told {error_code.name} for {batch.values[0]!r} of {topic}-{index}")
            undecided.remove(batch)
        else:
            self._again(batch)

    def _again(self, batch: _Batch) -> None:
        batch.is_under_way = False
        if batch.key not in self._pausing:
            self._pausing.add(batch.key)
            self.process.call_later(_BACKOFF_MS, lambda: self._send_again(batch.key))

    def _send_again(self, key: TopicPartition) -> None:
        self._pausing.discard(key)
        self._send([batch for batch in self._undecided[key] if not batch.is_under_way])

    def _acknowledged(self, batch: _Batch, base_offset: int) -> None:
        self._known_to.add(batch.key)
        self.acknowledged += len(batch.values)
        if self._settings.acks == -1:
            for number, value in enumerate(batch.values):
                offset = base_offset + number if base_offset >= 0 else -1
                self.cluster.checker.acknowledged(batch.key, value, offset)


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
