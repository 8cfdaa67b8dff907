"""Reads a range of one partition as Arrow record batches, one fetch ahead of the decoder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import partition_name
from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch, Fetched
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.kafka.batches import offset_after
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS
from highwater.pipeline.kafka.decode import Decoded, decode
from highwater.pipeline.kafka.model import OutOfRange

FETCH_BYTES = 4 << 20


class OffsetRange(NamedTuple):
    """start_offset <= offset < end_offset. With a topic_id, another topic of the same name is an error."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: UUID | None = None


class OffsetOutOfRangeError(PipelineError):
    """Offsets of the range are not in the log."""

    def __init__(self, wanted: OffsetRange, offset: int, log: OutOfRange) -> None:
        super().__init__(
            f"{partition_name(wanted.topic, wanted.partition)} has the offsets from {log.log_start_offset} up to "
            f"{log.end_offset}, and {offset} was asked for: its record was deleted, or the topic was made anew"
        )
        self.wanted = wanted
        self.offset = offset
        self.log = log

    def __reduce__(self) -> tuple[type[OffsetOutOfRangeError], tuple[OffsetRange, int, OutOfRange]]:
        """Spark pickles errors between its processes."""
        return type(self), (self.wanted, self.offset, self.log)


class UnreadableError(PipelineError):
    """A broker answers with an error that does not pass."""

    def __init__(self, wanted: OffsetRange, offset: int, error: BrokerError) -> None:
        super().__init__(f"{partition_name(wanted.topic, wanted.partition)} at offset {offset}: {error}")
        self.wanted = wanted
        self.offset = offset
        self.error = error

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[OffsetRange, int, BrokerError]]:
        """Spark pickles errors between its processes."""
        return type(self), (self.wanted, self.offset, self.error)


def read_range(
    client: Client,
    wanted: OffsetRange,
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    read_committed: bool = False,
    fetch_bytes: int = FETCH_BYTES,
    patience_ms: int | None = None,
) -> Iterator[Decoded]:
    """Yield what each fetch holds, until `next_offset` is the end of the range.

    A `Decoded` can be without rows. Raises RecordsError, ClientError, OffsetOutOfRangeError; UnreadableError, also if
    the partition does not grow to the end of the range within `patience_ms`, which is `default.api.timeout.ms` if None.
    """

    def fetch_from(offset: int) -> Fetch:
        return Fetch(
            wanted.topic,
            wanted.partition,
            offset,
            read_committed=read_committed,
            max_bytes=fetch_bytes,
            topic_id=wanted.topic_id,
        )

    offset = wanted.start_offset
    patience_s = patience_ms / 1000 if patience_ms else client.settings.api_timeout_s
    deadline_s = time.monotonic() + patience_s
    answer = client.fetch_ahead(fetch_from(offset)) if offset < wanted.end_offset else None
    while answer is not None:
        fetched = answer()
        if isinstance(fetched, OutOfRange):
            raise OffsetOutOfRangeError(wanted, offset, fetched)
        if isinstance(fetched, BrokerError):
            raise UnreadableError(wanted, offset, fetched)
        following = max(offset, offset_after(fetched.records) or offset)
        ahead = client.fetch_ahead(fetch_from(following)) if following < wanted.end_offset else None
        decoded = decode(
            fetched.records,
            topic=wanted.topic,
            partition=wanted.partition,
            start_offset=offset,
            end_offset=wanted.end_offset,
            columns=columns,
            aborted=fetched.aborted,
        )
        if decoded.next_offset < min(following, wanted.end_offset):
            # More was fetched than is unpacked at once: the rest is fetched again.
            ahead = client.fetch_ahead(fetch_from(decoded.next_offset))
        if decoded.next_offset > offset:
            deadline_s = time.monotonic() + patience_s
            yield decoded
        elif time.monotonic() > deadline_s:
            raise UnreadableError(wanted, offset, _does_not_grow(fetched))
        offset, answer = decoded.next_offset, ahead


def _does_not_grow(fetched: Fetched) -> BrokerError:
    ends = f"its high watermark is {fetched.high_watermark}, its last stable offset {fetched.last_stable_offset}"
    return BrokerError(ErrorCode.request_timed_out, f"no records came; {ends}")
