"""Reads that may not wait for the disk: they say at once all that they need, and read what a read that waits does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import NotCached
from highwater.broker.log.files import FilePiece
from highwater.broker.log.partition_log import PartitionLog
from tests.broker.log.building import NOW_MS, ROOT, SMALL, TOPIC_ID, append, batch, open_directory
from tests.broker.log.simulated_files import SimulatedFiles

ALL = 1 << 30
BIG = LogConfig(segment_bytes=120_000, index_interval_bytes=4096)


class ColdFiles(SimulatedFiles):
    """Files whose page cache has only what was brought into it, and which refuse to read anything else."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = False
        self.may_wait = False
        self._brought: dict[Path, bytearray] = {}
        """A byte for each byte of a file: 1 if it is in the cache."""
        self.is_in_cache = self._has

    def _has(self, piece: FilePiece) -> bool:
        if not self.is_cold:
            return True
        size = min(piece.size, len(super().read(piece.path)) - piece.position)
        return self._flags(piece.path).count(1, piece.position, piece.position + size) >= size

    def _flags(self, path: Path) -> bytearray:
        return self._brought.setdefault(path, bytearray(len(super().read(path))))

    def forget(self) -> None:
        self.is_cold = True
        self._brought.clear()

    def bring(self, piece: FilePiece) -> None:
        flags = self._flags(piece.path)
        start, end = piece.position, min(piece.position + piece.size, len(flags))
        flags[start:end] = b"\1" * (end - start)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        is_there = self.may_wait or self._has(FilePiece(self._names[descriptor], position, size))
        assert is_there, f"{size} bytes at {position} were cold"
        return super().pread(descriptor, size, position)

    def pread_cached(self, descriptor: int, size: int, position: int) -> bytes | None:
        return self.pread(descriptor, size, position) if self.is_cached(descriptor, size, position) else None

    def read(self, path: Path) -> bytes:
        data = super().read(path)
        assert self._has(FilePiece(path, 0, len(data))), f"{path.name} was cold"
        return data


def a_log(config: LogConfig = SMALL, *, max_open_segments: int = 512) -> tuple[ColdFiles, PartitionLog]:
    """Some segments with batches of very different sizes, of which not all have an index entry."""
    files = ColdFiles()
    directory = open_directory(files, config=config, max_open_segments=max_open_segments)
    log = directory.create_partition("t", 0, TOPIC_ID)
    rng = random.Random(26)
    for number in range(90 if config is BIG else 60):
        size = rng.choice((1, 100, 3_000, 10_000, 30_000)) if config is BIG else rng.choice((1, 10, 100, 200))
        append(log, batch(bytes(rng.randint(1, size)), b"second", timestamp_ms=NOW_MS + number))
    assert len(log.segment_base_offsets) >= 3
    return files, log


