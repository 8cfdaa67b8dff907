"""Reads a run of Produce requests: the first that a client has sent, as far as all of them are usual.

A request belongs to a run only if it has no transactional id, one batch for each of its partitions, and all that
`validate_produced` demands. What is unusual or wrong ends the run, and nothing is decided about it here: the handler
of Produce reads that request anew.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias
from uuid import UUID

from highwater.kafka.protocol.frame import LENGTH_BYTES
from highwater.kafka.protocol.produce_run import (
    MIDDLE_AT,
    MOST_DELTA,
    Begins,
    Lead,
    PartitionRun,
    ProduceShape,
    RunBatch,
    shape_of,
)
from highwater.kafka.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    CREDIBLE_MS,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
)
from highwater.kafka.records.checksum import crc32c
from highwater.kafka.records.produced import with_true_max_timestamp
from highwater.kafka.records.record_times import HeaderBudget

MOST_BATCHES: Final = 512
"""A run has no more; pwritev(2) takes 1024 pieces at most."""
_UNFIT: Final = CONTROL_BIT | TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT
_LAST_CODEC: Final = int(Codec.ZSTD)
_UUID_BYTES: Final = 16
_LONGEST_NAME: Final = 249
"""Topics have no longer ones."""
_LONGEST_VARINT: Final = 4
"""Batches have far less than 256 MiB."""
_LEAST_BYTES: Final = 8 + HEADER_SIZE
"""A partition with a batch takes more; a number of topics and the length of a name take less."""
_NOT_OF_A_RUN: Final = -1
_NO_BYTES: Final = memoryview(b"")

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT32_TWICE: Final = struct.Struct(">ii")
# Of fixed length, so that machine code keeps it unpacked.
_HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]


class RunReader:
    """Reads the run at the front of what a client has sent, and has it then."""

    __slots__ = (
        "_allowance",
        "_buffer",
        "_lead",
        "_most_frame_bytes",
        "_partitions",
        "_received_end",
        "_topics",
        "batches",
        "end",
        "now_ms",
        "parts",
        "request_count",
        "shape",
        "topic_count",
    )

    def __init__(
        self,
        buffer: memoryview,
        start: int,
        end: int,
        shape: ProduceShape | None,
        most_frame_bytes: int,
        now_ms: int,
    ) -> None:
        self._buffer = buffer
        self._received_end = end
        self.shape = shape
        """The last request that may be in a run has it."""
        self._most_frame_bytes = most_frame_bytes
        self.now_ms = now_ms
        self._lead: Lead | None = None
        self._partitions: dict[int, PartitionRun] = {}
        """What was begun of the topic with this lead, by index."""
        self._topics: dict[bytes, dict[int, PartitionRun]] = {}
        """The key is the name or id as it stands in the request."""
        self._allowance: HeaderBudget | None = None
        """The request that is being read has it, once it needs one."""
        self.batches: list[RunBatch] = []
        self.parts: list[PartitionRun] = []
        """Each batch's part. A batch does not name it: such a cycle would stay until the garbage collector comes."""
        self.request_count = 0
        self.topic_count = 0
        """A topic counts in each request."""
        self.end = start
        """Where the first request is that does not belong to the run."""

    def let_go(self) -> None:
        """Let the buffer be used again: nobody needs the records any more."""
        self._buffer = _NO_BYTES
        for batch in self.batches:
            batch.records = _NO_BYTES

    def begin(self, acks: int, topic: str | UUID, index: int, producer_id: int) -> PartitionRun | None:
        """Begin the part of the run for a partition and a producer; None if it is to get each batch alone."""
        raise NotImplementedError

    def read(self) -> None:
        """Read it; there is none if the first request does not belong to a run.

        The max timestamp of a header that is not credible is corrected in the buffer, as before every append.
        """
        buffer, shape = self._buffer, self.shape
        if shape is not None:
            self._read_requests(shape)
        if not self.request_count and (shape is None or not shape.fits(buffer, self.end, self._received_end)):
            shape = self.shape = shape_of(buffer[self.end + LENGTH_BYTES : self._received_end])
            if shape is not None:
                self._read_requests(shape)

    def _read_requests(self, shape: ProduceShape) -> None:
        buffer, received_end, batches = self._buffer, self._received_end, self.batches
        most_frame_bytes, middle_size = self._most_frame_bytes, len(shape.middle)
        begins: Begins
        while self.end + shape.form_bytes <= received_end:
            begins = shape.form.unpack_from(buffer, self.end)
            length, kind, correlation_id, beginning = begins
            end = self.end + LENGTH_BYTES + length
            if end > received_end or length > most_frame_bytes or kind != shape.kind:
                break
            lead, at = shape.lead, self.end + MIDDLE_AT + middle_size
            if lead is None or beginning != shape.beginning:
                is_alike = beginning[:middle_size] == shape.middle
                lead = self._read_lead(shape, at, 0, end) if is_alike else None
                if lead is None:
                    break
                shape.begin_with(lead)
            count, topic_count = len(batches), lead.topic_count
            self._allowance = None
            at = self._read_topic(shape, correlation_id, lead, at, end)
            while at >= 0 and lead.topic_count > 1:
                lead = self._read_lead(shape, at, lead.topic_count - 1, end)
                if lead is None:
                    at = _NOT_OF_A_RUN
                    break
                at = self._read_topic(shape, correlation_id, lead, at, end)
            if shape.is_flexible and at >= 0:
                # Neither the last topic nor the request has tags.
                at = at + 2 if at + 2 == end and not buffer[at] and not buffer[at + 1] else _NOT_OF_A_RUN
            if at != end:
                while len(batches) > count:
                    self.parts.pop().drop(batches.pop())
                break
            batches[-1].ends_request = True
            self.request_count += 1
            self.topic_count += topic_count
            self.end = end

    def _read_lead(self, shape: ProduceShape, at: int, topic_count: int, end: int) -> Lead | None:
        """Read what stands before the first partition of a topic. `topic_count` is 0 before the first topic."""
        buffer, start = self._buffer, at
        if at + _LEAST_BYTES > end:
            return None
        if not topic_count:
            topic_count, at = _read_count(buffer, at, shape.is_flexible)
        elif shape.is_flexible:
            if buffer[at]:
                return None  # The topic before has tags.
            at += 1
        if shape.has_ids:
            size = _UUID_BYTES
        elif shape.is_flexible:
            size, at = _compact_length(buffer, at)
        else:
            size, at = _INT16.unpack_from(buffer, at)[0], at + 2
        name_at, at = at, at + size
        if not 0 < size <= _LONGEST_NAME or at + _LEAST_BYTES > end:
            return None
        key = bytes(buffer[name_at:at])
        partition_count, at = _read_count(buffer, at, shape.is_flexible)
        if topic_count <= 0 or not 0 < partition_count <= MOST_BATCHES:
            return None
        try:
            topic: str | UUID = UUID(bytes=key) if shape.has_ids else str(key, "utf-8")
        except UnicodeDecodeError:
            return None
        return Lead(bytes(buffer[start:at]), topic_count, key, topic, partition_count)

    def _read_topic(self, shape: ProduceShape, correlation_id: int, lead: Lead, at: int, end: int) -> int:
        """Read the batches for one topic; returns where the next topic may be, or _NOT_OF_A_RUN."""
        buffer, batches, is_flexible = self._buffer, self.batches, shape.is_flexible
        if lead.partition_count > MOST_BATCHES - len(batches):
            return _NOT_OF_A_RUN
        if lead is not self._lead:
            self._lead, self._partitions = lead, self._topics.setdefault(lead.key, {})
        content, left = lead.content, lead.partition_count
        at += len(content)
        fields: _HeaderFields
        while left:
            if at + _LEAST_BYTES > end:
                return _NOT_OF_A_RUN
            if is_flexible:
                (index,) = _INT32.unpack_from(buffer, at)
                size, at = _compact_length(buffer, at + 4)
            else:
                index, size = _INT32_TWICE.unpack_from(buffer, at)
                at += 8
            batch_end = at + size
            if size < HEADER_SIZE or batch_end > end:
                return _NOT_OF_A_RUN
            fields = HEADER.unpack_from(buffer, at)
            (
                base_offset,
                batch_length,
                _,
                magic,
                crc,
                attributes,
                delta,
                base_ms,
                max_ms,
                producer_id,
                producer_epoch,
                sequence,
                count,
            ) = fields
            if (
                base_offset
                or batch_length + LENGTH_OVERHEAD != size
                or magic != MAGIC
                or attributes & _UNFIT
                or attributes & CODEC_MASK > _LAST_CODEC
                or count <= 0
                or delta != count - 1
            ):
                return _NOT_OF_A_RUN
            part = self._partitions.get(index)
            if part is None:
                part = self.begin(shape.acks, lead.topic, index, producer_id)
                if part is None:
                    return _NOT_OF_A_RUN
                self._partitions[index] = part
            if size > part.most_batch_bytes or producer_id != part.producer_id:
                return _NOT_OF_A_RUN
            if producer_id != NO_PRODUCER_ID and (
                producer_epoch != part.producer_epoch or sequence != part.next_sequence or delta > MOST_DELTA
            ):
                return _NOT_OF_A_RUN
            records = buffer[at:batch_end]
            if crc32c(records[CRC_COVERS_FROM:]) != crc:
                return _NOT_OF_A_RUN
            at = batch_end
            if is_flexible:
                if at >= end or buffer[at]:
                    return _NOT_OF_A_RUN  # it has tags
                at += 1
            if not base_ms <= max_ms or not -CREDIBLE_MS <= max_ms - self.now_ms <= CREDIBLE_MS:
                if attributes & CODEC_MASK:
                    return _NOT_OF_A_RUN  # Whoever opens it gives way to others meanwhile.
                allowance = self._allowance = self._allowance or HeaderBudget()
                max_ms = with_true_max_timestamp(records, BatchHeader._make(fields), allowance).max_timestamp_ms
            base_offset = part.next_offset
            last_offset, size_bytes = base_offset + delta, part.size_bytes + size
            if (
                size_bytes > part.most_bytes
                or len(part.batches) >= part.most_batches
                or last_offset > part.largest_offset
                or max_ms > part.latest_ms
            ):
                return _NOT_OF_A_RUN
            batch = RunBatch(correlation_id, content, records, size, base_offset, last_offset, max_ms)
            part.batches.append(batch)
            part.next_offset, part.size_bytes = last_offset + 1, size_bytes
            batches.append(batch)
            self.parts.append(part)
            content = b""
            left -= 1
        return at


def _read_count(buffer: memoryview, at: int, is_flexible: bool) -> tuple[int, int]:
    """(the length of an array, where it begins)"""
    return _compact_length(buffer, at) if is_flexible else (_INT32.unpack_from(buffer, at)[0], at + 4)


def _compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    """(the length of compact bytes, where they begin); a length of −1 if it is written in an unusual way."""
    value = shift = 0
    for _ in range(_LONGEST_VARINT):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value - 1 if byte or not shift else -1), position
        shift += 7
    return -1, position
