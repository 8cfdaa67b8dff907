"""A member of a group that writes in transactions: its offsets and what it writes change together.

A transaction carries the member's generation (KIP-447). The broker therefore refuses the transaction of a member whose
partitions another one has by now, and a member that gets partitions waits until open transactions on them are decided.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from highwater.common import topic_partition
from highwater.pipeline.messaging.errors import MessagingError, NotCommittedError, RejectedError
from highwater.pipeline.messaging.record import Outgoing, Record

_START_TIMEOUT_S: Final = 60.0
_ANSWER_TIMEOUT_S: Final = 30.0
_GIVE_UP_S: Final = 120.0
"""The start of the next member finds out what became of the transaction."""
_POLL_S: Final = 0.1
_PASSING: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
_NO_SUCH_TOPIC: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_TAKEN_OVER: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_REFUSED: Final = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    *_NO_SUCH_TOPIC,
)

Partition = topic_partition.TopicPartition
OnPartitions = Callable[[list[Partition]], None]


class Exchange:
    """The consumer and the producer of one process. The caller passes what was read to `commit`, or reads it again."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group: str,
        name: str | None,
        *,
        on_assign: OnPartitions | None = None,
        on_revoke: OnPartitions | None = None,
        joins: bool = True,
    ) -> None:
        """`name` is one of a kind in the group: a second member of a name ends the first. Raises MessagingError.

        A member that starts with its former name goes on at once. One without a name waits, after a kill, until the
        session and the transaction of its predecessor have timed out. One that does not join is alone by its name, and
        only commits offsets.
        """
        self._who = f"{group}, member {name}" if name else group
        self._joins = joins
        self._on_assign = on_assign
        self._on_revoke = on_revoke
        self._rebalances = 0
        try:
            self._producer = Producer(_producer_settings(client, group, name))
            self._producer.init_transactions(_START_TIMEOUT_S)
            self._consumer = Consumer(_consumer_settings(client, group, name if joins else None))
        except KafkaException as failure:
            raise self._ending(failure) from None

    def subscribe(self, topics: Sequence[str]) -> None:
        """A name that begins with ^ is a pattern."""
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def close(self) -> None:
        """Leave the group; what is not committed is aborted."""
        self._consumer.close()

    # Reading

    def read(self, timeout_s: float, most: int) -> list[Record]:
        """Return what has arrived, after `timeout_s` at the latest. Raises MessagingError."""
        messages: list[Message] = []
        wait_s = max(0.0, timeout_s)
        try:
            # One by one: a rebalance between two of them must not leave what came before it, as its partitions may be
            # another member's now. Their next owner reads it, from what is committed.
            while len(messages) < most:
                before = self._rebalances
                message = self._consumer.poll(wait_s)
                if self._rebalances != before:
                    messages.clear()
                if message is None:
                    break
                messages.append(message)
                wait_s = 0.0
            return list(self._records(messages))
        except KafkaException as failure:
            raise self._ending(failure) from None

    def _records(self, messages: Iterable[Message]) -> Iterable[Record]:
        for message in messages:
            error = message.error()
            if error is None:
                yield record_of(message)
            elif error.code() not in (*_PASSING, *_NO_SUCH_TOPIC) and not error.retriable():
                raise self._ending(KafkaException(error))

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*each) for each in partitions])

    def assigned(self) -> list[Partition]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The committed offsets, once the transactions that are open on them are decided; −1 where there is none."""
        try:
            found = self._consumer.committed([TopicPartition(*each) for each in partitions], _START_TIMEOUT_S)
        except KafkaException as failure:
            raise self._ending(failure) from None
        return {(each.topic, each.partition): max(-1, each.offset) for each in found}

    def start_at(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions, which are all that this member has, from these offsets on."""
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])

    # Writing

    def commit(self, outgoing: Sequence[Outgoing], offsets: Mapping[Partition, int]) -> None:
        """Write these records, and the offsets to read next, in one transaction.

        Raises NotCommittedError or RejectedError if nothing of it is written, MessagingError if this member cannot go
        on.
        """
        failures: dict[int, KafkaError] = {}
        if self._joins and not self._consumer.memberid():
            # Brokers take offsets without a member for those of an older client, and check no generation.
            raise NotCommittedError(
                f"{self._who}: this member was removed from the group, as it did not poll for so long"
            )
        try:
            self._producer.begin_transaction()
            for index, each in enumerate(outgoing):
                self._produce(each, index, failures)
            positions = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
            metadata = self._consumer.consumer_group_metadata()
            self._repeat(lambda: self._producer.send_offsets_to_transaction(positions, metadata, _ANSWER_TIMEOUT_S))
            self._producer.flush(_ANSWER_TIMEOUT_S)
            self._repeat(lambda: self._producer.commit_transaction(_ANSWER_TIMEOUT_S))
        except KafkaException as failure:
            self._abort(failure)
            refused = {
                index: f"{outgoing[index].topic}: {error.str()}"
                for index, error in failures.items()
                if error.code() in _REFUSED
            }
            if refused:
                raise RejectedError(refused) from None
            raise NotCommittedError(f"{self._who}: {_text(failure)}") from None

    def _produce(self, outgoing: Outgoing, index: int, failures: dict[int, KafkaError]) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures[index] = error

        while True:
            try:
                self._producer.produce(**outgoing.arguments(), on_delivery=delivered)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(_POLL_S)
            except KafkaException as failure:
                failures[index] = failure.args[0]
                raise

    def _repeat(self, step: Callable[[], object]) -> None:
        """Repeat a step after a time-out: the broker may have carried it out, but it is safe to repeat."""
        deadline_s = time.monotonic() + _GIVE_UP_S
        while True:
            try:
                step()
                return
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
                if time.monotonic() > deadline_s:
                    raise MessagingError(f"{self._who}: no answer for {_GIVE_UP_S:.0f} s: {_text(failure)}") from None

    def _abort(self, failure: KafkaException) -> None:
        if failure.args[0].fatal():
            raise self._ending(failure) from None
        try:
            self._producer.purge()
            self._producer.flush(_POLL_S)
            self._repeat(lambda: self._producer.abort_transaction(_ANSWER_TIMEOUT_S))
        except KafkaException as second:
            raise self._ending(second) from None

    def _ending(self, failure: KafkaException) -> MessagingError:
        error: KafkaError = failure.args[0]
        if error.code() in (*_TAKEN_OVER, KafkaError.FENCED_INSTANCE_ID):
            return MessagingError(f"{self._who}: another one of this name has taken over; give each its own name")
        return MessagingError(f"{self._who}: {_text(failure)}")

    # Partitions

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalances += 1
        if self._on_assign is not None:
            self._on_assign([(each.topic, each.partition) for each in partitions])

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalances += 1
        if self._on_revoke is not None:
            self._on_revoke([(each.topic, each.partition) for each in partitions])


