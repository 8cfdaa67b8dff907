"""What a consumer gets to see of some topics: all of it, or what came since the last look."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

OffsetSpec: Any = import_module("confluent_kafka.admin").OffsetSpec
DEADLINE_S: Final = 30.0

Place = tuple[str, int]
"""A topic and the number of a partition."""


class Found(NamedTuple):
    """One record as it came."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str | bytes | None]


class Seen(NamedTuple):
    """The records of a partition, and the offsets between which they were read."""

    start: int
    low: int
    """Where the partition began before the reading."""
    high: int
    records: list[Found]
    low_at_end: int = 0
    """Where it began after the reading: retention may have deleted what lies before, unread."""


def read(
    admin: AdminClient,
    bootstrap_servers: str,
    places: Iterable[Place],
    since: Mapping[Place, int],
    *,
    is_committed: bool = False,
) -> dict[Place, Seen]:
    """All records from `since` (or the beginning) to the end as it is now; `is_committed` hides what is undecided."""
    partitions = {place: TopicPartition(*place) for place in places}
    lows = _offsets(admin, partitions, OffsetSpec.earliest())
    highs = _offsets(admin, partitions, OffsetSpec.latest())
    seen = {place: Seen(max(since.get(place, 0), lows[place]), lows[place], highs[place], []) for place in partitions}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # What was there a moment ago may be deleted by now.
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,
            "fetch.error.backoff.ms": 10,
            "log_level": 0,
        }
    )
    try:
        _read(consumer, seen)
    finally:
        consumer.close()
    lows_at_end = _offsets(admin, partitions, OffsetSpec.earliest())
    return {place: found._replace(low_at_end=lows_at_end[place]) for place, found in seen.items()}


def end_offsets(admin: AdminClient, places: Iterable[Place]) -> dict[Place, int]:
    return _offsets(admin, {place: TopicPartition(*place) for place in places}, OffsetSpec.latest())


def _offsets(admin: AdminClient, partitions: Mapping[Place, TopicPartition], spec: Any) -> dict[Place, int]:
    if not partitions:
        return {}
    futures = admin.list_offsets(dict.fromkeys(partitions.values(), spec), request_timeout=DEADLINE_S)
    return {
        (partition.topic, partition.partition): future.result(DEADLINE_S).offset
        for partition, future in futures.items()
    }


def _read(consumer: Consumer, seen: dict[Place, Seen]) -> None:
    left = {place for place, found in seen.items() if found.start < found.high}
    consumer.assign([TopicPartition(*place, seen[place].start) for place in left])
    deadline = time.monotonic() + DEADLINE_S
    errors: dict[Place, KafkaError] = defaultdict()
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sorted(left)} could not be read to their ends: {seen}, {errors}")
        for message in consumer.consume(5000, 0.2):
            topic, partition, offset, error = message.topic(), message.partition(), message.offset(), message.error()
            if error is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:
                continue
            assert topic is not None
            assert partition is not None
            place = topic, partition
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                errors[place] = error
                continue
            assert offset is not None
            if offset < seen[place].high:
                seen[place].records.append(Found(offset, message.key(), message.value(), dict(message.headers() or [])))
            if offset >= seen[place].high - 1:
                left.discard(place)
