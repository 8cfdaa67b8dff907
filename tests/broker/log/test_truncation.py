"""A follower's log: what it is given, and what is cut off it, against a list of batches; kills and power cuts between.

The cases that are named after Apache Kafka's are of UnifiedLogTest and LogSegmentTest.
"""

from __future__ import annotations

import errno
import random
from typing import NamedTuple

import pytest

from highwater.broker.log.config import LogConfig
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.log.producer_state import ProducerStates
from highwater.broker.log.recovery import observe_producer
from highwater.kafka.records.batch import CorruptBatch, headers
from highwater.kafka.records.record import Record, TransactionMarker, encode_batch, encode_end_marker
from tests.broker.log.building import (
    NOW_MS,
    SMALL,
    append,
    batch,
    flush,
    log_after_power_cut,
    new_log,
    open_directory,
    read_all,
)
from tests.broker.log.simulated_files import Killed, SimulatedFiles

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=150)
# Those past the range each find a fault that was here once: a recovery that believed a checkpoint of before the cut, an
# index of aborted transactions that came back, segments that came back behind what was cut in the middle.
SEEDS = [*range(60), 95, 243, 371, 1170, 1255]


class Given(NamedTuple):
    """A batch as its leader sent it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    data: bytes


class Leader:
    """Makes batches that follow each other."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sequences: dict[int, int] = {}
        self.made = 0

    def batch(self, base_offset: int, leader_epoch: int) -> Given:
        rng = self._rng
        self.made += 1
        producer_id = rng.choice([-1, -1, 1, 2])
        count = rng.randint(1, 3)
        if producer_id == 2 and rng.random() < 0.4:
            count = 1
            data = bytes(encode_end_marker(TransactionMarker(2, 0, 0, rng.random() < 0.5), NOW_MS + self.made))
        else:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + count
            values = [b"%d " % self.made * rng.randint(1, 20) for _ in range(count)]
            data = bytes(
                encode_batch(
                    [Record(value, timestamp_ms=NOW_MS + self.made) for value in values],
                    producer_id=producer_id,
                    producer_epoch=0 if producer_id > 0 else -1,
                    base_sequence=sequence if producer_id > 0 else -1,
                    is_transactional=producer_id == 2,
                )
            )
        stamped = bytearray(data)
        stamped[0:8] = base_offset.to_bytes(8, "big")
        stamped[12:16] = leader_epoch.to_bytes(4, "big")
        return Given(base_offset, base_offset + count, leader_epoch, bytes(stamped))


def content(log: PartitionLog) -> bytes:
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, end_offset=log.log_end_offset, at_least_one_batch=True)
        assert isinstance(data, bytes), data
        assert data
        found += data
        offset = [header.next_offset for _, header in headers(data)][-1]
    return found


def check(log: PartitionLog, given: list[Given]) -> None:
    """The log is what was given, and knows all about it."""
    assert content(log) == b"".join(each.data for each in given)
    epochs: list[tuple[int, int]] = []
    states = ProducerStates()
    aborted = []
    for each in given:
        if not epochs or epochs[-1][0] < each.leader_epoch:
            epochs.append((each.leader_epoch, each.base_offset))
        ((_, header),) = headers(each.data)
        if header.producer_id != -1 and (found := observe_producer(states, header, memoryview(each.data))) is not None:
            aborted.append((found.producer_id, found.first_offset))
        assert log.offset_for_timestamp(header.max_timestamp_ms, 1 << 40) == (header.max_timestamp_ms, each.base_offset)
    assert log.leader_epochs.entries == epochs
    assert {id_: (state.epoch, state.last_sequence) for id_, state in log.producer_states} == {
        id_: (state.epoch, state.last_sequence) for id_, state in states
    }
    for id_, state in states:
        known = log.producer_states.get(id_)
        assert known is not None
        assert known.transaction_first_offset == state.transaction_first_offset
    indexes = [segment.transaction_index for segment in log._segments.all if segment.indexes.has_aborted]
    assert [(entry.producer_id, entry.first_offset) for index in indexes for entry in index.entries()] == aborted
    assert log.size_bytes == sum(len(each.data) for each in given)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_followers_log_is_what_it_was_given_through_cuts_and_crashes(seed: int, loses_power: bool) -> None:
    rng = random.Random(f"{seed} {loses_power}")
    leader = Leader(rng)
    files = SimulatedFiles()
    directory, log = new_log(files, CONFIG)
    given: list[Given] = []
    before: list[Given] = []
    flushed = 0  # batches
    epoch = 0
    for _ in range(rng.randint(1, 3)):
        files.kill_at = files.changes_made + rng.randint(0, 160)
        try:
            while True:
                step = rng.random()
                before = list(given)
                if step < 0.75:
                    run: list[Given] = []
                    for _ in range(rng.randint(1, 4)):
                        run.append(leader.batch((given + run)[-1].next_offset if given or run else 0, epoch))
                    given += run
                    log.append_as_follower(b"".join(each.data for each in run), NOW_MS)
                elif step < 0.87 and given:
                    at = rng.randint(max(len(given) - 12, 0), len(given))
                    # In the middle of a batch as well.
                    offset = given[at - 1].next_offset if at else 0
                    if at < len(given):
                        offset = rng.randrange(given[at].base_offset, given[at].next_offset)
                    given = given[:at]
                    flushed = min(flushed, at)
                    log.truncate_to(offset)
                    epoch += 1
                    assert log.log_end_offset == (given[-1].next_offset if given else 0)
                    check(log, given)
                elif step < 0.93:
                    flush(log)
                    flushed = len(given)
                elif step < 0.97:
                    directory.checkpoint()
                else:
                    directory.close()
                    flushed = len(given)
                    directory = open_directory(files, config=CONFIG)
                    log = directory.logs["t", 0]
                    check(log, given)
        except Killed:
            pass
        files = files.after_power_cut(rng.randrange(2**32)) if loses_power else files.restarted()
        directory = open_directory(files, config=CONFIG)
        log = log_after_power_cut(directory)
        # Killed within an append, some of it may be there; within a cut, some of what was to go.
        longest = max(before, given, key=len)
        kept = next(index for index in range(len(longest) + 1) if (end := log.log_end_offset) == _end(longest[:index]))
        assert flushed <= kept, f"{flushed} batches were flushed, and {kept} are there, up to {end}"
        if not loses_power:
            assert kept >= min(len(before), len(given)) - 1
        given = longest[:kept]
        check(log, given)
        epoch += 1
    directory.close()
    assert files.open_descriptors == 0


