"""Asks the brokers which partitions there are, and which offsets a start or an end means in them."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.requests.broker_error import BrokerError
from highwater.pipeline.errors import ClientError, DataLossError, SettingsError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import EARLIEST, LATEST, Edge, ListedOffset, Topic
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.source.bounds import AtOffsets, AtTime, Bound
from highwater.pipeline.source.offsets import recreated
from highwater.pipeline.source.options import Options

_UNKNOWN = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


class Positions:
    """Uses a client for as long as the caller does. All methods raise ClientError if the brokers do not answer."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client = client
        self._options = options

    def partitions(self, *, must_exist: bool) -> Offsets:
        """The partitions to read, each with offset 0, and the ids of their topics.

        Raises SettingsError for a topic that is not there; with `must_exist` False, it is left out.
        """
        wanted = self._options.topics
        names = set(wanted.names) | {topic for topic, _ in wanted.partitions}
        if must_exist and not wanted.pattern:
            topics = self._client.needed_topics(names)
        else:
            topics = self._client.cluster(None if wanted.pattern else names).topics
        if wanted.pattern:
            pattern = re.compile(wanted.pattern)
            chosen = [each for each in topics.values() if not each.is_internal and pattern.fullmatch(each.name)]
        else:
            chosen = [topics[name] for name in sorted(names)]
        there = {each.name: each for each in chosen if _is_there(each, must_exist=must_exist)}
        found = {(name, number): 0 for name, topic in there.items() for number in topic.partitions}
        if wanted.partitions:
            missing = [partition_name(*of) for of in wanted.partitions if of not in found]
            if missing and must_exist:
                raise SettingsError(f"assign: {', '.join(missing)} does not exist")
            found = {of: 0 for of in wanted.partitions if of in found}
        ids = {name: str(each.topic_id) for name, each in there.items() if each.topic_id is not None}
        return Offsets(found, {topic: ids[topic] for topic in {topic for topic, _ in found} & ids.keys()})

    def edge(self, edge: Edge, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets (EARLIEST), or those after the last record that may be read (LATEST)."""
        found = {}
        for of, listed in self._listed(dict.fromkeys(partitions, edge)).items():
            if listed.offset is None:
                raise ClientError(f"{partition_name(*of)}: the broker did not say where the log ends")
            found[of] = listed.offset
        return found

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last record, of open transactions too."""
        listed = self._listed(dict.fromkeys(partitions, LATEST), read_committed=False)
        return {of: each.offset for of, each in listed.items() if each.offset is not None}

    def starting(self) -> Offsets:
        """Where to begin. Raises SettingsError or DataLossError if the options ask for what is not there."""
        there = self.partitions(must_exist=True)
        return Offsets(self._resolve(self._options.starting, there, is_start=True), there.ids)

    def ending(self, there: Offsets) -> dict[TopicPartition, int]:
        """Where to stop, in the partitions of `there`. Raises SettingsError or DataLossError, as `starting` does."""
        return self._resolve(self._options.ending, there, is_start=False)

    def at_time(self, timestamp_ms: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
        """The first record with this time or a later one; a time up to 0 is no bound."""
        return self._listed(dict.fromkeys(partitions, timestamp_ms))

    def _resolve(self, bound: Bound, there: Offsets, *, is_start: bool) -> dict[TopicPartition, int]:
        match bound:
            case Edge():
                return self.edge(bound, there.next)
            case AtOffsets():
                return self._at_offsets(bound, there, is_start=is_start)
            case AtTime(timestamps_ms):
                return self._at_times(timestamps_ms, there, is_start=is_start)

    def _at_offsets(self, bound: AtOffsets, there: Offsets, *, is_start: bool) -> dict[TopicPartition, int]:
        option = "startingOffsets" if is_start else "endingOffsets"
        asked: Mapping[TopicPartition, Edge | int] = {**bound.offsets.next, **bound.edges}
        _check_all_are_named(asked, there.next, option)
        if again := recreated(bound.offsets, there):
            self._lost(f"{option}: {', '.join(sorted(again))} was deleted and created again since these were written")
        first, last = self.edge(EARLIEST, there.next), self.edge(LATEST, there.next)
        ends = {EARLIEST: first, LATEST: last}
        found = {}
        for of, offset in asked.items():
            if isinstance(offset, Edge):
                found[of] = ends[offset][of]
            elif of[0] in again:
                found[of] = (first if is_start else last)[of]
            elif first[of] <= offset <= last[of]:
                found[of] = offset
            else:
                self._lost(f"{option}: {partition_name(*of)} has offsets from {first[of]} to {last[of]}, not {offset}")
                found[of] = min(max(offset, first[of]), last[of])
        return found

    def _at_times(
        self, asked: Mapping[TopicPartition, int] | int, there: Offsets, *, is_start: bool
    ) -> dict[TopicPartition, int]:
        if isinstance(asked, int):
            asked = dict.fromkeys(there.next, asked)
        else:
            _check_all_are_named(asked, there.next, f"{'starting' if is_start else 'ending'}OffsetsByTimestamp")
        last = self.edge(LATEST, there.next)
        found = {}
        for of, listed in self._listed(asked).items():
            if listed.offset is None and is_start and not self._options.later_than_all_is_latest:
                raise SettingsError(
                    f"{partition_name(*of)} has no record with the time {asked[of]} ms or a later one; "
                    "startingOffsetsByTimestampStrategy=latest begins at its end"
                )
            found[of] = last[of] if listed.offset is None else min(listed.offset, last[of])
        return found

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(what)

    def _listed(
        self, wanted: Mapping[TopicPartition, Edge | int], *, read_committed: bool | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        if read_committed is None:
            read_committed = self._options.read_committed
        for _ in range(self._options.offset_attempts - 1):
            try:
                return self._ask(wanted, read_committed=read_committed)
            except ClientError:
                time.sleep(self._options.offset_retry_interval_ms / 1000)
        return self._ask(wanted, read_committed=read_committed)

    def _ask(
        self, wanted: Mapping[TopicPartition, Edge | int], *, read_committed: bool
    ) -> dict[TopicPartition, ListedOffset]:
        found = {}
        for of, listed in self._client.list_offsets(wanted, read_committed=read_committed).items():
            if isinstance(listed, BrokerError):
                raise ClientError(f"{partition_name(*of)}: {listed}")
            found[of] = listed
        return found


def _is_there(topic: Topic, *, must_exist: bool) -> bool:
    if topic.error is None:
        return True
    if topic.error.code not in _UNKNOWN:
        raise ClientError(f"topic {topic.name}: {topic.error}")
    if must_exist:
        raise SettingsError(f"topic {topic.name} does not exist; create it first, or look for a slip in its name")
    return False


def _check_all_are_named(asked: Collection[TopicPartition], there: Collection[TopicPartition], option: str) -> None:
    missing = sorted(set(there) - set(asked))
    unknown = sorted(set(asked) - set(there))
    if missing:
        names = ", ".join(partition_name(*of) for of in missing)
        raise SettingsError(f"{option} has to name every partition, and {names} is missing")
    if unknown:
        names = ", ".join(partition_name(*of) for of in unknown)
        raise SettingsError(f"{option} names {names}, which is not read")
