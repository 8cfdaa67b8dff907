"""Sends the stored verdicts to a topic, each once: records and how far they reach are one transaction."""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from highwater.bench.telemetry.control import ControlTopic
from highwater.common.errors import UsageError
from highwater.studies.telemetry.store import Store
from highwater.studies.telemetry.verdicts import record_of

TOPIC: Final = "hw.verdicts"
PARTITIONS: Final = 1
"""One, so that readers get all verdicts in the order of their seconds; there are a few each second."""
_ANSWER_S: Final = 30.0
_TRIES: Final = 3
_RECORDS_PER_TRANSACTION_MAX: Final = 10_000


class VerdictTopic:
    """One for each store; a second one fences the first. Context manager.

    A store has numbered its verdicts. The number after the last one that was sent is kept as the offset of a group,
    which has the name of the transactional id, in the transaction of the records. After a crash, sending goes on there.
    """

    def __init__(self, control: ControlTopic, store: Store) -> None:
        """`control` has the topic of the verdicts. Raises UsageError."""
        self._control = control
        self._store = store
        name = f"highwater-verdicts-{store.own_id()}"
        client = {**control.connection, "bootstrap.servers": control.bootstrap_servers, "log_level": 0}
        self._producer = Producer({**client, "transactional.id": name, "linger.ms": 0})
        self._group = Consumer({**client, "group.id": name, "enable.auto.commit": False})
        try:
            # What an earlier process left open ends here, so the number that is read next is final.
            self._producer.init_transactions(_ANSWER_S)
            (found,) = self._group.committed([TopicPartition(control.topic, 0)], timeout=_ANSWER_S)
        except KafkaException as error:
            self._group.close()
            raise self._refusal(error) from error
        self._next = max(0, found.offset)

    def __enter__(self) -> VerdictTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self._group.close()

    def send_new(self) -> None:
        """Send the verdicts that are stored and not on the topic yet. Raises UsageError; the next start goes on."""
        while rows := self._store.verdicts_from(self._next, _RECORDS_PER_TRANSACTION_MAX):
            after = rows[-1][0] + 1
            records = [record_of(verdict) for _, verdict in rows]
            for left in reversed(range(_TRIES)):
                try:
                    self._transaction(records, after)
                    break
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort() or not left:
                        raise self._refusal(error) from error
                    self._abort()
            self._next = after

    def _transaction(self, records: list[tuple[bytes, bytes]], after: int) -> None:
        producer, topic = self._producer, self._control.topic
        producer.begin_transaction()
        for key, value in records:
            producer.produce(topic, value, key, partition=0)
        position = TopicPartition(topic, 0, after)
        producer.send_offsets_to_transaction([position], self._group.consumer_group_metadata(), _ANSWER_S)
        for left in reversed(range(_TRIES)):
            try:
                producer.commit_transaction(_ANSWER_S)
                return
            except KafkaException as error:
                # Whether it was committed is not known before a call of the same function says so.
                if not error.args[0].retriable() or not left:
                    raise

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            raise self._refusal(error) from error

    def _refusal(self, error: KafkaException) -> UsageError:
        return UsageError(
            f"verdicts cannot be sent to topic {self._control.topic} at {self._control.bootstrap_servers}: "
            f"{error.args[0].str()}; they are stored, and the next start with the same --state sends them"
        )
