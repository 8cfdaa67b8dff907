"""The reader of `spark.readStream`: where a stream begins, what each micro-batch takes, and its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import DataLossError, SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import EARLIEST, LATEST
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.resume import resume_offsets, shown
from highwater.pipeline.source import first_offsets
from highwater.pipeline.source.group_commits import GroupCommits
from highwater.pipeline.source.limits import Delay, TimeCut, at_most, new_offsets
from highwater.pipeline.source.offsets import continued, ranges_between, unknown_starts, what_is_gone
from highwater.pipeline.source.options import Options
from highwater.pipeline.source.positions import Positions
from highwater.pipeline.source.ranges import divide
from highwater.pipeline.source.reading import read
from highwater.pipeline.source.sampling import sizes_of
from highwater.pipeline.source.sizes import at_most_bytes, bytes_before, split_by_bytes

JsonOffsets = dict[str, dict[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark has one that lives as long as the query, and pickles another, whose client was never used, into tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._first: JsonOffsets | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._planned: JsonOffsets | None = None
        """The end that Spark has, and whose tasks it asks for next."""
        self._commits: GroupCommits | None = None
        self._cut = TimeCut()
        self._delay = Delay(options.min_offsets_per_trigger or 0, options.max_trigger_delay_ms)

    @cached_property
    def _client(self) -> Client:
        return Client(self._options.settings)

    @property
    def _positions(self) -> Positions:
        return Positions(self._client, self._options)

    # Where it begins

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Spark asks twice in the first batch, and again after a crash in it: the answer stays the same."""
        if self._first is None:
            self._first = self._begin().to_json_object()
            reach(CrashPoint.SOURCE_FIRST_OFFSETS)
        return self._first

    def _begin(self) -> Offsets:
        group, location = self._options.commit_offsets, self._options.initial_offsets_location
        if location:
            kept = first_offsets.kept_in_file(Path(location))
        else:
            kept = first_offsets.kept_by_group(self._client, group) if group else None
        if kept is not None:
            return kept
        first = self._resumed() if self._options.resume_from else self._positions.starting()
        if location:
            first_offsets.keep_in_file(Path(location), first)
        elif group:
            first_offsets.keep_in_group(self._client, group, first)
        return first

    def _resumed(self) -> Offsets:
        """Partitions that are new since then are read from their first record on, as after a checkpoint."""
        text = self._options.resume_from
        stored = resume_offsets(text, self._client)
        found = {of: offset for of, offset in stored.next.items() if self._options.topics.include(of)}
        if not found:
            there = ", ".join(sorted(stored.topics()))
            raise SettingsError(
                f"resumeFrom={shown(text)} has offsets of {there} alone, and this stream reads none of these"
            )
        topics = {topic for topic, _ in found}
        return Offsets(found, {topic: each for topic, each in stored.ids.items() if topic in topics})

    # What a micro-batch takes

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark has no limit of both kinds: `latestOffset` looks at the options too."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What comes later is left for the next run."""
        self._target = self._latest()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Where the next batch ends; `start` itself if there is nothing new. Raises PipelineError."""
        self._commit(start)
        end = self._end(Offsets.from_json_object(start), limit)
        if end is not None and end != start:
            self._planned = end
            return end
        if self._target is not None and self._commits is not None:
            # A run of AvailableNow ends here, and its process with it.
            self._commits.wait()
        return start

    def _end(self, before: Offsets, limit: ReadLimit) -> JsonOffsets | None:
        """None while there is too little for a batch."""
        latest = self._without_what_is_gone(before, self._latest())
        starts = self._starts(before, latest)
        ends = dict(latest.next)
        if not isinstance(limit, ReadAllAvailable):
            now_ms = time.monotonic_ns() // 1_000_000
            # A run of AvailableNow would end with what is too little for a batch.
            if self._target is None and self._delay.holds_back(new_offsets(starts, ends), now_ms):
                return None
            if (records := self._options.max_offsets_per_trigger) is not None:
                ends = self._at_one_time(starts, ends, lambda reached: new_offsets(starts, reached) / records)
                ends = at_most(records, starts, ends)
            if (limit_bytes := self._options.max_bytes_per_trigger) is not None:
                new = ranges_between(Offsets(starts, latest.ids), Offsets(ends, latest.ids), {})
                sizes = sizes_of(self._client, new)
                ends = self._at_one_time(starts, ends, lambda reached: bytes_before(reached, sizes) / limit_bytes)
                ends = at_most_bytes(limit_bytes, starts, ends, sizes)
        return Offsets(ends, latest.ids).to_json_object()

    def _at_one_time(
        self,
        starts: Mapping[TopicPartition, int],
        ends: dict[TopicPartition, int],
        share: Callable[[Mapping[TopicPartition, int]], float],
    ) -> dict[TopicPartition, int]:
        """Ends of which `share`, of a limit, is 1 at most; what one millisecond has beyond that is still to divide."""
        new = [of for of, end in ends.items() if end > starts[of]]
        if len(new) == 1 or share(ends) <= 1:
            return ends
        return self._cut.ends(starts, ends, share, lambda time_ms: self._positions.at_time(time_ms, new))

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802 - Spark's name
        """The latest offsets for the progress of the query, with the address of GroupCommits for listeners."""
        if self._seen is None:
            return None
        address = {} if self._commits is None else self._commits.address
        return {**self._seen.to_json_object(), **address}

    def _latest(self) -> Offsets:
        there = self._positions.partitions(must_exist=False)
        self._seen = Offsets(self._positions.edge(LATEST, there.next), there.ids)
        return self._seen

    def _without_what_is_gone(self, before: Offsets, latest: Offsets) -> Offsets:
        """The ends, none of which is before its start. Raises DataLossError."""
        if unread := {of[0] for of in before.next if not self._options.topics.include(of)}:
            self._lost(
                f"the checkpoint has offsets of {', '.join(sorted(unread))}, which the query does not read any more: "
                "change subscribe back, or start a new checkpoint"
            )
        if (what := what_is_gone(before, latest)) is not None:
            self._lost(what)
        if self._target is not None:
            latest = _up_to(self._target, before, latest)
        ends = dict(latest.next)
        behind = [of for of, offset in continued(before, latest).items() if ends[of] < offset]
        # An open transaction, or a leader that is new, can make the end go back for a while.
        high_watermarks = self._positions.high_watermarks(behind) if behind else {}
        for of in behind:
            offset = before.next[of]
            high_watermark = high_watermarks.get(of, offset)
            if high_watermark < offset:
                self._lost(
                    f"{partition_name(*of)} ends at offset {high_watermark}, before {offset}, which was read up to"
                )
            else:
                ends[of] = offset
        return Offsets(ends, latest.ids)

    def _starts(self, before: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
        """Where the batch begins, never after its end; new partitions begin at their first record."""
        new = unknown_starts(before, latest)
        starts = {**(self._positions.edge(EARLIEST, new) if new else {}), **continued(before, latest)}
        return {of: min(starts[of], end) for of, end in latest.next.items()}

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(what)

    # Its tasks

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """One for each task; after a restart the same records again. Raises PipelineError."""
        before, after = Offsets.from_json_object(start), Offsets.from_json_object(end)
        if (what := what_is_gone(before, after)) is not None:
            self._lost(what)
        left = after if end == self._planned else self._still_there(after)
        ranges = ranges_between(before, left, self._starts(before, left))
        if (limit_bytes := self._options.max_bytes_per_partition) is not None:
            ranges = split_by_bytes(ranges, limit_bytes, sizes_of(self._client, ranges))
        tasks = divide(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        reach(CrashPoint.SOURCE_PLANNED)
        return [InputPartition(each) for each in tasks]

    def _still_there(self, planned: Offsets) -> Offsets:
        """A topic can be deleted between the plan of a batch and its run after a restart."""
        there = self._positions.partitions(must_exist=False)
        if (what := what_is_gone(planned, there)) is not None:
            self._lost(what)
        return Offsets(continued(planned, there), planned.ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(partition.value, self._options)

    def _commit(self, start: JsonOffsets) -> None:
        """Spark asks for the end of a batch when the one before it is finished, and the checkpoint says so."""
        if not self._options.commit_offsets:
            return
        if self._commits is None:
            self._commits = GroupCommits(self._options.settings, self._options.commit_offsets)
        # The first offsets are no batch, and have to stay marked as such until one is finished.
        if start != self._first:
            self._commits.finished(start)

    def stop(self) -> None:
        """Called when the query ends, if its process is not ended first."""
        if self._commits is not None:
            self._commits.close()
        self._client.close()


def _up_to(target: Offsets, before: Offsets, latest: Offsets) -> Offsets:
    """Where a run of AvailableNow ends: what came after `target` was taken is left for the next run."""
    ends = {**continued(before, latest), **continued(target, latest)}
    topics = {topic for topic, _ in ends}
    return Offsets(ends, {topic: each for topic, each in latest.ids.items() if topic in topics})
