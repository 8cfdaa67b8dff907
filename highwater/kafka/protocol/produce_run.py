"""Reads a run of Produce requests: they came together, and differ in their batches alone.

A client that keeps requests in flight sends them one behind the other, alike but for their ids and records:

    length | key, version | correlation id | client id … topic | partition | length of records | records | tags

Those to one partition are read in one go, so that the broker can append their batches in one write, and encode their
answers at once.

A request belongs to a run only if it has one batch of one partition, no transactional id, and all that
`validate_produced` demands. What is unusual or wrong ends the run, and nothing is decided about it here: the handler
of Produce reads that request anew.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.apis import APIS, PRODUCE
from highwater.kafka.protocol.frame import LENGTH_BYTES, frame_response, read_request_header
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError
from highwater.kafka.protocol.produce import (
    ACKS_AND_TIMEOUT,
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    PartitionProduced,
    encode_response,
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
    MAX_SEQUENCE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
)
from highwater.kafka.records.checksum import crc32c
from highwater.kafka.records.produced import with_true_max_timestamp
from highwater.kafka.records.record_times import HeaderBudget

RUNS_FROM: Final = 7
"""The first version that may have every codec, so that no run has to look for zstd."""
MOST_REQUESTS: Final = 512
"""A run has no more; pwritev(2) takes 1024 pieces at most."""
ALL_SAFE: Final = 2**63 - 1
MOST_DELTA: Final = 1_000_000
"""The offsets of a batch with sequence numbers: within a run, these do not come round to where they were."""
_LONGEST_MIDDLE: Final = 1024
_UNFIT: Final = CONTROL_BIT | TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT

_INT32: Final = struct.Struct(">i")
_PRODUCED: Final = struct.Struct(">ihq")
"""Partition, error code and base offset of an answer."""
_CORRELATION_ID_AT: Final = 4
# Of fixed length, so that machine code keeps them unpacked.
_Alike: TypeAlias = tuple[int, bytes, int, bytes, int]
_HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
_LAST_CODEC: Final = int(Codec.ZSTD)
_LONGEST_VARINT: Final = 4
"""Batches have far less than 256 MiB."""
_NO_RECORDS: Final = memoryview(b"")
_NO_TAGS: Final = bytes(3)
"""The tags of the partition, the topic and the request."""


class RunBatch:
    """The batch of one request of a run."""

    __slots__ = ("correlation_id", "last_offset_delta", "max_timestamp_ms", "records")

    def __init__(self, records: memoryview, correlation_id: int, last_offset_delta: int, max_timestamp_ms: int) -> None:
        self.records = records
        self.correlation_id = correlation_id
        self.last_offset_delta = last_offset_delta
        self.max_timestamp_ms = max_timestamp_ms


class ProduceRun:
    """Requests of a run; all are of one producer, and their sequence numbers follow each other."""

    __slots__ = (
        "base_sequence",
        "batches",
        "end",
        "max_timestamp_ms",
        "partition",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    def __init__(self, partition: int, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self.partition = partition
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.batches: list[RunBatch] = []
        self.size_bytes = 0
        self.record_count = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.end = 0
        """Where the first request is that does not belong to the run."""

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + self.record_count) & MAX_SEQUENCE

    def unsafe_count(self, base_offset: int, safe_offset: int) -> int:
        """How many batches do not end at `safe_offset` or before it, if the first record has `base_offset`."""
        count = len(self.batches)
        for batch in self.batches:
            base_offset += batch.last_offset_delta + 1
            if base_offset > safe_offset:
                break
            count -= 1
        return count

    def let_go(self) -> None:
        """Let the buffer be used again: nobody needs the records any more."""
        for batch in self.batches:
            batch.records = _NO_RECORDS

    def add(self, batch: RunBatch) -> None:
        self.batches.append(batch)
        self.record_count += batch.last_offset_delta + 1
        self.size_bytes += len(batch.records)
        if batch.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = batch.max_timestamp_ms


class ProduceShape:
    """What the requests of a client to one topic have in common, as long as each is to one partition."""

    __slots__ = (
        "_answer",
        "_log_start_offset",
        "_produced_at",
        "acks",
        "form",
        "kind",
        "middle",
        "tail",
        "timeout_ms",
        "topic",
        "version",
    )

    def __init__(self, version: int, acks: int, timeout_ms: int, topic: str | UUID, kind: bytes, middle: bytes) -> None:
        """`kind`: the bytes of key and version. `middle`: those between correlation id and partition."""
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic = topic
        self.kind = kind
        self.middle = middle
        self.form = struct.Struct(f">i4si{len(middle)}si")
        self.tail = _NO_TAGS if version >= FLEXIBLE_FROM else b""
        """What ends a request."""
        self._log_start_offset = -1
        self._answer = b""
        self._produced_at = 0

    def answers(
        self,
        run: ProduceRun,
        base_offset: int,
        log_start_offset: int,
        safe_offset: int = ALL_SAFE,
        error: ErrorCode = ErrorCode.none,
    ) -> bytearray:
        """Encode the answers to a run whose first record got `base_offset`.

        Batches that do not end at `safe_offset` or before it get the error.
        """
        if log_start_offset != self._log_start_offset:
            self._prepare(log_start_offset)
        size = len(self._answer)
        out = bytearray(self._answer * len(run.batches))
        position = 0
        for batch in run.batches:
            next_offset = base_offset + batch.last_offset_delta + 1
            if next_offset <= safe_offset:
                _PRODUCED.pack_into(out, position + self._produced_at, run.partition, 0, base_offset)
            else:
                out[position : position + size] = self._encoded([PartitionProduced(run.partition, error)])
            _INT32.pack_into(out, position + _CORRELATION_ID_AT, batch.correlation_id)
            base_offset = next_offset
            position += size
        return out

    def _prepare(self, log_start_offset: int) -> None:
        produced = PartitionProduced(0, ErrorCode.none, 0, NO_TIMESTAMP, log_start_offset)
        self._answer = self._encoded([produced])
        # An empty array ends with its own tags, the throttle time, and the tags of the answer.
        self._produced_at = len(self._encoded([])) - (6 if self.version >= FLEXIBLE_FROM else 4)
        self._log_start_offset = log_start_offset

    def _encoded(self, produced: list[PartitionProduced]) -> bytes:
        parts = encode_response([(self.topic, produced)], self.version)
        return b"".join(frame_response(0, parts, flexible_header=self.version >= FLEXIBLE_FROM))

    def partition_of(self, buffer: memoryview, start: int, end: int) -> int:
        """The partition of the request that begins there; −1 if it has another shape."""
        if start + self.form.size > end:
            return -1
        alike: _Alike = self.form.unpack_from(buffer, start)
        return alike[4] if alike[1] == self.kind and alike[3] == self.middle else -1


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
        if decoder.array_length() != 1:
            return None
        topic = decoder.string() if version < TOPIC_IDS_FROM else decoder.uuid()
        if decoder.array_length() != 1:
            return None
    except MalformedRequestError:
        return None
    middle = bytes(frame[_CORRELATION_ID_AT + 4 : decoder.position])
    if acks not in (-1, 0, 1) or len(middle) > _LONGEST_MIDDLE:
        return None
    return ProduceShape(version, acks, timeout_ms, topic, bytes(frame[:_CORRELATION_ID_AT]), middle)


def read_run(
    buffer: memoryview,
    start: int,
    end: int,
    shape: ProduceShape,
    *,
    most_frame_bytes: int,
    most_batch_bytes: int,
    now_ms: int,
) -> ProduceRun | None:
    """Read the requests of the shape from `start` on; None if the first one does not belong to a run.

    The max timestamp of a header that is not credible is corrected in the buffer, as before every append.
    """
    run: ProduceRun | None = None
    alike: _Alike
    fields: _HeaderFields
    form, kind, middle, tail = shape.form, shape.kind, shape.middle, shape.tail
    records_at, tail_size = form.size + (LENGTH_BYTES if not tail else 0), len(tail)
    position = start
    while position + records_at + HEADER_SIZE <= end:
        alike = form.unpack_from(buffer, position)
        length, its_kind, correlation_id, its_middle, partition = alike
        frame_end = position + LENGTH_BYTES + length
        if frame_end > end or length > most_frame_bytes or its_kind != kind or its_middle != middle:
            break
        at = position + records_at
        if tail:
            size, at = _compact_length(buffer, at)
        else:
            size = _INT32.unpack_from(buffer, at - LENGTH_BYTES)[0]
        if size < HEADER_SIZE or size > most_batch_bytes or at + size + tail_size != frame_end:
            break
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
            producer,
            epoch,
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
            or (producer != NO_PRODUCER_ID and (sequence < 0 or delta > MOST_DELTA))
        ):
            break
        if run is not None and (
            partition != run.partition
            or producer != run.producer_id
            or (producer != NO_PRODUCER_ID and (epoch != run.producer_epoch or sequence != run.next_sequence))
            or len(run.batches) == MOST_REQUESTS
        ):
            break
        batch = buffer[at : at + size]
        if crc32c(batch[CRC_COVERS_FROM:]) != crc or (tail and buffer[at + size : frame_end] != tail):
            break
        if not base_ms <= max_ms or not -CREDIBLE_MS <= max_ms - now_ms <= CREDIBLE_MS:
            if attributes & CODEC_MASK:
                break  # Whoever opens it gives way to others meanwhile.
            max_ms = with_true_max_timestamp(batch, BatchHeader._make(fields), HeaderBudget()).max_timestamp_ms
        if run is None:
            run = ProduceRun(partition, producer, epoch, sequence)
        run.add(RunBatch(batch, correlation_id, delta, max_ms))
        run.end = position = frame_end
    return run


def _compact_length(buffer: memoryview, position: int) -> tuple[int, int]:
    """(the length of compact bytes, where they begin); a length of −1 if it is written in an unusual way."""
    value = shift = 0
    for _ in range(_LONGEST_VARINT):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, position
        shift += 7
    return -1, position
