"""What comes back after a crash: torn tails, damage, indexes missing or wrong, producers, leader epochs."""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from bisect import bisect_right
from collections.abc import Callable
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.log.segment_file import WINDOW_BYTES
from highwater.broker.log.segment_names import file_name
from highwater.kafka.records.batch import headers
from tests.broker.log.building import (
    NOW_MS,
    ROOT,
    append,
    batch,
    flush,
    new_log,
    open_directory,
    read_all,
    try_append,
)
from tests.broker.log.simulated_files import Killed, SimulatedFiles

PARTITION = ROOT / "t-0"


def value(i: int) -> bytes:
    return b"value %d " % i * (i % 7 + 1)


def crashed(batches: int = 30, *, flush_at: int | None = None, clean: bool = False) -> SimulatedFiles:
    """The disk of a log of `batches` batches by one idempotent producer, three leader epochs."""
    files = SimulatedFiles()
    directory, log = new_log(files)
    for i in range(batches):
        records = batch(value(i), timestamp_ms=NOW_MS + i, producer_id=9, producer_epoch=0, base_sequence=i)
        append(log, records, leader_epoch=i // 10)
        if i == flush_at:
            flush(log)
            directory.checkpoint()
    if clean:
        directory.close()
    return files.restarted()


def reopened(files: SimulatedFiles) -> tuple[LogDirectory, PartitionLog]:
    directory = open_directory(files)
    return directory, directory.logs["t", 0]


def logs_of(files: SimulatedFiles, suffix: str = ".log") -> list[Path]:
    return sorted(PARTITION / entry.name for entry in files.list(PARTITION) if entry.name.endswith(suffix))


def indexes_of(files: SimulatedFiles) -> dict[str, bytes]:
    return {path.name: files.read(path) for suffix in (".index", ".timeindex") for path in logs_of(files, suffix)}


def check_is_whole(files: SimulatedFiles, records: int) -> None:
    """The log holds exactly its first `records` records, its files agree with each other, and it goes on from there."""
    directory, log = reopened(files)
    assert read_all(log) == [(i, value(i)) for i in range(records)]
    for i in range(records):
        assert log.offset_for_timestamp(NOW_MS + i, 10**6) == (NOW_MS + i, i)
    epochs = [(epoch, 10 * epoch) for epoch in range(3) if 10 * epoch < records]
    assert log.leader_epochs.entries == epochs
    if records:
        again = batch(value(records - 1), producer_id=9, producer_epoch=0, base_sequence=records - 1)
        assert append(log, again) == Appended(records - 1, records - 1, NOW_MS + records - 1, duplicate=True)
        gap = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=records + 1)
        assert try_append(log, gap) is ErrorCode.out_of_order_sequence_number
    following = batch(
        value(records), timestamp_ms=NOW_MS + records, producer_id=9, producer_epoch=0, base_sequence=records
    )
    assert append(log, following, leader_epoch=records // 10).base_offset == records
    directory.close()
    assert files.open_descriptors == 0
    check_indexes(files)
    directory, log = reopened(files.restarted())
    assert read_all(log) == [(i, value(i)) for i in range(records + 1)]
    directory.close()


def check_indexes(files: SimulatedFiles) -> None:
    """Every entry names the batch it points to, as DumpLogSegments asks; the last time is the largest."""
    for path in logs_of(files):
        found = dict(headers(files.read(path)))
        base_offset = int(path.stem)
        for offset, position in struct.iter_unpack(">ii", files.read(path.with_suffix(".index"))):
            assert found[position].last_offset == base_offset + offset
        times = list(struct.iter_unpack(">qi", files.read(path.with_suffix(".timeindex"))))
        by_last_offset = {header.last_offset: header for header in found.values()}
        largest = max((header.max_timestamp_ms for header in found.values() if header.record_count), default=-1)
        for timestamp_ms, offset in times:
            assert by_last_offset[base_offset + offset].max_timestamp_ms == timestamp_ms
        if found:
            assert [time for time, _ in times[-1:]] == [largest] * (largest >= 0)


def test_everything_is_there_after_a_kill() -> None:
    for flush_at in (None, 0, 17, 29):
        check_is_whole(crashed(flush_at=flush_at), 30)


def test_everything_is_there_after_a_clean_stop_and_nothing_is_read_again() -> None:
    files = crashed(clean=True)
    check_indexes(files)
    before = indexes_of(files)
    directory, log = reopened(files)
    assert log.recovery_point == log.log_end_offset == 30
    directory.close()
    assert indexes_of(files) == before
    check_is_whole(files.restarted(), 30)


def test_the_indexes_made_anew_are_those_of_a_clean_stop() -> None:
    clean, killed = crashed(clean=True), crashed()
    directory, _ = reopened(killed)
    directory.close()
    assert indexes_of(killed) == indexes_of(clean)


def test_a_tail_torn_at_any_byte_is_cut_off() -> None:
    whole = crashed()
    path = logs_of(whole)[-1]
    content = whole.read(path)
    positions = [position for position, _ in headers(content)]
    for size in range(positions[-2], len(content)):
        files = crashed()
        files.overwrite(path, content[:size])
        check_is_whole(files, 28 + (size >= positions[-1]))


def test_zeros_at_the_end_are_cut_off() -> None:
    for count in (1, 60, 61, 5000):
        files = crashed()
        path = logs_of(files)[-1]
        files.overwrite(path, files.read(path) + bytes(count))
        check_is_whole(files, 30)


def test_a_byte_wrong_anywhere_in_the_tail_cuts_from_its_batch_on() -> None:
    whole = crashed()
    path = logs_of(whole)[-1]
    content = whole.read(path)
    starts = dict(headers(content))
    for at in range(min(list(starts)[-2:]), len(content), 3):
        position = max(start for start in starts if start <= at)
        if 12 <= at - position < 16:
            continue  # The leader epoch is under no checksum, in Kafka as here.
        damaged = bytearray(content)
        damaged[at] ^= 0x55
        files = crashed()
        files.overwrite(path, bytes(damaged))
        expected = starts[position].base_offset
        if at - position < 8:
            # Nor is the base offset, but it must rise: a changed one is caught only if it goes back or too far.
            directory, log = reopened(files)
            assert read_all(log)[:expected] == [(i, value(i)) for i in range(expected)]
            directory.close()
            continue
        check_is_whole(files, expected)


@pytest.mark.parametrize("damage", ["none", "bit", "cut"])
def test_batches_are_checked_whatever_is_read_at_once(damage: str) -> None:
    """Batches that lie across the ends of what is read at once, and larger ones."""
    rng = random.Random(damage)
    config = LogConfig(segment_bytes=32 << 20, max_message_bytes=8 << 20)
    files = SimulatedFiles()
    directory, log = new_log(files, config)
    for number in range(80):
        largest = rng.choice((100, 3_000, 90_000, 600_000) if number < 60 else (100, 3_000, 2_500_000))
        append(log, batch(rng.randbytes(rng.randint(1, largest))))
    path = PARTITION / file_name(0, ".log")
    content = files.read(path)
    starts = [position for position, _ in headers(content)]
    edges = [edge + at for edge in range(WINDOW_BYTES, len(content), WINDOW_BYTES) for at in (-1, 0, 1, 60, 61)]
    for position in rng.sample(starts, 4) + rng.sample(edges, 4):
        expected = bisect_right(starts, position) - 1 if damage != "none" else 80
        damaged = bytearray(content)
        if damage == "bit":
            damaged[max(position, starts[expected] + 16)] ^= 1
        elif damage == "cut":
            del damaged[position:]
        files = SimulatedFiles()
        new_log(files, config)
        files.overwrite(path, bytes(damaged))
        directory = open_directory(files.restarted(), config=config)
        log = directory.logs["t", 0]
        assert log.log_end_offset == expected
        assert files.read(path) == content[: starts[expected] if expected < 80 else None]
        directory.close()
        check_indexes(files)


def test_a_recovery_that_finds_all_well_writes_nothing() -> None:
    files = crashed()
    reopened(files)
    assert files.changes_made == 0


def test_segments_after_a_damaged_one_go() -> None:
    files = crashed()
    first, second, *rest = logs_of(files)
    content = bytearray(files.read(second))
    content[-1] ^= 1
    files.overwrite(second, bytes(content))
    survivors = [header.next_offset for path in (first, second) for _, header in headers(files.read(path))][:-1]
    check_is_whole(files, survivors[-1])
    assert rest
    assert len(logs_of(files)) <= 3  # the two, and perhaps one that has been begun since


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: None,
        lambda data: b"",
        lambda data: bytes(len(data)),
        lambda data: data[:-1],
        lambda data: b"\xff" * len(data),
        lambda data: data + bytes(4096),
        lambda data: data[::-1],
    ],
    ids=["missing", "empty", "zeros", "cut", "ones", "preallocated", "reversed"],
)
def test_indexes_missing_or_wrong_are_made_anew(
    damage: Callable[[bytes], bytes | None], suffix: str, clean: bool
) -> None:
    files = crashed(clean=clean)
    for path in logs_of(files, suffix):
        changed = damage(files.read(path))
        if changed is None:
            files.remove(path)
        else:
            files.overwrite(path, changed)
    check_is_whole(files, 30)


