"""The reader of `spark.read`: fixes where the read begins and ends, and divides it into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from highwater.common.topic_partition import partition_name
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.filters import Bounds
from highwater.pipeline.source.offsets import ranges_between
from highwater.pipeline.source.options import Options
from highwater.pipeline.source.positions import Positions
from highwater.pipeline.source.ranges import divide
from highwater.pipeline.source.reading import keep_what_is_imported, read
from highwater.pipeline.source.sampling import sizes_of
from highwater.pipeline.source.sizes import split_by_bytes


class BatchReader(DataSourceReader):
    """Spark pickles it into the tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task. Raises PipelineError."""
        with POOL.borrow(self._options.settings) as client:
            ranges = self._ranges(client)
            if (limit_bytes := self._options.max_bytes_per_partition) is not None:
                ranges = split_by_bytes(ranges, limit_bytes, sizes_of(client, ranges))
        tasks = divide(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        keep_what_is_imported()
        return [InputPartition(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Spark calls it with the value None if there is nothing to read."""
        return iter(()) if partition.value is None else read(partition.value, self._options)

    def _ranges(self, client: Client) -> list[OffsetRange]:
        positions = Positions(client, self._options)
        start = positions.starting()
        end = Offsets(positions.ending(start), start.ids)
        for of, offset in start.next.items():
            if end.next[of] < offset:
                raise SettingsError(
                    f"{partition_name(*of)}: the read would end at offset {end.next[of]}, before it begins at {offset}"
                )
        admitted = [
            each for each in ranges_between(start, end, {}) if self._bounds.admits((each.topic, each.partition))
        ]
        narrowed = [self._bounds.narrow(each) for each in admitted]
        if self._bounds.earliest_ms is None:
            return narrowed
        partitions = [(each.topic, each.partition) for each in narrowed]
        first = positions.at_time(self._bounds.earliest_ms, partitions)
        return [
            each._replace(start_offset=max(each.start_offset, each.end_offset if offset is None else offset))
            for each in narrowed
            for offset in (first[each.topic, each.partition].offset,)
        ]


class FilteringBatchReader(BatchReader):
    """Takes filters from Spark, which must be allowed to push them down: it refuses this reader otherwise."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Returns the filters that Spark has to apply itself."""
        return [each for each in filters if not self._bounds.take(each)]
