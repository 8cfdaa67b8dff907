"""The `.log` file of a segment: batches one after the other, and the descriptor of the open file.

Invariants:
- `size_bytes` is where the next batch is written; bytes after it are leftovers of a failed write, to be overwritten.
- A pinned file keeps its descriptor: another thread syncs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from highwater.broker.log.errors import NotCached
from highwater.broker.log.files import FileOperations, FilePiece, Stamp
from highwater.broker.log.open_segments import OpenSegments
from highwater.kafka.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, ReadableBuffer, read_header
from highwater.kafka.records.batch import headers as whole_headers

# How much is read at once: for headers about the distance of two index entries, for whole batches what stays in the
# cache of the processor until its CRC is computed.
HEADER_WINDOW_BYTES: Final = 8 * 1024
WINDOW_BYTES: Final = 256 * 1024


class SegmentFile:
    """What a segment is without its indexes."""

    def __init__(self, files: FileOperations, path: Path, open_segments: OpenSegments, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._files = files
        self._path = path
        self._open_segments = open_segments
        self._descriptor: int | None = None
        self._pins = 0
        self._release_when_unpinned = False
        self._may_wait = True
        """Whether reads may wait for the disk."""
        self._may_have_rest = True
        """Whether the file may have more than the records: reserved blocks, or bytes of a write that failed.

        Of a segment that an earlier run made nobody knows.
        """

    # Batches

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch from `position` on. CorruptBatch where the bytes are no batch."""
        end = self.size_bytes
        window: bytes | bytearray = b""
        window_start = position
        while position < end:
            at = position - window_start
            if at + HEADER_SIZE > len(window):
                window = self._pread(min(HEADER_WINDOW_BYTES, end - position), position)
                window_start, at = position, 0
            header = read_header(window, at)
            if position + header.size_bytes > end:
                raise CorruptBatch(f"the batch at {position} is cut off: {end - position} of {header.size_bytes} bytes")
            yield position, header
            position += header.size_bytes

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """(position, header, bytes) of every batch from `position` on. CorruptBatch where the bytes are no batch.

        The bytes are those of the batch until the next one is asked for.
        """
        buffer = self._buffer(position)
        while position < self.size_bytes:
            buffer, window = self._window(buffer, position)
            start = position
            for at, header in whole_headers(window):
                size = header.size_bytes
                yield start + at, header, window[at : at + size]
                position = start + at + size

    def _buffer(self, position: int) -> memoryview:
        """A buffer for `_window`, to read the file from `position` on."""
        return memoryview(bytearray(min(WINDOW_BYTES, self.size_bytes - position)))

    def _window(self, buffer: memoryview, position: int) -> tuple[memoryview, memoryview]:
        """(buffer, what it has now of the file from `position` on), which begins with a whole batch.

        The buffer is another one if the batch is larger. CorruptBatch if there is no whole batch.
        """
        window = self._fill(buffer, position)
        size = read_header(window).size_bytes
        if position + size > self.size_bytes:
            left = self.size_bytes - position
            raise CorruptBatch(f"the batch at {position} is cut off: {left} of {size} bytes")
        if size > len(window):
            buffer = memoryview(bytearray(size))
            window = self._fill(buffer, position)
        return buffer, window

    def _fill(self, buffer: memoryview, position: int) -> memoryview:
        window = buffer[: self.size_bytes - position]
        found = self._files.pread_into(self._open(), window, position)
        if found < len(window):
            raise self._ends_at(position + found)
        return window

    def _header_at(self, position: int) -> BatchHeader | None:
        """None if no whole batch is there."""
        try:
            header = read_header(self._pread(HEADER_SIZE, position))
        except CorruptBatch:
            return None
        return header if position + header.size_bytes <= self.size_bytes else None

    def stamp(self) -> Stamp:
        return self._files.stamp(self._path)

    # The descriptor

    def pin(self) -> int:
        """The descriptor, which stays open until `unpin`."""
        descriptor = self._open()
        self._pins += 1
        return descriptor

    def unpin(self) -> None:
        self._pins -= 1
        if self._pins == 0 and self._release_when_unpinned:
            self.release()

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def release(self) -> None:
        """Close the descriptor; the next use opens the file again. Of a pinned file only the last `unpin` does so."""
        self._open_segments.released(self)
        self._release_when_unpinned = self._pins > 0
        if self._pins == 0 and self._descriptor is not None:
            self._files.close(self._descriptor)
            self._descriptor = None

    def _write(self, data: ReadableBuffer) -> int:
        """Write at the end of the segment; returns the position of the data."""
        position = self.size_bytes
        descriptor = self._open()
        try:
            self._files.pwrite(descriptor, data, position)
        except OSError as error:
            self._cut_off(descriptor, error)
            raise
        self.size_bytes = position + len(data)
        return position

    def _write_all(self, pieces: Sequence[ReadableBuffer], size_bytes: int) -> int:
        """The same with several pieces, of so many bytes in all."""
        if len(pieces) == 1:
            return self._write(pieces[0])
        position = self.size_bytes
        descriptor = self._open()
        try:
            self._files.pwritev(descriptor, pieces, position)
        except OSError as error:
            self._cut_off(descriptor, error)
            raise
        self.size_bytes = position + size_bytes
        return position

    def _cut_off(self, descriptor: int, error: OSError) -> None:
        """Remove what a failed write has left."""
        try:
            self._files.truncate(descriptor, self.size_bytes)
        except OSError as second:
            self._may_have_rest = True
            error.add_note(f"and what was written of the batch could not be cut off again: {second}")

    def _pread(self, size: int, position: int) -> bytes | bytearray:
        if not self._may_wait:
            cached = self._files.pread_cached(self._open(), size, position)
            if cached is None:
                raise NotCached([FilePiece(self._path, position, size)])
            return cached
        data = self._files.pread(self._open(), size, position)
        if len(data) < size:
            raise self._ends_at(position + len(data))
        return data

    def _ends_at(self, position: int) -> CorruptBatch:
        return CorruptBatch(f"{self._path} ends at {position}, before its {self.size_bytes} bytes")

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = self._files.open(self._path)
        self._open_segments.used(self)
        return self._descriptor
