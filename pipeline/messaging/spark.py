"""Retries and dead letters from Spark: a foreachBatch that writes all of a batch as one transaction.

    sink = RetryingSink("127.0.0.1:9092", "billing-1", "orders", "billing", handle)
    stream.writeStream.foreachBatch(sink.write).option("checkpointLocation", …).start()

The stream reads `sink.topics` with includeHeaders. A mover delivers what is due again into the second of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delivery import Delivery
from highwater.pipeline.messaging.levels import ROCKETMQ_LEVELS_MS, GroupTopics, check_levels
from highwater.pipeline.messaging.policy import ROCKETMQ_BACKOFF, Backoff, failure_of
from highwater.pipeline.messaging.record import Outgoing, Record
from highwater.pipeline.messaging.retrying import Retrying, Work
from highwater.pipeline.sink.batch_transaction import TransactionalSink

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_SCHEMA: Final = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, timestamp timestamp, topic string, "
    "partition int"
)
_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)
_POISON: Final = (UnicodeError, json.JSONDecodeError)

Handler = Callable[[Delivery], None]


def split_record(record: Record, handle: Handler, state: Retrying, now: int) -> list[Outgoing]:
    """What is written for a record: what the handler sends, or a retry, or a dead letter. Pure but for the handler."""
    taken = state.take(record, now)
    if not isinstance(taken, Work):
        return taken
    delivery = Delivery(taken)
    try:
        handle(delivery)
    except Exception as error:
        return state.finish(taken, failure_of(error, _POISON), now)
    return [*delivery.sent, *state.finish(taken, None, now)]


class Split:
    """A task: rows of the source to rows of the sink. Executors need this package without a Kafka client."""

    def __init__(self, names: GroupTopics, handle: Handler, backoff: Backoff, levels_ms: Sequence[int]) -> None:
        self._names = names
        self._handle = handle
        self._backoff = backoff
        self._levels_ms = levels_ms

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        state = Retrying(self._names, self._backoff, self._levels_ms, by_key=False, partition=0)
        for batch in batches:
            now = now_ms()
            # Python has no time beyond the year 9999, and a producer may send microseconds.
            index = batch.schema.get_field_index("timestamp")
            plain = batch.set_column(index, "timestamp", batch.column(index).cast(pa.int64()))
            records = (_record_of(row) for row in plain.to_pylist())
            written = [each for record in records for each in split_record(record, self._handle, state, now)]
            yield pa.RecordBatch.from_pylist([_row_of(each) for each in written], schema=_ARROW)


class RetryingSink:
    """One for each query, in the driver. The order of a key is lost when one of its records fails."""

    def __init__(
        self,
        options: Mapping[str, str] | str,
        transactional_id: str,
        topic: str,
        group: str,
        handle: Handler,
        *,
        backoff: str | Backoff = ROCKETMQ_BACKOFF,
        levels_ms: Sequence[int] = ROCKETMQ_LEVELS_MS,
        checkpoint: str = "",
    ) -> None:
        """`options`, `transactional_id`, `checkpoint`: as of `TransactionalSink`. `handle` is pickled for tasks.

        Nothing is sent before the first batch. The topics of the group have to be there: `make_topics` makes them.
        """
        self._names = GroupTopics(topic, group)
        self.backoff = Backoff.parse(backoff) if isinstance(backoff, str) else backoff
        self._split = Split(self._names, handle, self.backoff, check_levels(levels_ms))
        self._sink = TransactionalSink(options, transactional_id, marker_topic=topic, checkpoint=checkpoint)

    @property
    def topics(self) -> str:
        """The value of `subscribe`: the topic, and that of records which are due again."""
        return f"{self._names.topic},{self._names.retry}"

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write all that follows from the rows once, or nothing if it is there already. Raises PipelineError."""
        missing = [name for name in _COLUMNS if name not in frame.columns]
        if missing:
            raise SettingsError(
                f"the rows have no column {missing[0]}; read them with includeHeaders=true, and select none"
            )
        self._sink.write(frame.select(*_COLUMNS).mapInArrow(self._split, _SCHEMA), batch_id)

    def close(self) -> None:
        self._sink.close()


def make_topics(client: Mapping[str, Any], topic: str, group: str, backoff: str | Backoff = ROCKETMQ_BACKOFF) -> None:
    """Make the topics of the group, and those of delays; `client`: librdkafka's properties."""
    from highwater.pipeline.messaging.topics import Topics, ensure_delay_topics, ensure_group_topics

    topics = Topics(client)
    parsed = Backoff.parse(backoff) if isinstance(backoff, str) else backoff
    ensure_group_topics(topics, GroupTopics(topic, group), parsed, by_key=False)
    ensure_delay_topics(topics, ROCKETMQ_LEVELS_MS)


def _record_of(row: Mapping[str, Any]) -> Record:
    """timestamp: in µs; null for one that is not known."""
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
    timestamp_ms = max(0, (row["timestamp"] or 0) // 1000)
    return Record(row["topic"], row["partition"], row["offset"], timestamp_ms, row["key"], row["value"], headers)


def _row_of(outgoing: Outgoing) -> dict[str, Any]:
    return {
        "key": outgoing.key,
        "value": outgoing.value,
        "headers": [{"key": name, "value": value} for name, value in outgoing.headers],
        "timestamp": outgoing.timestamp_ms * 1000,
        "topic": outgoing.topic,
        "partition": outgoing.partition,
    }
