"""Reads a run of Produce requests: the first that a client has sent, as far as all of them are usual.

A request belongs to a run only if it has no transactional id, one batch for each of its partitions, and all that
`validate_produced` demands. What is unusual or wrong ends the run, and nothing is decided about it here: the handler
of Produce reads that request anew.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias
from uuid import UUID

from highwater.kafka.protocol.frame import LENGTH_BYTES
from highwater.kafka.protocol.produce_run import (
    MIDDLE_AT,
    MOST_DELTA,
    Begins,
    Lead,
    PartitionRun,
    ProduceRun,
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

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT32_TWICE: Final = struct.Struct(">ii")
# Of fixed length, so that machine code keeps it unpacked.
_HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]

Begin = Callable[[int, str | UUID, int, int], PartitionRun | None]
"""Begins the part of a run with these acks for a topic, an index and a producer; None if the partition is to get each
batch alone."""


class RunReader:
    """Reads the run at the front of what a client has sent."""

    __slots__ = (
        "_allowance",
        "_begin",
        "_buffer",
        "_end",
        "_most_frame_bytes",
        "_now_ms",
        "_topics",
        "run",
        "shape",
    )

    def __init__(
        self,
        buffer: memoryview,
        start: int,
        end: int,
        shape: ProduceShape | None,
        begin: Begin,
        *,
        most_frame_bytes: int,
        now_ms: int,
    ) -> None:
        self._buffer = buffer
        self._end = end
        self.shape = shape
        """The last request that may be in a run has it."""
        self._begin = begin
        self._most_frame_bytes = most_frame_bytes
        self._now_ms = now_ms
        self._topics: dict[bytes, dict[int, PartitionRun]] = {}
        """The key is the name or id as it stands in the request, then the index."""
        self._allowance: HeaderBudget | None = None
        """The request that is being read has it, once it needs one."""
        self.run = ProduceRun(start)

    def read(self) -> ProduceRun | None:
        """None if the first request does not belong to a run.

        The max timestamp of a header that is not credible is corrected in the buffer, as before every append.
        """
        run, shape = self.run, self.shape
        if shape is not None:
            self._read_requests(shape)
        if not run.request_count and (shape is None or not shape.fits(self._buffer, run.end, self._end)):
            shape = self.shape = shape_of(self._buffer[run.end + LENGTH_BYTES : self._end])
            if shape is not None:
                self._read_requests(shape)
        return run if run.request_count else None

    def _read_requests(self, shape: ProduceShape) -> None:
        run, buffer, buffer_end = self.run, self._buffer, self._end
        most_frame_bytes, batches = self._most_frame_bytes, self.run.batches
        begins: Begins
        middle_size = len(shape.middle)
        while run.end + shape.form.size <= buffer_end:
            begins = shape.form.unpack_from(buffer, run.end)
            length, kind, correlation_id, beginning = begins
            end = run.end + LENGTH_BYTES + length
            if end > buffer_end or length > most_frame_bytes or kind != shape.kind:
                break
            lead, topics_at = shape.lead, run.end + MIDDLE_AT + middle_size
            if lead is None or beginning != shape.beginning:
                is_alike = beginning[:middle_size] == shape.middle
                lead = self._read_lead(shape, topics_at, 0, end) if is_alike else None
                if lead is None:
                    break
                shape.begin_with(lead)
            count = len(batches)
            if self._read_topics(shape, correlation_id, lead, topics_at, end) != end:
                while len(batches) > count:
                    last = batches.pop()
                    last.partition.drop(last)
                break
            batches[-1].ends_request = True
            run.request_count += 1
            run.topic_count += lead.topic_count
            run.end = end

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

    def _read_topics(self, shape: ProduceShape, correlation_id: int, lead: Lead, at: int, end: int) -> int:
        """Read the batches of a request, and its end; returns where that is, or _NOT_OF_A_RUN."""
        self._allowance = None
        while True:
            if lead.partition_count > MOST_BATCHES - len(self.run.batches):
                return _NOT_OF_A_RUN
            partitions = self._topics.get(lead.key)
            if partitions is None:
                partitions = self._topics[lead.key] = {}
            content, at = lead.content, at + len(lead.content)
            for _ in range(lead.partition_count):
                at = self._read_batch(shape, correlation_id, lead.topic, partitions, content, at, end)
                if at < 0:
                    return _NOT_OF_A_RUN
                content = b""
            if lead.topic_count == 1:
                break
            following = self._read_lead(shape, at, lead.topic_count - 1, end)
            if following is None:
                return _NOT_OF_A_RUN
            lead = following
        tail = shape.tail
        return at + len(tail) if not tail or self._buffer[at : at + len(tail)] == tail else _NOT_OF_A_RUN

    def _read_batch(
        self,
        shape: ProduceShape,
        correlation_id: int,
        topic: str | UUID,
        partitions: dict[int, PartitionRun],
        lead: bytes,
        at: int,
        end: int,
    ) -> int:
        """Read the batch for one partition; returns where the next one may be, or _NOT_OF_A_RUN."""
        if at + _LEAST_BYTES > end:
            return _NOT_OF_A_RUN
        buffer, is_flexible = self._buffer, shape.is_flexible
        if is_flexible:
            (index,) = _INT32.unpack_from(buffer, at)
            size, at = _compact_length(buffer, at + 4)
        else:
            index, size = _INT32_TWICE.unpack_from(buffer, at)
            at += 8
        batch_end = at + size
        if size < HEADER_SIZE or batch_end > end:
            return _NOT_OF_A_RUN
        fields: _HeaderFields = HEADER.unpack_from(buffer, at)
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
        partition = partitions.get(index)
        if partition is None:
            partition = self._begin(shape.acks, topic, index, producer_id)
            if partition is None:
                return _NOT_OF_A_RUN
            partitions[index] = partition
        if size > partition.most_batch_bytes or producer_id != partition.producer_id:
            return _NOT_OF_A_RUN
        if producer_id != NO_PRODUCER_ID and (
            producer_epoch != partition.producer_epoch or sequence != partition.next_sequence or delta > MOST_DELTA
        ):
            return _NOT_OF_A_RUN
        records = buffer[at:batch_end]
        if crc32c(records[CRC_COVERS_FROM:]) != crc:
            return _NOT_OF_A_RUN
        if is_flexible:
            if batch_end >= end or buffer[batch_end]:
                return _NOT_OF_A_RUN  # it has tags
            batch_end += 1
        if not base_ms <= max_ms or not -CREDIBLE_MS <= max_ms - self._now_ms <= CREDIBLE_MS:
            if attributes & CODEC_MASK:
                return _NOT_OF_A_RUN  # Whoever opens it gives way to others meanwhile.
            allowance = self._allowance = self._allowance or HeaderBudget()
            max_ms = with_true_max_timestamp(records, BatchHeader._make(fields), allowance).max_timestamp_ms
        batch = RunBatch(partition, correlation_id, lead, records, partition.next_offset + delta, max_ms)
        if not partition.add(batch):
            return _NOT_OF_A_RUN
        self.run.batches.append(batch)
        return batch_end


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
