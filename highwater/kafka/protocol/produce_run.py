"""A run of Produce requests: they came together, and are appended and answered as one.

A client that keeps requests in flight sends them one behind the other, alike but for their ids and what they produce:

    length | key, version | correlation id | client id … time-out | topics

`produce_run_reader` reads them in one go, so that the broker can append the batches of each partition in one write. An
answer has the topics as they stand in the request, with other values in each partition.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.apis import APIS, PRODUCE
from highwater.kafka.protocol.frame import LENGTH_BYTES, read_request_header
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError
from highwater.kafka.protocol.produce import ACKS_AND_TIMEOUT, FLEXIBLE_FROM, TOPIC_IDS_FROM
from highwater.kafka.records.batch import MAX_SEQUENCE, NO_PRODUCER_ID, NO_TIMESTAMP

RUNS_FROM: Final = 7
"""The first version that may have every codec, so that no run has to look for zstd."""
MOST_DELTA: Final = 1_000_000
"""The offsets of a batch with sequence numbers: within a run, these do not come round to where they were."""
NO_LIMIT: Final = 2**62 - 1
"""The largest number that machine code compares without a call."""
NO_ERROR: Final = ErrorCode.none
"""Machine code takes it without a look at the enumeration, which would take as long as the checks of a batch."""
_LONGEST_MIDDLE: Final = 1024
_MOST_LEADS: Final = 64

_INT32: Final = struct.Struct(">i")
MIDDLE_AT: Final = 12
"""Before it are length, key and version, and correlation id."""
Begins: TypeAlias = tuple[int, int, int, bytes]
"""How a request begins: length, key and version as one number, correlation id, and what is alike in most requests. Of
fixed length, so that machine code keeps it unpacked."""


class PartitionRun:
    """The batches of a run for one partition; all are of one producer, and their sequence numbers follow each other."""

    __slots__ = (
        "base_offset",
        "base_sequence",
        "batches",
        "error",
        "index",
        "largest_offset",
        "latest_ms",
        "log_start_offset",
        "most_batch_bytes",
        "most_batches",
        "most_bytes",
        "next_offset",
        "producer_epoch",
        "producer_id",
        "safe_offset",
        "size_bytes",
    )

    def __init__(self, index: int, base_offset: int, log_start_offset: int, most_batch_bytes: int) -> None:
        self.index = index
        self.base_offset = self.next_offset = base_offset
        self.log_start_offset = log_start_offset
        self.most_batch_bytes = most_batch_bytes
        self.most_bytes = self.most_batches = self.largest_offset = self.latest_ms = NO_LIMIT
        """What the log takes without a new segment: so many bytes and batches, and the largest offset and timestamp."""
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = self.base_sequence = -1
        """What the first batch is to have, if the producer has an id."""
        self.batches: list[RunBatch] = []
        self.size_bytes = 0
        self.safe_offset = NO_LIMIT
        self.error = NO_ERROR
        """The answer for records from `safe_offset` on."""

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + self.next_offset - self.base_offset) & MAX_SEQUENCE

    def drop(self, batch: RunBatch) -> None:
        """Forget the last batch: its request is not of the run."""
        self.batches.pop()
        self.next_offset = batch.base_offset
        self.size_bytes -= batch.size_bytes

    def fail(self, error: ErrorCode, safe_offset: int = 0) -> int:
        """Answer the error for batches that do not end at `safe_offset` or before it; returns how many these are."""
        self.error, self.safe_offset = error, safe_offset
        return sum(batch.last_offset >= safe_offset for batch in self.batches)


class RunBatch:
    """The batch of a request for one partition."""

    __slots__ = (
        "base_offset",
        "correlation_id",
        "ends_request",
        "last_offset",
        "lead",
        "max_timestamp_ms",
        "records",
        "size_bytes",
    )

    def __init__(
        self,
        correlation_id: int,
        lead: bytes,
        records: memoryview,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
    ) -> None:
        """`lead`: what stands before the partition in the request, and so in the answer."""
        self.correlation_id = correlation_id
        self.lead = lead
        self.records = records
        self.size_bytes = size_bytes
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp_ms = max_timestamp_ms
        self.ends_request = False


class Lead:
    """What stands before the first partition of a topic."""

    __slots__ = ("content", "key", "partition_count", "topic", "topic_count")

    def __init__(self, content: bytes, topic_count: int, key: bytes, topic: str | UUID, partition_count: int) -> None:
        """`topic_count`: how many topics the request has, from this one on. `key`: the bytes of its name or id."""
        self.content = content
        self.topic_count = topic_count
        self.key = key
        self.topic = topic
        self.partition_count = partition_count


class ProduceShape:
    """What the requests of a client have in common."""

    __slots__ = (
        "_answer",
        "_answer_begins",
        "_answer_bytes",
        "_last_partition",
        "_leads",
        "_partition",
        "_partition_ends",
        "acks",
        "beginning",
        "form",
        "form_bytes",
        "has_ids",
        "is_flexible",
        "kind",
        "lead",
        "middle",
        "timeout_ms",
        "version",
    )

    def __init__(self, version: int, acks: int, timeout_ms: int, middle: bytes) -> None:
        """`middle`: the bytes between correlation id and topics."""
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.kind = PRODUCE << 16 | version
        self.middle = middle
        self.is_flexible = version >= FLEXIBLE_FROM
        self.has_ids = version >= TOPIC_IDS_FROM
        self._answer_begins = struct.Struct(">iix" if self.is_flexible else ">ii")
        # Neither errors of records nor a message, and no tags.
        self._partition_ends = b"" if version < 8 else b"\0\0\0\0\xff\xff" if version < FLEXIBLE_FROM else b"\1\0\0"
        # Index, error code, base offset, log append time and log start offset. Behind the last partition stand the tags
        # of its topic, no throttle time, and the tags of the answer.
        partition = f">ihqqq{len(self._partition_ends)}s"
        self._partition = struct.Struct(partition)
        self._last_partition = struct.Struct(f"{partition}{6 if self.is_flexible else 4}x")
        self._leads: dict[bytes, tuple[bytes, struct.Struct, struct.Struct]] = {}
        """How requests begin, in bytes and form, and the answer if they have one partition, by lead."""
        self.begin_with(None)

    def fits(self, buffer: memoryview, start: int, end: int) -> bool:
        """Whether the request that begins there has this shape."""
        middle_at = start + MIDDLE_AT
        middle_end = middle_at + len(self.middle)
        if middle_end > end:
            return False
        (kind,) = _INT32.unpack_from(buffer, start + LENGTH_BYTES)
        return kind == self.kind and buffer[middle_at:middle_end] == self.middle

    def begin_with(self, lead: Lead | None) -> None:
        """Expect requests with the same lead as the last one."""
        content = b"" if lead is None else lead.content
        expected = self._leads.get(content)
        if expected is None:
            if len(self._leads) >= _MOST_LEADS:
                self._leads.clear()
            answer = f"{self._answer_begins.format}{len(content)}s{self._last_partition.format[1:]}"
            beginning = self.middle + content
            expected = beginning, struct.Struct(f">iii{len(beginning)}s"), struct.Struct(answer)
            self._leads[content] = expected
        self.lead = lead
        self.beginning, self.form, self._answer = expected
        self.form_bytes, self._answer_bytes = self.form.size, self._answer.size - LENGTH_BYTES

    def answers(self, batches: list[RunBatch], parts: list[PartitionRun]) -> bytes:
        """Encode the answers to the requests that have these batches; `parts` are those of each batch."""
        usual, ends = b"" if self.lead is None else self.lead.content, self._partition_ends
        answer, alone = self._answer, self._answer_bytes
        out: list[bytes] = []
        begins_at = size = 0
        for slot, batch in enumerate(batches):
            part, number, is_last = parts[slot], batch.correlation_id, batch.ends_request
            index, error, offset, log_start = part.index, 0, batch.base_offset, part.log_start_offset
            if batch.last_offset >= part.safe_offset:
                error, offset, log_start = part.error, -1, -1
            if not size:
                if is_last and batch.lead is usual:
                    out.append(answer.pack(alone, number, usual, index, error, offset, NO_TIMESTAMP, log_start, ends))
                    continue
                begins_at, size = len(out), self._answer_begins.size - LENGTH_BYTES
                out.append(b"")
            form = self._last_partition if is_last else self._partition
            out.append(batch.lead)
            out.append(form.pack(index, error, offset, NO_TIMESTAMP, log_start, ends))
            size += len(batch.lead) + form.size
            if is_last:
                out[begins_at] = self._answer_begins.pack(size, number)
                size = 0
        return b"".join(out)


def shape_of(frame: memoryview) -> ProduceShape | None:
    """The shape of a request; None for one that can be in no run, and for a malformed one."""
    try:
        header = read_request_header(frame)
        version = header.api_version
        if header.api_key != PRODUCE or version < RUNS_FROM or not APIS[PRODUCE].serves(version):
            return None
        decoder = Decoder(frame, header.body_position, flexible=version >= FLEXIBLE_FROM)
        decoder.skip_tags()
        if decoder.nullable_string() is not None:
            return None
        acks, timeout_ms = decoder.fields(ACKS_AND_TIMEOUT)
    except MalformedRequestError:
        return None
    middle = bytes(frame[MIDDLE_AT - LENGTH_BYTES : decoder.position])
    if acks not in (-1, 0, 1) or len(middle) > _LONGEST_MIDDLE:
        return None
    return ProduceShape(version, acks, timeout_ms, middle)
