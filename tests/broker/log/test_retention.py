"""Retention: what goes by age, size and start offset, and that no crash in the middle of it does harm."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.log.config import LogConfig
from highwater.broker.log.looking import look
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.log.retention import count_expired
from highwater.kafka.records.batch import HEADER, Codec, CorruptBatch, read_header, update_crc
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.log.building import NOW_MS, SMALL, append, batch, flush, new_log, open_directory, read_all
from tests.broker.log.simulated_files import Killed, SimulatedFiles

WITHOUT_LIMIT = replace(SMALL, retention_ms=-1, retention_bytes=-1)


class Piece(NamedTuple):
    base_offset: int
    size_bytes: int
    youngest_ms: int

    def is_older_than(self, time_ms: int, now_ms: int) -> bool | None:
        return self.youngest_ms < time_ms


def expired_by_the_book(
    pieces: list[Piece], config: LogConfig, start: int, end: int, high_watermark: int, now_ms: int
) -> int:
    """Kafka's three passes, one after the other, each over what the last one left."""
    left = list(pieces)

    def drop(is_due: object) -> None:
        while left:
            following = left[1].base_offset if len(left) > 1 else None
            upper = following if following is not None else end
            if high_watermark < upper or (following is None and left[0].size_bytes == 0):
                return
            if not is_due(left[0], following):  # type: ignore[operator]
                return
            del left[0]

    drop(lambda piece, following: following is not None and following <= start)
    excess = sum(piece.size_bytes for piece in left) - config.retention_bytes

    def is_too_much(piece: Piece, following: int | None) -> bool:
        nonlocal excess
        if config.retention_bytes < 0 or excess - piece.size_bytes < 0:
            return False
        excess -= piece.size_bytes
        return True

    if config.deletes:
        drop(is_too_much)
        drop(lambda piece, following: config.retention_ms >= 0 and now_ms - piece.youngest_ms > config.retention_ms)
    return len(pieces) - len(left)


@given(
    sizes=st.lists(st.integers(1, 100), max_size=8),
    active=st.integers(0, 100),
    ages=st.lists(st.integers(-50, 200), min_size=9, max_size=9),
    retention_ms=st.integers(-1, 150),
    retention_bytes=st.integers(-1, 600),
    start=st.integers(0, 100),
    unreplicated=st.integers(0, 30),
    policy=st.sampled_from([("delete",), ("compact",), ("compact", "delete")]),
)
def test_what_goes_is_what_kafka_would_delete(
    sizes: list[int],
    active: int,
    ages: list[int],
    retention_ms: int,
    retention_bytes: int,
    start: int,
    unreplicated: int,
    policy: tuple[str, ...],
) -> None:
    pieces = [
        Piece(10 * i, size, 1000 - age) for i, (size, age) in enumerate(zip([*sizes, active], ages, strict=False))
    ]
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_policy=policy)
    end = pieces[-1].base_offset + (7 if active else 0)
    start, high_watermark = min(start, end), max(0, end - unreplicated)
    found = count_expired(
        pieces, config, log_start_offset=start, log_end_offset=end, high_watermark=high_watermark, now_ms=1000
    )
    assert found == (expired_by_the_book(pieces, config, start, end, high_watermark, 1000), False)


def filled(files: SimulatedFiles, config: LogConfig = SMALL, records: int = 40) -> PartitionLog:
    _, log = new_log(files, config)
    for i in range(records):
        append(log, batch(b"%d " % i * 20, timestamp_ms=NOW_MS + i))
    return log


def names(files: SimulatedFiles, log: PartitionLog, suffix: str) -> list[str]:
    return sorted(entry.name for entry in files.list(log.directory) if entry.name.endswith(suffix))


def test_by_age_only_whole_segments_go_and_the_active_one_rolls_when_all_is_old() -> None:
    files = SimulatedFiles()
    log = filled(files, replace(SMALL, retention_ms=1000))
    second = log.segment_base_offsets[1]
    log.delete_expired(40, NOW_MS + 1000 + second - 1)
    assert log.log_start_offset == log.segment_base_offsets[0] == 0
    assert log.delete_expired(40, NOW_MS + 1000 + second) == 1
    assert log.log_start_offset == log.segment_base_offsets[0] == second
    assert read_all(log)[0][0] == second
    assert log.size_bytes == sum(e.size_bytes for e in files.list(log.directory) if e.name.endswith(".log"))
    log.delete_expired(40, NOW_MS + 5000)
    assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets, log.size_bytes) == (40, 40, (40,), 0)
    assert log.delete_expired(40, NOW_MS + 10**9) == 0
    assert append(log, batch(b"next"), now_ms=NOW_MS).base_offset == 40


