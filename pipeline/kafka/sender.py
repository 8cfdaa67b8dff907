"""Sends batches of an idempotent producer, with several requests in flight to each leader, in order.

A batch that is lost on the way is sent again after all before it: the broker drops a copy by its sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.units import plural, size_text
from highwater.kafka.client.request import Request
from highwater.kafka.records.batch import add_to_sequence
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.kafka import requests
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.connection import UNREACHABLE, BrokerConnection
from highwater.pipeline.kafka.encode import EncodedBatch
from highwater.pipeline.kafka.model import Appended, Producer

IN_FLIGHT_MAX: Final = 5
"""Brokers know the last five batches of a producer in a partition, and drop copies of these."""
REQUEST_BYTES: Final = 1 << 20
"""A request with batches of several partitions is sent at this size."""
FENCED: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
FORGOTTEN: Final = ErrorCode.invalid_producer_id_mapping
"""The error after transactional.id.expiration.ms without a transaction, or if another has the transactional id."""
_SEQUENCE_LOST: Final = frozenset({ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id, FORGOTTEN})


class FencedError(PipelineError):
    """Another producer with the same transactional id took over, or the transaction timed out."""


class RefusedBatchError(PipelineError):
    """A broker did not append a batch."""

    def __init__(self, topic: str, partition: int, what: str) -> None:
        super().__init__(f"{partition_name(topic, partition)}: {what}")
        self.topic = topic
        self.partition = partition
        self.what = what

    def __reduce__(self) -> tuple[type[RefusedBatchError], tuple[str, int, str]]:
        """Spark pickles errors between its processes."""
        return type(self), (self.topic, self.partition, self.what)


class SequenceLostError(RefusedBatchError):
    """The broker knows another sequence of the producer than the sender, or none: a new epoch lets it go on."""


@dataclass(slots=True)
class Written:
    """What a sender has written to a partition, and the sequence of its next record there."""

    record_count: int = 0
    first_offset: int = -1
    """−1 while nothing is acknowledged."""
    last_offset: int = -1
    next_sequence: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    of: TopicPartition
    data: bytes
    record_count: int


class BatchSender:
    """Uses the client alone until `finish` has returned."""

    def __init__(
        self,
        client: Client,
        producer: Producer,
        *,
        transactional_id: str | None = None,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`sequences`: where the producer's sequence stands in partitions that it wrote to before."""
        self._client = client
        self._producer = producer
        self._transactional_id = transactional_id
        self._timeout_ms = round(client.settings.request_timeout_s * 1000)
        self._written: dict[TopicPartition, Written] = {
            of: Written(next_sequence=sequence) for of, sequence in (sequences or {}).items()
        }
        self._connection_of: dict[TopicPartition, BrokerConnection] = {}
        self._waiting: dict[BrokerConnection, dict[TopicPartition, _Batch]] = {}
        """What the next request to each leader is made of."""
        self._in_flight: dict[BrokerConnection, deque[tuple[Request[Any], list[_Batch]]]] = {}

    def send(self, of: TopicPartition, batch: EncodedBatch) -> None:
        """Send a batch now or with others. Raises FencedError, RefusedBatchError or ClientError of this or others."""
        sequence = self._of(of).next_sequence
        data = batch.seal(self._producer, sequence, is_transactional=self._transactional_id is not None)
        self._send(_Batch(of, data, batch.record_count))

    def finish(self) -> dict[TopicPartition, Written]:
        """Wait until everything is acknowledged. Raises as `send` does."""
        for connection in list(self._waiting):
            self._dispatch(connection)
        for connection in list(self._in_flight):
            while self._in_flight.get(connection):
                self._receive(connection)
        return {of: each for of, each in self._written.items() if each.record_count}

    def _of(self, of: TopicPartition) -> Written:
        return self._written.setdefault(of, Written())

    def _send(self, batch: _Batch) -> None:
        written = self._of(batch.of)
        written.next_sequence = add_to_sequence(written.next_sequence, batch.record_count)
        connection = self._client.connection_to_leader(batch.of)
        if connection is None or self._connection_of.get(batch.of, connection) is not connection:
            # What went to the leader before must come first.
            self.finish()
            self._connection_of.clear()
            connection = connection if connection is not None and connection.is_open else None
        if connection is None:
            self._send_again([batch])
            return
        self._connection_of[batch.of] = connection
        waiting = self._waiting.setdefault(connection, {})
        if batch.of in waiting:
            self._dispatch(connection)
            waiting = self._waiting.setdefault(connection, {})
        waiting[batch.of] = batch
        if sum(len(each.data) for each in waiting.values()) >= REQUEST_BYTES:
            self._dispatch(connection)

    def _dispatch(self, connection: BrokerConnection) -> None:
        batches = list(self._waiting.pop(connection, {}).values())
        if not batches:
            return
        while len(self._in_flight.get(connection, ())) >= IN_FLIGHT_MAX:
            self._receive(connection)
        request = requests.produce(
            {each.of: each.data for each in batches},
            transactional_id=self._transactional_id,
            timeout_ms=self._timeout_ms,
        )
        in_flight = self._in_flight.setdefault(connection, deque())
        in_flight.append((request, batches))
        try:
            connection.send(request)
        except UNREACHABLE:
            self._recover(connection)

    def _receive(self, connection: BrokerConnection) -> None:
        """Wait for the oldest answer."""
        in_flight = self._in_flight[connection]
        try:
            request, batches = in_flight[0]
            answers = connection.receive(request, self._timeout_ms)
        except UNREACHABLE:
            self._recover(connection)
            return
        in_flight.popleft()
        failed = self._take(batches, answers)
        if not failed:
            return
        # Later batches of these partitions fail too. All that failed is sent again when no answer is missing.
        while in_flight:
            try:
                request, batches = in_flight[0]
                answers = connection.receive(request, self._timeout_ms)
            except UNREACHABLE:
                break
            in_flight.popleft()
            failed += self._take(batches, answers, after=failed)
        self._recover(connection, failed)

    def _take(
        self, batches: Iterable[_Batch], answers: Mapping[TopicPartition, Appended | BrokerError], after: Any = ()
    ) -> list[_Batch]:
        """Count what was appended; returns what has to be sent again. `after`: batches that failed before."""
        failed = []
        held_up = {each.of for each in after}
        for batch in batches:
            answer = answers[batch.of]
            if isinstance(answer, Appended):
                self._count(batch, answer)
            elif answer.is_retriable or batch.of in held_up:
                failed.append(batch)
            else:
                self._refuse_batch(batch, answer)
        return failed

    def _recover(self, connection: BrokerConnection, failed: Sequence[_Batch] = ()) -> None:
        """Send again what failed or has no answer; the connection may be lost."""
        unanswered = [batch for _, batches in self._in_flight.pop(connection, ()) for batch in batches]
        self._send_again([*failed, *unanswered])

    def _send_again(self, batches: Iterable[_Batch]) -> None:
        for batch in batches:
            answer = self._client.produce(*batch.of, batch.data, transactional_id=self._transactional_id)
            if isinstance(answer, BrokerError):
                self._refuse_batch(batch, answer)
            else:
                self._count(batch, answer)

    def _count(self, batch: _Batch, appended: Appended) -> None:
        written = self._written[batch.of]
        written.record_count += batch.record_count
        if appended.base_offset >= 0:
            # A batch that was appended although its answer was an error is counted late.
            first, last = appended.base_offset, appended.base_offset + batch.record_count - 1
            written.first_offset = first if written.first_offset < 0 else min(first, written.first_offset)
            written.last_offset = max(last, written.last_offset)

    def _refuse_batch(self, batch: _Batch, error: BrokerError) -> None:
        if error.code is ErrorCode.duplicate_sequence_number:
            # An older copy than the broker remembers the place of.
            self._count(batch, Appended(-1, -1))
            return
        if error.code is ErrorCode.message_too_large:
            raise RefusedBatchError(
                *batch.of,
                f"a batch of {plural(batch.record_count, 'record')}, {size_text(len(batch.data))}, is larger than "
                "max.message.bytes of the topic; raise that, or write smaller records",
            )
        self.refuse(batch.of, error)

    def refuse(self, of: TopicPartition, error: BrokerError) -> NoReturn:
        """Raises FencedError, SequenceLostError or RefusedBatchError for what a broker answered about a partition."""
        if error.code in FENCED:
            raise FencedError(f"{partition_name(*of)}: {fenced_text(self._transactional_id, error)}")
        kind = SequenceLostError if error.code in _SEQUENCE_LOST else RefusedBatchError
        raise kind(*of, str(error))


def fenced_text(transactional_id: str | None, error: BrokerError) -> str:
    """Why this producer may not write any more, and the way out."""
    return (
        f"{error.name}: another query or driver writes with the transactional id {transactional_id}, or the "
        "transaction was open for longer than transaction.timeout.ms; give each query an id of its own"
    )
