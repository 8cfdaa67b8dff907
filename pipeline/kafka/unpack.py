"""The records of several batches, uncompressed and in one piece of memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from highwater.kafka.records.batch import Codec, CorruptBatch
from highwater.kafka.records.compress import decompress
from highwater.pipeline.kafka.batches import RECORD_BYTES_MIN, TOO_MANY_RECORDS, Batches, Partition
from highwater.pipeline.kafka.records import Octets, Region

_BODY_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The records of `batches`; `regions` say where in `body` those of each batch are."""

    batches: Batches
    body: memoryview
    regions: list[Region]

    @property
    def octets(self) -> Octets:
        return np.frombuffer(self.body, np.uint8)

    def only(self, index: int) -> Unpacked:
        """The records of one batch."""
        batch = self.batches.where(np.arange(len(self.batches)) == index)
        return Unpacked(batch, self.body, [self.regions[index]])


def unpack(data: memoryview, batches: Batches, of: Partition) -> Unpacked:
    """Decompress what is compressed; without compression, `body` is `data` itself.

    Stops before the batch with which more than 256 MiB would be unpacked, as compressed records can be larger than the
    memory: `batches` of the result are then fewer. Raises RecordsError for what cannot be decompressed.
    """
    codecs = batches.codec
    places = zip(batches.records_position.tolist(), batches.end.tolist(), batches.record_count.tolist(), strict=True)
    if not codecs.any():
        return Unpacked(batches, data, [Region(start, end, count) for start, end, count in places])
    pieces: list[bytes | memoryview] = []
    regions = []
    size_bytes = 0
    for index, (start, end, count) in enumerate(places):
        codec = Codec(int(codecs[index]))
        try:
            piece = data[start:end] if codec is Codec.NONE else decompress(codec, data[start:end])
        except CorruptBatch as error:
            of.refuse(int(batches.base_offset[index]), f"a batch of {end - start} bytes cannot be unpacked: {error}")
        if count > len(piece) // RECORD_BYTES_MIN:
            of.refuse(int(batches.base_offset[index]), f"{TOO_MANY_RECORDS}; the log is damaged")
        if pieces and size_bytes + len(piece) > _BODY_BYTES_MAX:
            batches = batches.where(np.arange(len(batches)) < index)
            break
        pieces.append(piece)
        regions.append(Region(size_bytes, size_bytes + len(piece), count))
        size_bytes += len(piece)
    return Unpacked(batches, memoryview(b"".join(pieces)), regions)