def test_an_index_that_points_into_a_batch_is_noticed_when_it_is_used() -> None:
    files = crashed(clean=True)
    for path in logs_of(files, ".index"):
        entries = struct.iter_unpack(">ii", files.read(path))
        files.overwrite(path, b"".join(struct.pack(">ii", offset, position + 1) for offset, position in entries))
    check_is_whole(files, 30)


def test_damage_below_the_recovery_point_is_met_by_reading() -> None:
    files = crashed(flush_at=29)
    path = logs_of(files)[0]
    content = bytearray(files.read(path))
    second = [position for position, _ in headers(content)][1]
    content[second : second + 20] = bytes(20)
    files.overwrite(path, bytes(content))
    directory, log = reopened(files)
    assert read_all_until_damage(log) == [(0, value(0))]
    assert log.log_end_offset == 30
    assert isinstance(log.read(29, 1000, end_offset=30), bytes)
    directory.close()


def read_all_until_damage(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    assert log.read(1, 100, end_offset=30) is ErrorCode.corrupt_message
    data = log.read(0, 1, end_offset=30, at_least_one_batch=True)
    assert isinstance(data, bytes)
    return [(header.base_offset, value(0)) for _, header in headers(data)]


def test_a_tail_that_is_not_whole_is_recovered_even_after_a_clean_stop() -> None:
    files = crashed(clean=True)
    path = logs_of(files)[-1]
    files.overwrite(path, files.read(path)[:-3])
    check_is_whole(files, 29)


def test_after_a_clean_stop_only_the_end_is_looked_at() -> None:
    files = crashed(27, clean=True)
    path = logs_of(files)[-1]
    assert files.read(path.with_suffix(".index"))
    content = bytes(20) + files.read(path)[20:]
    files.overwrite(path, content)
    directory, log = reopened(files)
    assert log.log_end_offset == 27
    assert files.read(path) == content
    directory.close()


def test_after_a_clean_stop_a_small_log_is_loaded_without_its_indexes() -> None:
    files = crashed(clean=True)
    read: list[str] = []
    real_read = SimulatedFiles.read

    def noted(self: SimulatedFiles, path: Path) -> bytes:
        read.append(path.suffix)
        return real_read(self, path)

    with patch.object(SimulatedFiles, "read", noted):
        _, log = reopened(files)
        assert ".snapshot" in read
        assert not {".index", ".timeindex"}.intersection(read)
        assert read_all(log) == [(i, value(i)) for i in range(30)]
        assert ".index" in read


def test_a_missing_active_segment_leaves_what_is_before_it() -> None:
    files = crashed()
    path = logs_of(files)[-1]
    files.remove(path)
    check_is_whole(files, int(path.stem))


def test_leader_epochs_past_the_end_are_forgotten() -> None:
    files = crashed(flush_at=29)
    path = PARTITION / "leader-epoch-checkpoint"
    files.overwrite(path, files.read(path).replace(b"0\n3", b"0\n4") + b"7 31\n")
    check_is_whole(files, 30)


def test_producers_come_back_from_whatever_snapshots_are_left() -> None:
    for is_removed, clean, keep in product((True, False), (True, False), range(3)):
        files = crashed(clean=clean)
        for path in logs_of(files, ".snapshot")[keep:]:
            if is_removed:
                files.remove(path)
            else:
                files.overwrite(path, b"\x00\x01junk")
        check_is_whole(files, 30)


def test_stray_snapshots_are_removed() -> None:
    files = crashed(clean=True)
    latest = files.read(PARTITION / file_name(30, ".snapshot"))
    for offset in (1, 2, 999):
        files.overwrite(PARTITION / file_name(offset, ".snapshot"), latest)
    directory, log = reopened(files)
    directory.close()
    kept = {int(path.stem) for path in logs_of(files, ".snapshot")}
    assert kept == {*log.segment_base_offsets[1:], 30}


def test_leftovers_and_orphans_are_removed() -> None:
    files = crashed()
    for name in (file_name(0, ".log.deleted"), file_name(5, ".log.cleaned"), "leader-epoch-checkpoint.tmp"):
        files.overwrite(PARTITION / name, b"junk")
    files.overwrite(PARTITION / file_name(777, ".index"), b"junk")
    check_is_whole(files, 30)
    names = {entry.name for entry in files.list(PARTITION)}
    assert not {name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "777" in name}


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_in_an_old_format_is_left_alone(clean: bool) -> None:
    files = crashed(clean=clean)
    path = logs_of(files)[-1]
    legacy = bytearray(struct.pack(">qiIbb", 0, 22, 0, 1, 0)) + bytes(16)
    struct.pack_into(">I", legacy, 12, zlib.crc32(legacy[16:]))
    files.overwrite(path, bytes(legacy))
    with pytest.raises(LogDirectoryError, match=r"message format 1, from before Kafka 0\.11; .* format 2 only"):
        open_directory(files)
    assert files.read(path) == legacy


def test_a_log_start_offset_past_the_end_starts_there_empty() -> None:
    files = crashed()
    files.overwrite(ROOT / "log-start-offset-checkpoint", b"0\n1\nt 0 100\n")
    directory, log = reopened(files)
    assert (log.log_start_offset, log.log_end_offset, list(log.segment_base_offsets)) == (100, 100, [100])
    assert log.leader_epochs.entries == []
    assert append(log, batch(b"x")).base_offset == 100
    directory.close()


def test_a_log_start_offset_inside_a_segment_is_kept() -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    for i in range(30):
        append(log, batch(value(i)))
    log.advance_log_start_offset(17)
    directory.close()
    directory, log = reopened(files)
    assert log.log_start_offset == 17
    assert read_all(log)[0] == (17, value(17))
    assert log.leader_epochs.entries == [(0, 17)]
    directory.close()


def test_a_crash_during_recovery_loses_nothing_more() -> None:
    number = 0
    while True:
        files = crashed(12)
        path = logs_of(files)[-1]
        files.overwrite(path, files.read(path)[:-3])
        for index in indexes_of(files):
            files.overwrite(PARTITION / index, b"junk")
        files.kill_at = files.changes_made + number
        try:
            open_directory(files)
        except Killed:
            check_is_whole(files.restarted(), 11)
            number += 1
            continue
        break
    assert number > 3


def test_few_descriptors_are_enough() -> None:
    files = SimulatedFiles()
    directory = open_directory(files, max_open_segments=3)
    for partition in range(8):
        log = directory.create_partition("t", partition, uuid.uuid4())
        for i in range(20):
            append(log, batch(value(i)))
    for _ in range(2):
        for log in directory.logs.values():
            assert read_all(log) == [(i, value(i)) for i in range(20)]
            assert files.open_descriptors <= 4  # and the lock
    tickets = [ticket for log in directory.logs.values() if (ticket := log.begin_flush()) is not None]
    assert files.open_descriptors > 8  # pinned
    for ticket, log in zip(tickets, directory.logs.values(), strict=True):
        assert read_all(log) == [(i, value(i)) for i in range(20)]
        ticket.sync()
        log.complete_flush(ticket)
    for log in directory.logs.values():
        assert read_all(log) == [(i, value(i)) for i in range(20)]
    assert files.open_descriptors <= 4
    directory.close()
    assert files.open_descriptors == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_starts_behind_its_lost_end_does_so_after_the_next_cut_too(seed: int) -> None:
    files = SimulatedFiles()
    directory, log = new_log(files)
    append(log, batch(b"a", b"b"))
    directory.close()
    directory = open_directory(files)
    log = directory.logs["t", 0]
    append(log, batch(b"lost"))
    log.advance_log_start_offset(3)
    directory.checkpoint()
    for life in range(2):
        files = files.after_power_cut(10 * seed + life)
        directory = open_directory(files)
        log = directory.logs["t", 0]
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)
        directory.checkpoint()


def test_where_a_log_starts_survives_though_its_records_did_not() -> None:
    """Deleted records are told in the checkpoint, which leaves it to the first file's name once there is one."""
    for seed in range(20):
        files = SimulatedFiles()
        directory, log = new_log(files)
        append(log, batch(b"a", b"b"))
        directory.close()
        directory = open_directory(files)
        log = directory.logs["t", 0]
        append(log, batch(b"c"))
        log.advance_log_start_offset(3)
        directory.checkpoint()
        for cut in range(3):
            files = files.after_power_cut(100 * seed + cut)
            directory = open_directory(files)
            assert directory.logs["t", 0].log_end_offset == 3, f"seed {seed}, cut {cut}"
            directory.checkpoint()
