"""A consumer that writes results and offsets in one transaction of a database, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.consumer.offsets_table import OffsetsError, OffsetsTable, Stored
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.database.address import read_address
from highwater.pipeline.database.dialect import Connection, Cursor
from highwater.pipeline.database.dialects import dialect_of
from highwater.pipeline.database.session import plainly
from highwater.pipeline.errors import ClientError, PipelineError, SettingsError
from highwater.pipeline.kafka.admission import check_admission

Write: TypeAlias = Callable[[Cursor, Sequence[Message]], object]

_OURS: Final = {
    "group.id": "it is the name of the consumer",
    "enable.auto.commit": "offsets are in the database",
    "enable.auto.offset.store": "offsets are in the database",
    "auto.offset.reset": "give start",
    "enable.partition.eof": "the end of a partition is not a record",
    "partition.assignment.strategy": "a rebalance takes all partitions anew, which keeps earlier owners from writing",
    "group.protocol": "a rebalance takes all partitions anew, which keeps earlier owners from writing",
}
_SETTINGS: Final = {
    "enable.auto.commit": False,
    # Records that retention removed before they were read are an error, and not a jump.
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
}
_ANSWER_S: Final = 30.0
_PASSING: Final = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)


class LostError(PipelineError):
    """Records are gone that were to be read."""


class Consumer:
    """Reads topics as a member of a group, and writes each record's results exactly once.

    ```
    with Consumer({"bootstrap.servers": "127.0.0.1:9092"}, ["orders"], "sqlite:orders.db", name="totals") as consumer:
        consumer.run(write)
    ```

    `write(cursor, records)` gets a cursor of the database and records of any of the partitions. What it executes there
    is committed together with the offsets, or not at all. It must not commit itself, and must not write elsewhere.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        url: str,
        *,
        name: str,
        start: Literal["earliest", "latest"] = "earliest",
        records_max: int = 1000,
    ) -> None:
        """Raises PipelineError if the database cannot be reached, brokers do not let it in, or a setting cannot work.

        settings: of librdkafka. name: of the group, and of its rows in the database. start: of a partition that has no
        row yet. records_max: of one transaction.
        """
        if wrong := next((each for each in settings if each in _OURS), None):
            raise SettingsError(f"{wrong} cannot be set: {_OURS[wrong]}")
        if isinstance(topics, str) or not topics:
            raise SettingsError(f"topics is a list of names, and this is {topics!r}")
        if start not in ("earliest", "latest"):
            raise SettingsError(f"start={start} is neither earliest nor latest")
        self._dialect = dialect_of(read_address(url))
        self._offsets = OffsetsTable(self._dialect, name)
        self._name = name
        self._topics = list(topics)
        self._starts_at_end = start == "latest"
        self._records_max = records_max
        self._owned: dict[TopicPartition, Stored] = {}
        self._failure: Exception | None = None
        self._connection: Connection | None = None
        self._must_return = False
        cursor = self._open().cursor()
        with plainly(self._dialect, "did not give its offsets"):
            self._offsets.create(cursor)
            self._open().commit()
        try:
            self._admin = AdminClient(dict(settings))
            check_admission(self._admin, settings)
            self._kafka = KafkaConsumer({**_SETTINGS, **settings, "group.id": name})
        except KafkaException as error:
            raise SettingsError(f"the settings of the consumer cannot work: {error.args[0].str()}") from None
        self._subscribe()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group. Nothing is committed here: all that is finished has been."""
        self._kafka.close()
        self._disconnect()

    def run(self, write: Write, *, until: Callable[[], bool] = lambda: False) -> None:
        """Read and write until `until()` is true, which is asked about once a second. Raises as `once` does."""
        while not until():
            self.once(write)

    def once(self, write: Write, *, wait_s: float = 1.0) -> int:
        """Wait for records and write them in one transaction; returns how many, 0 if none came.

        Raises PipelineError, and what `write` raises. Nothing of these records is written then, and the next call
        reads them again.
        """
        if self._must_return:
            self._return_to_stored()
        # Whatever fails from here on, the records that were polled are behind us.
        self._must_return = True
        records = self._poll(wait_s)
        if records and not self._is_of_known_topics(records):
            return 0
        count = self._in_one_transaction(records, write) if records else 0
        self._must_return = False
        if count:
            self._show_lag()
        return count

    def _poll(self, wait_s: float) -> list[Message]:
        polled = self._kafka.consume(self._records_max, wait_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        records = []
        for each in polled:
            error = each.error()
            if error is None:
                records.append(each)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise LostError(
                    f"consumer {self._name}: {partition_name(str(each.topic()), int(each.partition() or 0))} no longer "
                    f"has the offset to read next: {error.str()}; retention removed records before they were read"
                )
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise ClientError(f"consumer {self._name}: {error.str()}")
        return records

    def _is_of_known_topics(self, records: Iterable[Message]) -> bool:
        """Whether it is sure that no topic was created again before these records were read; False: try again.

        librdkafka reads on in the new topic at the offset where it stood in the old one. An id never comes back, so
        that a topic which has its old id now has not changed before. Raises OffsetsError.
        """
        try:
            ids = self._topic_ids({str(each.topic()) for each in records})
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() in _PASSING:
                return False
            raise ClientError(f"consumer {self._name}: {error.args[0].str()}") from None
        for (topic, _), owned in self._owned.items():
            self._check_id(topic, owned.topic_id, ids.get(topic, ""))
        return True

    def _check_id(self, topic: str, stored: str, found: str) -> None:
        if stored and found and stored != found:
            raise OffsetsError(
                f"consumer {self._name}: topic {topic} was deleted and created again since its offsets were stored: "
                "delete the rows of the old topic, or use another name"
            )

    def _in_one_transaction(self, records: Iterable[Message], write: Write) -> int:
        by_partition: dict[TopicPartition, list[Message]] = {}
        for each in records:
            by_partition.setdefault((str(each.topic()), int(each.partition() or 0)), []).append(each)
        connection = self._open()
        reach(CrashPoint.SINK_BEGINS)
        try:
            with plainly(self._dialect, "did not take records"):
                self._dialect.begin(connection)
                reach(CrashPoint.SINK_BEGUN)
                cursor = connection.cursor()
                kept: list[Message] = []
                after: dict[TopicPartition, Stored] = {}
                # In one order, so that two members never wait for each other.
                for of, found in sorted(by_partition.items(), key=lambda each: each[0]):
                    owned = self._owned.get(of)
                    stored = self._offsets.locked(cursor, of)
                    if owned is None or stored.epoch != owned.epoch:
                        # Another member has taken the partition, and reads these records itself.
                        self._owned.pop(of, None)
                        continue
                    fresh = [each for each in found if _offset(each) >= (stored.next_offset or 0)]
                    kept += fresh
                    if fresh:
                        after[of] = Stored(_offset(fresh[-1]) + 1, stored.topic_id, stored.epoch)
                if kept:
                    write(cursor, kept)
                reach(CrashPoint.SINK_WRITTEN)
                for of, stored in after.items():
                    self._offsets.store(cursor, of, stored)
                reach(CrashPoint.SINK_BEFORE_COMMIT)
                connection.commit()
            reach(CrashPoint.SINK_COMMITTED)
        except BaseException:
            # Also after a commit without an answer: the next call reads from the rows what became of it.
            self._disconnect()
            raise
        self._owned |= after
        if not self._owned.keys() >= by_partition.keys():
            self._join_again()
        return len(kept)

    # Partitions come and go

    def _on_assign(self, consumer: KafkaConsumer, positions: list[Position]) -> None:
        """Exceptions would be lost inside of librdkafka: `once` raises them."""
        try:
            found = self._take([(each.topic, each.partition) for each in positions])
            consumer.assign(_positions(found))
        except Exception as error:
            self._failure = error

    def _on_gone(self, consumer: KafkaConsumer, positions: list[Position]) -> None:
        """All of their finished records are committed; the next owner takes them from there."""
        for each in positions:
            self._owned.pop((each.topic, each.partition), None)

    def _take(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Stored]:
        """Take the partitions, each from where its row says. Raises PipelineError."""
        try:
            ids = self._topic_ids({topic for topic, _ in partitions})
        except KafkaException as error:
            raise ClientError(f"consumer {self._name}: {error.args[0].str()}") from None
        connection = self._open()
        try:
            with plainly(self._dialect, "did not give its offsets"):
                self._dialect.begin(connection)
                cursor = connection.cursor()
                found = {}
                for of in sorted(partitions):
                    taken = self._offsets.take(cursor, of)
                    topic_id = ids.get(of[0], "")
                    self._check_id(of[0], taken.topic_id, topic_id)
                    # Where it begins is stored too: at a second start, `latest` would be another place.
                    offset = self._start_of(of) if taken.next_offset is None else taken.next_offset
                    found[of] = Stored(offset, taken.topic_id or topic_id, taken.epoch)
                    self._offsets.store(cursor, of, found[of])
                connection.commit()
        except BaseException:
            self._disconnect()
            raise
        self._owned |= found
        return found

    def _return_to_stored(self) -> None:
        """Read on from the rows after a failure: they show whether the last transaction was committed."""
        assigned = sorted((each.topic, each.partition) for each in self._kafka.assignment())
        connection = self._open()
        with plainly(self._dialect, "did not give its offsets"):
            self._dialect.begin(connection)
            found = {of: self._offsets.locked(connection.cursor(), of) for of in assigned if of in self._owned}
            connection.commit()
        if found.keys() == set(assigned) and all(self._owned[of].epoch == each.epoch for of, each in found.items()):
            self._owned |= found
            self._kafka.assign(_positions(found))
        else:
            self._join_again()
        self._must_return = False

    def _join_again(self) -> None:
        """Another member took a partition that this one was assigned: the group has to agree again."""
        self._owned.clear()
        self._kafka.unsubscribe()
        self._subscribe()

    def _subscribe(self) -> None:
        self._kafka.subscribe(self._topics, on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)

    def _start_of(self, of: TopicPartition) -> int:
        try:
            first, end = self._kafka.get_watermark_offsets(Position(*of), _ANSWER_S)
        except KafkaException as error:
            raise ClientError(f"{partition_name(*of)}: {error.args[0].str()}") from None
        return end if self._starts_at_end else first

    def _topic_ids(self, topics: set[str]) -> dict[str, str]:
        """The ids of the topics that exist. Raises KafkaException."""
        found = {}
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_ANSWER_S)
        for topic, described in asked.items():
            try:
                found[topic] = str(described.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found

    def _show_lag(self) -> None:
        """Commit for tools that watch groups. The rows alone decide where a consumer goes on."""
        with suppress(KafkaException):
            self._kafka.commit(offsets=_positions(self._owned), asynchronous=True)

    # The database

    def _open(self) -> Connection:
        if self._connection is None:
            with plainly(self._dialect, "cannot be reached"):
                self._connection = self._dialect.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._dialect.errors):
                connection.rollback()
            with suppress(*self._dialect.errors):
                connection.close()


def _positions(stored: Mapping[TopicPartition, Stored]) -> list[Position]:
    return [
        Position(*of, OFFSET_INVALID if each.next_offset is None else each.next_offset) for of, each in stored.items()
    ]


def _offset(record: Message) -> int:
    return int(record.offset() or 0)