def _end(given: list[Given]) -> int:
    return given[-1].next_offset if given else 0


class TestTruncateTo:
    def filled(self, files: SimulatedFiles | None = None) -> PartitionLog:
        """Twenty records, some to a segment."""
        _, log = new_log(files or SimulatedFiles())
        for offset in range(20):
            append(log, batch(b"%d " % offset * 40, timestamp_ms=NOW_MS + offset), leader_epoch=offset // 10)
        assert len(log.segment_base_offsets) > 3
        return log

    def test_truncate_to(self) -> None:
        """UnifiedLogTest.testTruncateTo"""
        log = self.filled()
        size = log.size_bytes
        log.truncate_to(20)
        log.truncate_to(25)
        assert (log.log_end_offset, log.size_bytes) == (20, size)
        log.truncate_to(7)
        assert log.log_end_offset == 7
        assert [offset for offset, _ in read_all(log)] == list(range(7))
        log.truncate_to(0)
        assert (log.log_end_offset, log.size_bytes, log.segment_base_offsets) == (0, 0, (0,))
        append(log, batch(b"again"))
        assert read_all(log) == [(0, b"again")]

    def test_truncating_below_the_log_start_begins_the_log_anew(self) -> None:
        """UnifiedLogTest.testTruncateBelowFirstSegmentBaseOffset..."""
        log = self.filled()
        log.advance_log_start_offset(12)
        log.truncate_to(5)
        assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (5, 5, (5,))

    def test_truncate_fully_and_start_at(self) -> None:
        """UnifiedLogTest.testLogTruncateFullyAndStartAt / testAsyncDelete"""
        files = SimulatedFiles()
        directory, log = new_log(files)
        for offset in range(20):
            append(log, batch(b"%d " % offset * 40), leader_epoch=3)
        flush(log)
        directory.checkpoint()
        log.truncate_fully(200)
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (200, 200, 20)
        assert log.leader_epochs.entries == []
        append(log, batch(b"x"), leader_epoch=4)
        log = open_directory(files.restarted()).logs["t", 0]
        assert read_all(log) == [(200, b"x")]
        assert log.leader_epochs.entries == [(4, 200)]

    def test_leader_epochs_and_recovery_point_go_back(self) -> None:
        """UnifiedLogTest.testLeaderEpochCacheClearedAfter..., testOverCompactedLogRecovery"""
        log = self.filled()
        flush(log)
        assert log.recovery_point == 20
        log.truncate_to(10)
        assert (log.recovery_point, log.leader_epochs.entries) == (10, [(0, 0)])

    def test_a_flush_under_way_does_not_promise_what_was_cut_off(self) -> None:
        log = self.filled()
        ticket = log.begin_flush()
        assert ticket is not None
        log.truncate_to(4)
        append(log, batch(b"new"), leader_epoch=2)
        ticket.sync()
        log.complete_flush(ticket)
        assert log.recovery_point == 4
        assert log.unflushed_messages == 1

    def test_an_open_transaction_that_is_cut_off_holds_nobody_back(self) -> None:
        """UnifiedLogTest.testFirstUnstableOffsetDoesNotExceedLogStartOffsetAfterTruncate..."""
        _, log = new_log(SimulatedFiles())
        append(log, batch(b"plain"))
        open_batch = encode_batch(
            [Record(b"open")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        append(log, open_batch)
        assert log.producer_states.first_unstable_offset == 1
        log.truncate_to(1)
        assert log.producer_states.get(1) is None
        assert log.producer_states.first_unstable_offset > log.log_end_offset

    def test_a_segment_behind_an_old_recovery_point_is_synced_when_it_is_sealed(self) -> None:
        files = SimulatedFiles()
        directory, log = new_log(files)
        for offset in range(20):
            append(log, batch(b"old%d " % offset * 40), leader_epoch=0)
        flush(log)
        directory.checkpoint()
        log.truncate_to(2)
        base_offsets = log.segment_base_offsets
        while log.log_end_offset < 15:
            append(log, batch(b"new%d " % log.log_end_offset * 40), leader_epoch=1)
        assert len(log.segment_base_offsets) > len(base_offsets)
        sealed_up_to = log.segment_base_offsets[-1]
        found = open_directory(files.as_synced()).logs["t", 0]
        assert found.log_end_offset >= sealed_up_to
        assert [value for _, value in read_all(found)][2:] == [
            b"new%d " % offset * 40 for offset in range(2, found.log_end_offset)
        ]
        assert found.leader_epochs.entries == [(0, 0), (1, 2)]

    def test_a_disk_that_fails_in_the_middle(self) -> None:
        for number in range(30):
            files = SimulatedFiles()
            log = self.filled(files)
            files.fail_at[files.changes_made + number] = errno.EIO
            try:
                log.truncate_to(3)
            except OSError:
                continue
            break
        else:
            pytest.fail("a cut takes more operations than were tried")
        assert number > 5
        assert log.log_end_offset == 3


class TestAppendAsFollower:
    def given(self, *base_offsets: int, leader_epoch: int = 0) -> bytes:
        found = b""
        for offset in base_offsets:
            one = bytearray(batch(b"%d" % offset))
            one[0:8] = offset.to_bytes(8, "big")
            one[12:16] = leader_epoch.to_bytes(4, "big")
            found += one
        return found

    def test_offsets_and_epochs_stay_as_sent(self) -> None:
        """UnifiedLogTest.testAppendAsFollower..., testNonSequentialAppend"""
        _, log = new_log(SimulatedFiles())
        log.append_as_follower(self.given(0, 1, leader_epoch=2) + self.given(5, leader_epoch=4), NOW_MS)
        assert read_all(log) == [(0, b"0"), (1, b"1"), (5, b"5")]
        assert log.leader_epochs.entries == [(2, 0), (4, 5)]

    def test_what_overlaps_is_refused_whole(self) -> None:
        """UnifiedLogTest.testAppendWithOutOfOrderOffsetsThrowsException"""
        _, log = new_log(SimulatedFiles())
        log.append_as_follower(self.given(0, 1), NOW_MS)
        for bad in (self.given(1), self.given(2, 2), self.given(3, 2)):
            with pytest.raises(CorruptBatch):
                log.append_as_follower(bad, NOW_MS)
        assert log.log_end_offset == 2

    def test_damage_is_refused_whole(self) -> None:
        _, log = new_log(SimulatedFiles())
        damaged = bytearray(self.given(0, 1))
        damaged[-1] ^= 1
        with pytest.raises(CorruptBatch):
            log.append_as_follower(damaged, NOW_MS)
        with pytest.raises(CorruptBatch):
            log.append_as_follower(self.given(0)[:-1], NOW_MS)
        assert log.log_end_offset == 0

    def test_a_batch_that_is_cut_off_is_left_out(self) -> None:
        _, log = new_log(SimulatedFiles())
        log.append_as_follower(self.given(0, 1)[:-3], NOW_MS)
        assert read_all(log) == [(0, b"0")]

    def test_an_empty_log_may_begin_in_the_middle_of_a_batch(self) -> None:
        """ReplicaManager handles UnexpectedAppendOffsetException so (KAFKA-6361): the leader's records were deleted."""
        _, log = new_log(SimulatedFiles())
        log.truncate_fully(7)
        whole = bytearray(batch(b"5", b"6", b"7", b"8"))
        whole[0:8] = (5).to_bytes(8, "big")
        log.append_as_follower(whole, NOW_MS)
        log.advance_log_start_offset(7)
        assert (log.log_start_offset, log.log_end_offset) == (7, 9)
        assert read_all(log) == [(7, b"7"), (8, b"8")]

    def test_more_than_a_segment_is_divided(self) -> None:
        _, log = new_log(SimulatedFiles(), SMALL)
        log.append_as_follower(self.given(*range(50)), NOW_MS)
        assert len(log.segment_base_offsets) > 2
        assert read_all(log) == [(offset, b"%d" % offset) for offset in range(50)]