def test_nothing_goes_at_or_past_the_high_watermark_or_without_limits() -> None:
    log = filled(SimulatedFiles(), replace(SMALL, retention_ms=1, retention_bytes=0))
    assert log.delete_expired(log.segment_base_offsets[1] - 1, NOW_MS + 10**9) == 0
    log = filled(SimulatedFiles(), WITHOUT_LIMIT)
    assert log.delete_expired(40, NOW_MS + 10**12) == 0
    # But what lies below the start offset goes whatever the limits are, as far as it makes whole sealed segments.
    sealed = len(log.segment_base_offsets) - 1
    log.advance_log_start_offset(40)
    assert log.delete_expired(40, NOW_MS) == sealed
    assert log.log_start_offset == 40


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    files = SimulatedFiles()
    _, log = new_log(files, replace(SMALL, retention_ms=1000))
    append(log, batch(b"x", timestamp_ms=-1))
    files.now_ms = NOW_MS
    assert log.delete_expired(1, NOW_MS + 1000) == 0
    assert log.delete_expired(1, NOW_MS + 1001) == 1


def looked_at(files: SimulatedFiles, log: PartitionLog) -> bool:
    """Do what the broker has a process do, if retention waits for it."""
    if (segment := log.wants_look) is None:
        return False
    wanted = segment.wanted_look()
    segment.looked(wanted, look(files, wanted, lambda _: None))
    return True


def delete_expired(files: SimulatedFiles, log: PartitionLog, now_ms: int) -> int:
    count = log.delete_expired(log.log_end_offset, now_ms)
    while looked_at(files, log):
        count += log.delete_expired(log.log_end_offset, now_ms)
    return count


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(-200_000, 100_000), min_size=1, max_size=3), st.integers(-(10**6), 10**6) | st.none()
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(-50_000, 200_000),
    st.sampled_from(Codec),
)
def test_no_record_goes_before_its_time_whatever_the_headers_say(
    batches: list[tuple[list[int], int | None]], later_ms: int, codec: Codec
) -> None:
    files = SimulatedFiles()
    files.now_ms = NOW_MS
    _, log = new_log(files, replace(SMALL, retention_ms=60_000))
    times: list[int] = []
    for shifts, max_shift in batches:
        written = encode_batch([Record(b"x" * 90, None, NOW_MS + shift) for shift in shifts], codec=codec)
        if max_shift is not None:
            HEADER.pack_into(written, 0, *read_header(written)._replace(max_timestamp_ms=NOW_MS + max_shift))
            update_crc(written, 0, len(written))
        append(log, written)
        times += shifts
    delete_expired(files, log, NOW_MS + later_ms)
    # A record with a time later than its append may go as if it had that time.
    gone = [min(time, 0) for time in times[: log.log_start_offset]]
    assert all(later_ms - time > 60_000 for time in gone)


def test_headers_that_disagree_with_the_time_of_the_last_write_take_a_look() -> None:
    for claimed, true, is_kept in ((-(10**9), 0, True), (-(10**9), -(10**9), False), (10**9, 0, False)):
        files = SimulatedFiles()
        files.now_ms = NOW_MS
        _, log = new_log(files, replace(SMALL, retention_ms=60_000))
        written = batch(b"x", timestamp_ms=NOW_MS + true)
        HEADER.pack_into(written, 0, *read_header(written)._replace(max_timestamp_ms=NOW_MS + claimed))
        update_crc(written, 0, len(written))
        append(log, written)
        now_ms = NOW_MS + (60_001 if claimed > 0 else 60_000)
        assert log.delete_expired(1, now_ms) == 0
        assert looked_at(files, log)
        assert log.delete_expired(1, now_ms) == (0 if is_kept else 1)
        assert not looked_at(files, log)


def test_a_look_goes_on_where_the_last_one_ended() -> None:
    files = SimulatedFiles()
    files.now_ms = NOW_MS
    _, log = new_log(files, LogConfig(retention_ms=60_000))
    append(log, batch(b"x", timestamp_ms=NOW_MS - 10**9))
    assert log.delete_expired(1, NOW_MS) == 0
    assert log.wants_look is not None
    first = log.wants_look.wanted_look()
    log.wants_look.looked(first, NOW_MS)
    append(log, batch(b"y", timestamp_ms=NOW_MS - 10**9))
    assert log.delete_expired(2, NOW_MS) == 0
    assert log.wants_look is not None
    second = log.wants_look.wanted_look()
    assert (second.position, second.largest_ms) == (first.end_position, NOW_MS)
    assert look(files, second, lambda _: None) == NOW_MS


