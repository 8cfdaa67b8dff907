"""Which topic and which partition each row of a task goes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from highwater.pipeline.kafka.arrow_columns import UnwritableError, ints_of
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.partitioner import Sorted, partitions_of, sorted_by

NULL_TOPIC = "a row has no topic: its column topic is null, and the option topic is not set"


class Targets:
    """Counts the partitions of each topic once, so that a task never sees two counts."""

    def __init__(self, client: Client, topic: str, counts: Mapping[str, int], first: int) -> None:
        """topic: of all rows; empty if they have a column. first: where rows without a key begin."""
        self._client = client
        self._topic = topic
        self._counts = dict(counts)
        self._next = first

    def of(self, rows: Any) -> Iterator[tuple[str, Sorted]]:
        """The rows of a pyarrow.RecordBatch by topic and partition. Raises UnwritableError or ClientError."""
        if not rows.num_rows:
            return
        if self._topic:
            yield self._topic, self._sorted(self._topic, rows)
            return
        column = rows.column("topic")
        if column.null_count:
            raise UnwritableError(NULL_TOPIC)
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        index = ints_of(encoded.indices)
        for number, name in enumerate(names):
            of_topic = rows
            if len(names) > 1:
                places = np.flatnonzero(index == number)
                of_topic = rows.take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))
            yield name, self._sorted(name, of_topic)

    def _sorted(self, topic: str, rows: Any) -> Sorted:
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = partition_count(self._client, topic)
        try:
            found = sorted_by(rows, partitions_of(rows, count, first=self._next % count))
        except UnwritableError as error:
            raise UnwritableError(f"topic {topic}: {error}") from None
        self._next += 1
        return found


def partition_count(client: Client, topic: str) -> int:
    """Raises UnwritableError if the topic is not there, nor comes within seconds, and ClientError."""
    found = client.needed_topics([topic])[topic]
    if found.error is not None:
        raise UnwritableError(f"topic {topic}: {found.error}; a sink creates no topic, so create it first")
    return len(found.partitions)


def with_partition(found: Sorted) -> Any:
    """The sorted rows with a column `partition` that names the target."""
    counts = np.diff(np.append(0, found.ends))
    values = np.repeat(found.partitions, counts).astype(np.int32)
    column = pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])
    rows = found.rows
    index = rows.schema.get_field_index("partition")
    if index < 0:
        return rows.append_column("partition", column)
    return rows.set_column(index, "partition", column)
