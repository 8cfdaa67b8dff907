"""One partition's log in use: appending, rolling, reading, looking up, flushing, failing writes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.log.segment import Segment
from highwater.kafka.records.batch import Codec, TimestampType, headers, read_header, update_crc
from highwater.kafka.records.record import Record, decode_batch, encode_batch
from tests.broker.log.building import (
    NOW_MS,
    ROOT,
    SMALL,
    append,
    batch,
    flush,
    new_log,
    open_directory,
    read_all,
    try_append,
)
from tests.broker.log.simulated_files import SimulatedFiles


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


@pytest.fixture
def log(files: SimulatedFiles) -> Iterator[PartitionLog]:
    directory, log = new_log(files)
    yield log
    directory.close()
    assert files.open_descriptors == 0


def offsets(data: bytes | bytearray | ErrorCode) -> list[int]:
    assert not isinstance(data, ErrorCode)
    found = [(header.base_offset, header.last_offset) for _, header in headers(data)]
    assert sum(header.size_bytes for _, header in headers(data)) == len(data)
    return [offset for pair in found for offset in range(pair[0], pair[1] + 1)]


def fill(log: PartitionLog, batches: int, values: int = 3) -> None:
    for i in range(batches):
        append(log, batch(*(b"batch %d value %d" % (i, j) for j in range(values)), timestamp_ms=NOW_MS + i))


# Appending and rolling


def test_offsets_and_epochs_are_stamped_in_place(log: PartitionLog) -> None:
    assert append(log, batch(b"a", b"b"), leader_epoch=3) == Appended(0, 1, -1, duplicate=False)
    records = batch(b"c")
    assert append(log, records, leader_epoch=4) == Appended(2, 2, -1, duplicate=False)
    header = read_header(records)
    assert (header.base_offset, header.leader_epoch) == (2, 4)
    assert (log.log_end_offset, log.leader_epochs.entries) == (3, [(3, 0), (4, 2)])
    assert log.offset_for_leader_epoch(3) == (3, 2)
    assert log.read(0, 1000, end_offset=3) == log.read(0, 1000, end_offset=2) + bytes(records)  # type: ignore[operator]


def test_bytes_behind_the_batch_are_not_taken(log: PartitionLog) -> None:
    records = batch(b"a")
    size = len(records)
    append(log, records + batch(b"b")[:20])
    append(log, batch(b"c"))
    assert log.size_bytes == 2 * size
    assert read_all(log) == [(0, b"a"), (1, b"c")]


def test_log_append_time() -> None:
    directory, log = new_log(SimulatedFiles(), replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    records = batch(b"a", b"b", timestamp_ms=5, producer_id=1, producer_epoch=0, base_sequence=0)
    again = bytearray(records)
    assert append(log, records, now_ms=777) == Appended(0, 1, 777, duplicate=False)
    assert append(log, again, now_ms=999) == Appended(0, 1, 777, duplicate=True)
    data = log.read(0, 1000, end_offset=2)
    assert isinstance(data, bytes)
    assert [record.timestamp_ms for record in decode_batch(data)] == [777, 777]
    assert log.max_timestamp() == (777, 0)
    directory.close()


def test_a_repeated_batch_is_not_written_twice(log: PartitionLog) -> None:
    first = batch(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    second = batch(b"c", producer_id=1, producer_epoch=0, base_sequence=2)
    retries = bytearray(first), bytearray(second)
    append(log, first)
    append(log, batch(b"of somebody else"))
    append(log, second)
    assert [append(log, retry) for retry in retries] == [
        Appended(0, 1, NOW_MS, duplicate=True),
        Appended(3, 3, NOW_MS, duplicate=True),
    ]
    gap = batch(b"e", producer_id=1, producer_epoch=0, base_sequence=4)
    assert try_append(log, gap) is ErrorCode.out_of_order_sequence_number
    assert log.log_end_offset == 4


def test_rolling_by_size(log: PartitionLog) -> None:
    fill(log, 40)
    assert len(log.segment_base_offsets) > 3
    assert [value for _, value in read_all(log)] == [b"batch %d value %d" % (i, j) for i in range(40) for j in range(3)]


def test_a_segment_may_be_filled_to_the_last_byte() -> None:
    size = len(batch(b"abc"))
    directory, log = new_log(SimulatedFiles(), replace(SMALL, segment_bytes=3 * size))
    for _ in range(7):
        append(log, batch(b"abc"))
    assert list(log.segment_base_offsets) == [0, 3, 6]
    assert try_append(log, batch(bytes(3 * size))) is ErrorCode.record_list_too_large
    directory.close()


def test_rolling_by_age_goes_by_the_records_time() -> None:
    directory, log = new_log(SimulatedFiles(), replace(SMALL, segment_ms=1000))
    append(log, batch(b"a", timestamp_ms=5000), now_ms=0)
    append(log, batch(b"b", timestamp_ms=6000), now_ms=10**9)
    assert list(log.segment_base_offsets) == [0]
    append(log, batch(b"c", timestamp_ms=6001), now_ms=0)
    assert list(log.segment_base_offsets) == [0, 2]
    directory.close()


def test_rolling_by_age_without_timestamps_goes_by_the_clock() -> None:
    directory, log = new_log(SimulatedFiles(), replace(SMALL, segment_ms=1000))
    append(log, batch(b"a", timestamp_ms=-1))
    append(log, batch(b"b", timestamp_ms=-1), now_ms=NOW_MS + 1000)
    assert list(log.segment_base_offsets) == [0]
    append(log, batch(b"c", timestamp_ms=-1), now_ms=NOW_MS + 1001)
    assert list(log.segment_base_offsets) == [0, 2]
    directory.close()


def test_rolling_by_a_full_index() -> None:
    directory, log = new_log(SimulatedFiles(), LogConfig(index_interval_bytes=0, segment_index_bytes=32))
    for _ in range(10):
        append(log, batch(b"x", timestamp_ms=-1))
    assert list(log.segment_base_offsets) == [0, 5]
    directory.close()


def test_rolling_by_offsets_that_an_index_cannot_tell(log: PartitionLog) -> None:
    append(log, batch(b"x"))
    log.log_end_offset = 2**31 - 1
    append(log, batch(b"y"))
    assert list(log.segment_base_offsets) == [0]
    append(log, batch(b"z"))
    assert list(log.segment_base_offsets) == [0, 2**31]


# Reading


def test_a_read_gives_whole_batches_within_the_limit(log: PartitionLog) -> None:
    fill(log, 5)
    size = read_header(log.read(0, 10_000, end_offset=3)).size_bytes  # type: ignore[arg-type]
    for limit, batches in [(0, 0), (size - 1, 0), (size, 1), (2 * size - 1, 1), (2 * size, 2), (10_000, 5)]:
        assert offsets(log.read(0, limit, end_offset=15)) == list(range(3 * batches))
        assert len(offsets(log.read(0, limit, end_offset=15, at_least_one_batch=True))) == max(3, 3 * batches)


def test_an_offset_inside_a_batch_gives_the_whole_batch(log: PartitionLog) -> None:
    fill(log, 3)
    for offset in range(9):
        assert offsets(log.read(offset, 10_000, end_offset=9)) == list(range(offset // 3 * 3, 9))


def test_nothing_at_or_after_the_end_offset_is_given(log: PartitionLog) -> None:
    fill(log, 30)
    for end_offset in range(91):
        expected = list(range(end_offset // 3 * 3))
        found: list[int] = []
        while len(found) < len(expected):
            found += offsets(log.read(len(found), 300, end_offset=end_offset))
        assert found == expected
        assert log.read(end_offset, 300, end_offset=end_offset) == b""


def test_offsets_out_of_range(log: PartitionLog) -> None:
    fill(log, 2)
    assert log.read(6, 100, end_offset=6) == b""
    assert log.read(7, 100, end_offset=6) is ErrorCode.offset_out_of_range
    assert log.read(-1, 100, end_offset=6) is ErrorCode.offset_out_of_range
    log.advance_log_start_offset(2)
    assert log.read(1, 100, end_offset=6) is ErrorCode.offset_out_of_range
    assert offsets(log.read(2, 10_000, end_offset=6)) == list(range(6))


def test_a_gap_leads_to_the_next_segment(log: PartitionLog) -> None:
    fill(log, 3)
    log.log_end_offset = 2**31  # As compaction leaves it: the last records of the first segment are gone.
    append(log, batch(b"after the gap"))
    assert offsets(log.read(500, 10_000, end_offset=2**31 + 1)) == [2**31]


def test_every_offset_is_found_whatever_the_sizes() -> None:
    directory, log = new_log(SimulatedFiles(), replace(SMALL, segment_bytes=40_000))
    for i in range(60):
        append(log, batch(*[bytes((i * 331) % 9000)] * (i % 4 + 1)))
    for offset in range(log.log_end_offset):
        for limit in (0, 100, 9000, 40_000):
            found = offsets(log.read(offset, limit, end_offset=log.log_end_offset, at_least_one_batch=True))
            assert found[0] <= offset <= found[-1]
    directory.close()


# Timestamps


def test_lookup_by_timestamp_finds_the_first_record_not_before_it() -> None:
    directory, log = new_log(SimulatedFiles())
    times = [100, 120, 110, 90, 200, 150, 150, 300, 250]
    for i in range(60):
        records = [Record(b"%d" % j, timestamp_ms=1000 * i + time) for j, time in enumerate(times)]
        append(log, encode_batch(records, codec=Codec(i % 5)))
    everything = [(1000 * i + time, 9 * i + j) for i in range(60) for j, time in enumerate(times)]
    assert len(log.segment_base_offsets) > 5
    for target in [0, 100, 101, 115, 121, 299, 300, 301, 7250, 7251, 30_160, 59_300, 59_301]:
        expected = next((found for found in everything if found[0] >= target), None)
        assert log.offset_for_timestamp(target, 10**6) == expected
        if expected is not None:
            assert log.offset_for_timestamp(target, expected[1]) is None
            assert log.offset_for_timestamp(target, expected[1] + 1) == expected
    assert log.max_timestamp() == (59_300, 59 * 9 + 7)
    log.advance_log_start_offset(5)
    assert log.offset_for_timestamp(0, 10**6) == (150, 5)
    directory.close()


def test_lookup_by_timestamp_in_a_log_out_of_order(log: PartitionLog) -> None:
    for i in range(60):
        append(log, batch(b"x", timestamp_ms=NOW_MS + (i * 37) % 60))
    for target in range(60):
        expected = next((NOW_MS + (i * 37) % 60, i) for i in range(60) if (i * 37) % 60 >= target)
        assert log.offset_for_timestamp(NOW_MS + target, 60) == expected
    assert log.max_timestamp()[0] == NOW_MS + 59


def test_timestamps_of_logs_without_any(log: PartitionLog) -> None:
    assert log.max_timestamp() == (-1, -1)
    assert log.offset_for_timestamp(0, 10) is None
    append(log, batch(b"x", timestamp_ms=-1))
    assert log.max_timestamp() == (-1, -1)
    assert log.offset_for_timestamp(0, 10) is None


def test_a_batch_that_cannot_be_opened_answers_by_its_header(log: PartitionLog) -> None:
    records = encode_batch([Record(b"x", timestamp_ms=50), Record(b"y", timestamp_ms=60)], codec=Codec.ZSTD)
    records[61:] = bytes(len(records) - 61)
    update_crc(records, 0, len(records))
    append(log, records)
    assert log.offset_for_timestamp(55, 10) == (60, 0)


# Flushing


def test_the_recovery_point_moves_when_the_flush_is_complete(files: SimulatedFiles, log: PartitionLog) -> None:
    flush(log)
    assert log.begin_flush() is None
    append(log, batch(b"a"))
    ticket = log.begin_flush()
    assert ticket is not None
    assert log.begin_flush() is None  # one at a time
    append(log, batch(b"b"))
    ticket.sync()
    assert log.recovery_point == 0
    log.complete_flush(ticket)
    assert (log.recovery_point, log.unflushed_messages) == (1, 1)
    flush(log)
    assert (log.recovery_point, log.unflushed_messages) == (2, 0)
    assert files.read(ROOT / "t-0" / "leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_failed_flush_leaves_everything_to_the_next(files: SimulatedFiles, log: PartitionLog) -> None:
    fill(log, 20)
    ticket = log.begin_flush()
    assert ticket is not None
    files.fail_at[files.changes_made + 2] = errno.EIO
    with pytest.raises(OSError, match="injected"):
        ticket.sync()
    log.complete_flush(ticket)
    assert log.recovery_point == 0
    flush(log)
    assert log.recovery_point == 60


def test_a_flush_that_cannot_begin_holds_nothing(files: SimulatedFiles, log: PartitionLog) -> None:
    fill(log, 40)
    pins = Segment.pin
    pinned: list[Segment] = []

    def pin_two(segment: Segment) -> int:
        if len(pinned) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        pinned.append(segment)
        return pins(segment)

    with patch.object(Segment, "pin", pin_two), pytest.raises(OSError, match="Too many"):
        log.begin_flush()
    flush(log)
    assert log.unflushed_messages == 0


def test_when_a_flush_is_due() -> None:
    directory, log = new_log(SimulatedFiles(), replace(SMALL, flush_messages=3, flush_ms=500))
    assert not log.flush_is_due(NOW_MS + 10**6)
    append(log, batch(b"a", b"b"))
    assert not log.flush_is_due(NOW_MS + 499)
    assert log.flush_is_due(NOW_MS + 500)
    append(log, batch(b"c"))
    assert log.flush_is_due(NOW_MS)
    flush(log)
    assert not log.flush_is_due(NOW_MS + 10**6)
    directory.close()


def test_a_sealed_segment_makes_a_flush_due(log: PartitionLog) -> None:
    while len(log.segment_base_offsets) < 2:
        assert not log.flush_is_due(NOW_MS + 10**12)
        append(log, batch(bytes(100)))
    assert log.flush_is_due(NOW_MS)
    flush(log)
    assert not log.flush_is_due(NOW_MS)


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_seal_truncates_only_what_was_reserved(files: SimulatedFiles, preallocate: bool) -> None:
    """ftruncate(2) waits while the last page is written back, and the whole broker with it."""
    directory, log = new_log(files, replace(SMALL, preallocate=preallocate))
    append(log, batch(b"x"))
    with patch.object(SimulatedFiles, "truncate", autospec=True, side_effect=SimulatedFiles.truncate) as truncate:
        directory.close()
        assert len(log.segment_sizes) == 1
        assert (log.segment_sizes[0][1] in [call.args[2] for call in truncate.call_args_list]) == preallocate


def test_a_seal_removes_what_is_left_of_a_failed_write(files: SimulatedFiles) -> None:
    directory, log = new_log(files)
    append(log, batch(b"x"))
    size = log.size_bytes
    files.fail_at = {files.changes_made: errno.EIO, files.changes_made + 1: errno.EIO}  # the write, and its removal
    with pytest.raises(OSError, match="injected failure"):
        append(log, batch(b"y" * 500))
    files.fail_at.clear()
    file = ROOT / "t-0" / "00000000000000000000.log"
    assert len(files.read(file)) > size
    directory.close()
    assert len(files.read(file)) == size


def test_a_partition_may_be_deleted_while_it_is_flushed(files: SimulatedFiles) -> None:
    directory, log = new_log(files)
    fill(log, 20)
    ticket = log.begin_flush()
    assert ticket is not None
    directory.delete_partition("t", 0)
    directory.purge_deleted()
    ticket.sync()
    log.complete_flush(ticket)
    directory.close()
    assert files.open_descriptors == 0


# Failing disks


def test_a_full_disk_leaves_the_log_as_it_was_at_every_operation() -> None:
    """Whatever operation of an append fails, later appends go on where the last good one ended."""
    number = 0
    has_failed = True
    while has_failed:
        files = SimulatedFiles()
        directory, log = new_log(files)
        start = files.changes_made
        expected: list[tuple[int, bytes | None]] = []
        files.fail_at[start + number] = errno.ENOSPC
        has_failed = False
        for i in range(25):
            value = b"value %d " % i * 5
            records = batch(value, producer_id=1, producer_epoch=0, base_sequence=len(expected))
            try:
                assert append(log, records).base_offset == len(expected)
            except OSError:
                has_failed = True
                continue
            expected.append((len(expected), value))
        assert read_all(log) == expected
        assert len(expected) == 25 - has_failed
        files.fail_at.clear()
        if number % 2:
            directory.close()
            assert files.open_descriptors == 0
        directory = open_directory(files.restarted())
        assert read_all(directory.logs["t", 0]) == expected
        directory.close()
        number += 1
    assert number > 25


def test_a_write_that_cannot_be_undone_says_so_and_is_covered_by_the_next(
    files: SimulatedFiles, log: PartitionLog
) -> None:
    files.fail_at = {files.changes_made: errno.EIO, files.changes_made + 1: errno.EIO}
    with pytest.raises(OSError, match="injected") as caught:
        append(log, batch(b"lost " * 20))
    assert "could not be cut off" in caught.value.__notes__[0]
    append(log, batch(b"kept"))
    assert read_all(log) == [(0, b"kept")]


def test_a_read_error_and_damage_are_error_codes(files: SimulatedFiles, log: PartitionLog) -> None:
    fill(log, 4)
    with patch.object(SimulatedFiles, "pread", side_effect=OSError(errno.EIO, "broken")):
        assert log.read(0, 100, end_offset=10) is ErrorCode.kafka_storage_error
    path = ROOT / "t-0" / "00000000000000000000.log"
    files.overwrite(path, bytes(log.size_bytes))
    assert log.read(0, 100, end_offset=10) is ErrorCode.corrupt_message