def test_what_cannot_be_looked_at_is_as_old_as_the_last_write() -> None:
    files = SimulatedFiles()
    files.now_ms = NOW_MS
    _, log = new_log(files, LogConfig(retention_ms=60_000))
    damaged = encode_batch([Record(b"x", timestamp_ms=NOW_MS - 10**9)], codec=Codec.ZSTD)
    damaged[61:] = bytes(len(damaged) - 61)
    update_crc(damaged, 0, len(damaged))
    append(log, damaged)
    assert log.delete_expired(1, NOW_MS) == 0
    segment = log.wants_look
    assert segment is not None
    with pytest.raises(CorruptBatch):
        look(files, segment.wanted_look(), lambda _: None)
    segment.looked(segment.wanted_look(), None)
    assert log.delete_expired(1, NOW_MS + 60_000) == 0
    assert log.delete_expired(1, NOW_MS + 60_001) == 1


def test_files_are_set_aside_and_removed_after_their_delay_or_at_the_next_start() -> None:
    files = SimulatedFiles()
    log = filled(files, replace(SMALL, retention_bytes=0, file_delete_delay_ms=500))
    before = names(files, log, "")
    gone = log.segment_base_offsets
    log.delete_expired(40, NOW_MS)
    aside = names(files, log, ".deleted")
    assert {name.removesuffix(".deleted") for name in aside} <= set(before)
    assert [name for name in aside if ".log" in name] == [f"{base:020d}.log.deleted" for base in gone]
    assert log.take_removable(NOW_MS + 499) == []
    assert sorted(path.name for path in log.take_removable(NOW_MS + 500)) == aside
    assert log.take_removable(NOW_MS + 10**6) == []
    directory = open_directory(files.restarted())
    log = directory.logs["t", 0]
    assert names(files, log, ".deleted") == []
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_at_every_operation_leaves_the_log_whole_from_its_start_on(power_cut: bool) -> None:
    values = [(i, b"%d " % i * 20) for i in range(40)]
    for policy in (replace(SMALL, retention_ms=10), replace(SMALL, retention_bytes=1500)):
        kill_after = 0
        is_done = False
        while not is_done:
            files = SimulatedFiles()
            log = filled(files, policy)
            flush(log)
            files.kill_at = files.changes_made + kill_after
            try:
                log.delete_expired(40, NOW_MS + 10**6)
                flush(log)
                for path in log.take_removable(NOW_MS + 10**9):
                    files.remove(path)
                is_done = True
            except Killed:
                pass
            for seed in range(3 if power_cut else 1):
                survivor = files.after_power_cut(seed) if power_cut else files.restarted()
                directory = open_directory(survivor, config=policy)
                found = directory.logs["t", 0]
                assert found.log_end_offset == 40
                assert found.log_start_offset <= log.log_start_offset
                assert read_all(found) == values[found.log_start_offset :]
                assert names(survivor, found, ".deleted") == []
                directory.close()
                assert survivor.open_descriptors == 0
            kill_after += 1
        assert kill_after > 10


def test_a_failure_in_the_middle_leaves_a_log_that_works_and_comes_back() -> None:
    config = replace(SMALL, retention_bytes=0)
    for fail_after in range(12):
        files = SimulatedFiles()
        log = filled(files, config)
        flush(log)
        files.fail_at = {files.changes_made + fail_after: errno.EIO}
        with pytest.raises(OSError, match="injected"):
            log.delete_expired(40, NOW_MS)
        files.fail_at = {}
        start = log.log_start_offset
        assert read_all(log) == [(i, b"%d " % i * 20) for i in range(start, 40)]
        assert append(log, batch(b"more")).base_offset == 40
        found = open_directory(files.restarted(), config=config).logs["t", 0]
        assert found.log_end_offset == 41
        assert [offset for offset, _ in read_all(found)] == list(range(found.log_start_offset, 41))


def test_segments_that_began_together_do_not_roll_together() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    rolled_at = set()
    for _ in range(8):
        _, log = new_log(SimulatedFiles(), config)
        append(log, batch(b"first"))
        for at in range(0, 1002, 20):
            append(log, batch(b"later", timestamp_ms=NOW_MS + at))
            if len(log.segment_base_offsets) > 1:
                rolled_at.add(at)
                break
    assert len(rolled_at) > 1
    assert 100 <= min(rolled_at) <= max(rolled_at) <= 1020