def read_cold(
    files: ColdFiles, log: PartitionLog, offset: int, max_bytes: int, end_offset: int, *, is_first: bool = True
) -> tuple[bytes, list[Sequence[FilePiece]]]:
    """What is read in the end, and what was brought into the cache for it, in turn."""
    brought: list[Sequence[FilePiece]] = []
    for _ in range(5):
        data = log.read_cached(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
        assert not isinstance(data, ErrorCode)
        if not isinstance(data, NotCached):
            return bytes(data), brought
        for piece in data.pieces:
            files.bring(piece)
        brought.append(data.pieces)
    raise AssertionError("the read never had all that it needs")


def read(log: PartitionLog, offset: int, max_bytes: int, end_offset: int, is_first: bool) -> bytes:
    data = log.read(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
    assert not isinstance(data, ErrorCode)
    return bytes(data)


def pieces_for(log: PartitionLog, offset: int, max_bytes: int) -> Sequence[FilePiece]:
    needed = log.read_cached(offset, max_bytes, end_offset=log.log_end_offset)
    assert isinstance(needed, NotCached)
    return needed.pieces


@pytest.mark.parametrize("max_open_segments", [1, 512])
@pytest.mark.parametrize(
    ("config", "max_bytes"),
    [(SMALL, max_bytes) for max_bytes in (0, 1, 99, 150, 300, 999, 1001, ALL)]
    + [(BIG, max_bytes) for max_bytes in (0, 100, 5_000, 20_000, 50_000, 200_001)],
)
def test_a_read_says_at_once_what_it_needs_and_reads_the_same_then(
    config: LogConfig, max_bytes: int, max_open_segments: int
) -> None:
    files, log = a_log(config, max_open_segments=max_open_segments)
    end = log.log_end_offset
    for offset in range(end):
        for end_offset in {offset + 1, min(offset + 5, end), (offset + end + 1) // 2, end}:
            files.is_cold = False
            expected = read(log, offset, max_bytes, end_offset, is_first=True)
            # With one open segment the indexes of the others are not in memory now.
            read(log, 0 if offset > 60 else end - 1, 1, end, is_first=True)
            files.forget()
            data, brought = read_cold(files, log, offset, max_bytes, end_offset)
            assert data == expected
            # Indexes that are not in memory, the batch of the end offset if it is in this segment, the batches.
            assert 1 <= len(brought) <= 3 - (max_open_segments > 1) - (end_offset == end)
            read_cold(files, log, offset, max_bytes, end_offset, is_first=False)


def test_little_more_is_brought_than_the_read_may_take() -> None:
    files, log = a_log(BIG)
    largest_batch, between_entries, header_window = 30_100, 4_096, 8_192
    for offset in range(log.log_end_offset):
        for max_bytes in (100, 20_000):
            files.forget()
            _, brought = read_cold(files, log, offset, max_bytes, log.log_end_offset)
            sizes = [piece.size for pieces in brought for piece in pieces]
            assert sum(sizes) <= max(max_bytes, largest_batch) + largest_batch + between_entries + header_window


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("max_bytes", [0, 1, 99, 150, 300, 999, 1001, ALL])
def test_a_read_of_what_is_in_the_cache_needs_nothing(max_bytes: int, is_first: bool) -> None:
    _, log = a_log()
    end = log.log_end_offset
    for offset in range(end):
        for end_offset in {offset, min(offset + 5, end), end}:
            data = log.read_cached(offset, max_bytes, end_offset=end_offset, at_least_one_batch=is_first)
            assert data == read(log, offset, max_bytes, end_offset, is_first=is_first)


def test_after_a_read_that_found_too_little_in_the_cache_others_wait_for_the_disk_again() -> None:
    files, log = a_log()
    files.forget()
    pieces_for(log, 0, 100)
    with pytest.raises(AssertionError, match="were cold"):
        read(log, 0, 100, log.log_end_offset, is_first=True)


def test_a_gap_at_the_end_of_a_segment_is_followed_to_the_next_one() -> None:
    files, log = a_log()
    base_offset, next_base = log.segment_base_offsets[1:3]
    segment = log._segments.all[1]
    position, _ = segment.find(next_base - 1) or (0, None)
    segment.truncate(next_base - 2)  # as compaction leaves a segment
    assert base_offset < next_base - 2
    assert position > 0
    segment.is_sealed = True
    expected = read(log, next_base - 1, 200, log.log_end_offset, is_first=True)
    files.forget()
    data, brought = read_cold(files, log, next_base - 1, 200, log.log_end_offset)
    assert data == expected
    names = [[piece.path.name for piece in pieces] for pieces in brought]
    assert names == [[f"{base_offset:020d}.log"], [f"{next_base:020d}.log"]]


def test_indexes_that_are_not_in_the_cache_are_brought_with_the_end_of_the_log() -> None:
    files, log = a_log(max_open_segments=1)
    files.forget()
    assert [piece.path.suffix for piece in pieces_for(log, 0, 100)] == [".index", ".timeindex", ".log"]


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_damaged_index_is_still_made_anew(is_missing: bool) -> None:
    files, log = a_log(max_open_segments=1)
    end = log.log_end_offset
    expected = read(log, 0, 300, end, is_first=True)
    read(log, end - 1, 1, end, is_first=True)
    index = ROOT / "t-0" / "00000000000000000000.index"
    if is_missing:
        files.remove(index)
    else:
        files.overwrite(index, b"\0\0\0\5\0\0\0\3")
    assert read_cold(files, log, 0, 300, end) == (expected, [])


@pytest.mark.parametrize("damaged", [".index", ".timeindex"])
def test_indexes_that_are_made_anew_are_whole_although_their_batches_are_cold(damaged: str) -> None:
    files, log = a_log(BIG, max_open_segments=1)
    files.may_wait = True
    segment, end = log._segments.all[0], log.log_end_offset
    read(log, 0, 300, end, is_first=True)
    entries, largest = segment.offset_index.entries, segment.largest_timestamp
    assert len(entries) > 5
    read(log, end - 1, 1, end, is_first=True)
    index = ROOT / "t-0" / f"00000000000000000000{damaged}"
    content = files.read(index)
    # An entry of the offset index points into a batch; the last one of the time index has another time.
    at, changed = (3 * 8 + 7, 1) if damaged == ".index" else (len(content) - 12 + 7, 0x7F)
    files.overwrite(index, content[:at] + bytes([content[at] ^ changed]) + content[at + 1 :])
    files.forget()
    for offset in range(entries[3][0], log.segment_base_offsets[1]):
        read_cold(files, log, offset, 300, end)
    assert segment.indexes.are_sound
    assert (segment.offset_index.entries, segment.largest_timestamp) == (entries, largest)


def test_a_damaged_batch_is_reported_as_such() -> None:
    files, log = a_log()
    path = ROOT / "t-0" / "00000000000000000000.log"
    content = bytearray(files.read(path))
    content[16] = 1  # the magic byte of the first batch
    files.overwrite(path, bytes(content))
    assert log.read_cached(0, 300, end_offset=log.log_end_offset) is ErrorCode.corrupt_message


def test_offsets_that_cannot_be_read_need_no_file() -> None:
    files, log = a_log()
    files.forget()
    end = log.log_end_offset
    assert log.read_cached(10_000, 1, end_offset=end) is ErrorCode.offset_out_of_range
    assert log.read_cached(end, 1, end_offset=end) == b""


def test_what_the_disk_could_not_read_is_reported_once_where_it_was_needed(caplog: pytest.LogCaptureFixture) -> None:
    files, log = a_log()
    files.forget()
    end = log.log_end_offset
    needed, others = pieces_for(log, 0, 100), pieces_for(log, end - 1, 100)
    log.not_brought(needed, OSError(5, "Input/output error"))
    assert log.read_cached(0, 100, end_offset=end) is ErrorCode.kafka_storage_error
    assert caplog.messages == ["t-0 cannot be read at offset 0: [Errno 5] Input/output error"]
    assert pieces_for(log, 0, 100) == needed
    log.not_brought(needed, OSError(5, "Input/output error"))
    assert pieces_for(log, end - 1, 100) == others
