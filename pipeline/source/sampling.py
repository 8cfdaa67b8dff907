"""Fetches samples of what is new in partitions, to know how many bytes it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.requests.fetch import Fetch, Fetched
from highwater.pipeline.errors import RecordsError
from highwater.pipeline.kafka.batches import Partition, read_batches
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.sizes import Sample, Sizes

SAMPLE_BYTES: Final = 64 << 10
"""The bytes of one sample; a batch that is larger comes whole."""
_SAMPLES_MAX: Final = 512
"""The most samples of one micro-batch; each is a round trip."""
_SAMPLES_OF_PARTITION: Final = range(2, 17)


def sizes_of(client: Client, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, Sizes]:
    """The sizes of each range that is not empty. Exact for ranges that fit into one sample. Raises ClientError."""
    wanted = [each for each in ranges if each.end_offset > each.start_offset]
    count = min(max(_SAMPLES_MAX // max(len(wanted), 1), _SAMPLES_OF_PARTITION[0]), _SAMPLES_OF_PARTITION[-1])
    return {
        (each.topic, each.partition): Sizes(each.start_offset, each.end_offset, _samples(client, each, count))
        for each in wanted
    }


def _samples(client: Client, wanted: OffsetRange, count: int) -> list[Sample]:
    """One at the start, and if that is not all, others at equal distances after it."""
    first = _sample(client, wanted, wanted.start_offset)
    if first is None or first.end_offset >= wanted.end_offset:
        return [] if first is None else [first]
    found, rest = [first], wanted.end_offset - first.end_offset
    for number in range(count - 1):
        # Never the very end: a sample there could be a part of one small batch.
        offset = first.end_offset + rest * number // (count - 1)
        if offset >= found[-1].end_offset and (sample := _sample(client, wanted, offset)) is not None:
            found.append(sample)
    return found


def _sample(client: Client, wanted: OffsetRange, offset: int) -> Sample | None:
    """The batches from an offset on. None if there are none: who reads them says why."""
    fetched = client.fetch(
        Fetch(
            wanted.topic,
            wanted.partition,
            offset,
            max_bytes=SAMPLE_BYTES,
            max_wait_ms=0,
            topic_id=wanted.topic_id,
        )
    )
    if not isinstance(fetched, Fetched):
        return None
    try:
        batches = read_batches(fetched.records, Partition(wanted.topic, wanted.partition))
    except RecordsError:
        return None
    if not len(batches):
        return None
    # Compaction can have removed what was between the offset and the first batch.
    start = min(offset, int(batches.base_offset[0]))
    return Sample(start, int(batches.last_offset[-1]) + 1, int(batches.size_bytes.sum()))