def _producer_settings(client: Mapping[str, Any], group: str, name: str | None) -> dict[str, Any]:
    return {
        "log_level": 0,
        **client,
        "transactional.id": f"highwater-{group}-{name or uuid.uuid4().hex}",
        "transaction.timeout.ms": 20_000,
        "linger.ms": 0,
        # As Java's clients choose it: records of a key stay together, whoever wrote them.
        "partitioner": "murmur2_random",
        # max.message.bytes of the topics limits records, not this client.
        "message.max.bytes": 1_000_000_000,
    }


def _consumer_settings(client: Mapping[str, Any], group: str, name: str | None) -> dict[str, Any]:
    settings = {
        "log_level": 0,
        "session.timeout.ms": 10_000,
        **client,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        # A member gets the same partition numbers of topics that have equally many.
        "partition.assignment.strategy": "range",
        "topic.metadata.refresh.interval.ms": 5_000,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 10,
        "queued.max.messages.kbytes": 16_384,
    }
    return settings if name is None else settings | {"group.instance.id": name}


def record_of(message: Message) -> Record:
    headers: Any = message.headers() or ()
    topic: Any = message.topic()
    partition: Any = message.partition()
    offset: Any = message.offset()
    return Record(
        topic,
        partition,
        offset,
        max(0, message.timestamp()[1]),
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((name, _bytes(value)) for name, value in headers),
    )


def _bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _text(failure: KafkaException) -> str:
    error: KafkaError = failure.args[0]
    return f"{error.str().rstrip('.')} ({error.name()})"
