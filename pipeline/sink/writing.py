"""The rows of one task on their way to the brokers: partitions, batches, requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.encode import encode
from highwater.pipeline.kafka.model import Producer
from highwater.pipeline.kafka.sender import BatchSender, Written
from highwater.pipeline.sink.options import SinkOptions
from highwater.pipeline.sink.targets import Targets


class Writing:
    """Counts the rows in `row_count`."""

    def __init__(
        self,
        client: Client,
        sender: BatchSender,
        options: SinkOptions,
        *,
        counts: Mapping[str, int] | None = None,
        first: int = 0,
        joins: tuple[str, Producer] | None = None,
    ) -> None:
        """`counts`, `first`: see Targets. `joins`: the transaction to which new partitions are added."""
        self._client = client
        self._sender = sender
        self._options = options
        self._targets = Targets(client, options.topic, counts or {}, first)
        self._joins = joins
        self._joined: set[TopicPartition] = set()
        self.row_count = 0

    def write(self, batches: Iterable[Any]) -> dict[TopicPartition, Written]:
        """Write all rows of pyarrow.RecordBatches, and wait until they are acknowledged. Raises PipelineError."""
        for rows in batches:
            is_first = rows.num_rows > 0 and self.row_count == 0
            self.row_count += rows.num_rows
            for topic, found in self._targets.of(rows):
                partitions = found.partitions.tolist()
                self._join((topic, partition) for partition in partitions)
                for batch in encode(
                    found.rows,
                    now_ms=time.time_ns() // 1_000_000,
                    ends=found.ends,
                    codec=self._options.codec,
                    batch_bytes=self._options.batch_bytes,
                ):
                    self._sender.send((topic, partitions[batch.group]), batch)
            if is_first:
                self._sender.finish()
                reach(CrashPoint.SINK_WRITING)
        return self._sender.finish()

    def _join(self, partitions: Iterable[TopicPartition]) -> None:
        if self._joins is None or not (new := set(partitions) - self._joined):
            return
        # The client must not be asked for something else while answers are pending.
        self._sender.finish()
        errors = self._client.add_partitions_to_transaction(*self._joins, sorted(new))
        for of, error in errors.items():
            self._sender.refuse(of, error)
        self._joined |= new
