"""Compaction: what stays, what goes, and that readers, producers and crashes find a log in good order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.log.compaction import compact
from highwater.broker.log.compaction_job import CleanedGroup
from highwater.broker.log.config import LogConfig
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.offset_map import OffsetMap
from highwater.broker.log.partition_log import Appended, PartitionLog
from highwater.broker.log.segment_names import file_name
from highwater.broker.log.transaction_index import AbortedTransaction, decode_aborted
from highwater.kafka.records.batch import HEADER, HEADER_SIZE, Codec, CorruptBatch, headers, read_header, update_crc
from highwater.kafka.records.record import Record, TransactionMarker, decode_batch
from tests.broker.log.building import NOW_MS, ROOT, append, flush, new_log, open_directory, try_append
from tests.broker.log.compacting import compact_once, keyed_batch, last_values, put, records_of, roll
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.log.test_recovery import check_indexes

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=150, cleanup_policy=("compact",), delete_retention_ms=1000)
DAY_MS = 86_400_000


def compacting(config: LogConfig = CONFIG) -> tuple[SimulatedFiles, LogDirectory]:
    files = SimulatedFiles()
    directory, _ = new_log(files, config)
    return files, directory


def test_the_last_record_of_each_key_stays_with_its_offset() -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"b", b"2"))
    put(log, (b"a", b"3"), (b"c", b"1"))
    roll(log)
    put(log, (b"a", b"active"))
    before = records_of(log)
    assert compact_once(files, directory) is not None
    after = records_of(log)
    assert [record.offset for record in after] == [3, 4, 5, 6, 7]
    assert after == [record for record in before if record.offset in (3, 4, 5, 6, 7)]
    assert log.size_bytes == sum(e.size_bytes for e in files.list(log.directory) if e.name.endswith(".log"))
    # A reader may stand anywhere, also where nothing is left.
    for offset in range(log.log_end_offset):
        assert records_of(log, offset) == [record for record in after if record.offset >= offset]
    assert compact_once(files, directory) is None


pairs = st.lists(
    st.tuples(st.integers(0, 6).map(lambda i: b"key %d" % i), st.none() | st.binary(max_size=60)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            pairs, st.sampled_from(list(Codec)), st.sampled_from(["", "", "", "compact", "restart", "kill", "wait"])
        ),
        min_size=1,
        max_size=40,
    ),
    map_bytes=st.sampled_from([24 * 8, 1 << 16]),
    segment_bytes=st.sampled_from([300, 1000]),
)
def test_a_compacted_log_reads_like_the_whole_one(
    steps: list[tuple[list[tuple[bytes, bytes | None]], Codec, str]], map_bytes: int, segment_bytes: int
) -> None:
    config = replace(CONFIG, segment_bytes=segment_bytes, delete_retention_ms=5000)
    files, directory = compacting(config)
    log = directory.logs["t", 0]
    written: list[Record] = []
    now_ms = NOW_MS
    sequence = 0
    for pairs, codec, step in steps:
        batch = keyed_batch(
            pairs, timestamp_ms=now_ms, codec=codec, producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        again = bytearray(batch)
        if len(batch) > segment_bytes:
            continue
        sequence += len(pairs)
        base_offset = append(log, batch, now_ms=now_ms).base_offset
        written += [Record(v, k, now_ms + i, offset=base_offset + i) for i, (k, v) in enumerate(pairs)]
        if step == "wait":
            now_ms += 6000
        if step:
            flush(log)
            compact_once(files, directory, now_ms=now_ms, map_bytes=map_bytes)
        if step == "restart":
            directory.close()
            assert files.open_descriptors == 0
            directory = open_directory(files, config=config)
        elif step == "kill":
            directory.checkpoint()
            files = files.restarted()
            directory = open_directory(files, config=config)
        log = directory.logs["t", 0]
        assert append(log, again).duplicate
        found = records_of(log)
        assert [r.offset for r in found] == sorted({r.offset for r in found})
        assert set(found) <= set(written)
        assert log.log_end_offset == len(written)
        assert last_values(found) == last_values(written)
        # Whoever keeps up misses no tombstone that is younger than delete.retention.ms.
        assert found[-1:] == written[-1:]
    for offset in range(0, len(written), 5):
        assert records_of(log, offset) == [record for record in found if record.offset >= offset]
    for record in found:
        timestamp = log.offset_for_timestamp(record.timestamp_ms, 10**9)
        assert timestamp == next((r.timestamp_ms, r.offset) for r in found if r.timestamp_ms >= record.timestamp_ms)
    directory.close()
    check_indexes(files)


def test_a_tombstone_stays_until_its_horizon_and_then_goes() -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"1"), (b"b", b"1"), timestamp_ms=5)
    put(log, (b"a", None), timestamp_ms=7)
    roll(log)
    put(log, (b"z", b"1"))

    def tombstones() -> list[tuple[int, int]]:
        return [(record.offset, record.timestamp_ms) for record in records_of(log) if record.value is None]

    compact_once(files, directory)
    assert tombstones() == [(2, 7)]
    (tombstone,) = (
        header for _, header in headers(files.read(log.directory / file_name(0, ".log"))) if header.base_offset == 2
    )
    assert tombstone.delete_horizon_ms == NOW_MS + 1000
    for now_ms, expected in ((NOW_MS + 999, [(2, 7)]), (NOW_MS + 1000, [])):
        roll(log)
        compact_once(files, directory, now_ms=now_ms)
        assert tombstones() == expected
        assert next(record.offset for record in records_of(log)) == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_a_rewritten_batch_keeps_all_but_its_records(codec: Codec) -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(
        log,
        (b"a", b"1"),
        (b"b", b"1" * 50),
        (b"a", b"2"),
        codec=codec,
        producer_id=3,
        producer_epoch=2,
        base_sequence=9,
    )
    (_, before), *_ = headers(files.read(log.directory / file_name(0, ".log")))
    roll(log)
    compact_once(files, directory)
    data = files.read(log.directory / file_name(0, ".log"))
    (_, after), *_ = headers(data)
    assert after == before._replace(length=after.length, crc=after.crc, record_count=2)
    assert [(r.offset, r.key) for r in decode_batch(data, after)] == [(1, b"b"), (2, b"a")]


def test_the_last_batch_of_a_producer_stays_when_it_is_emptied() -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    for sequence, (producer_id, key) in enumerate([(3, b"a"), (3, b"a"), (4, b"a")]):
        put(log, (key, b"%d" % sequence), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    put(log, (b"a", b"last"))
    roll(log)
    compact_once(files, directory)
    kept = [(h.base_offset, h.record_count) for _, h in headers(files.read(log.directory / file_name(0, ".log")))]
    assert kept == [(1, 0), (2, 0), (3, 1)]
    directory = open_directory(files.restarted(), config=CONFIG)
    log = directory.logs["t", 0]
    retried = keyed_batch([(b"a", b"1")], producer_id=3, producer_epoch=0, base_sequence=1)
    assert append(log, retried).duplicate
    skipping = keyed_batch([(b"a", b"1")], producer_id=3, producer_epoch=0, base_sequence=5)
    assert try_append(log, skipping) is ErrorCode.out_of_order_sequence_number


def test_neither_the_active_segment_nor_what_is_undecided_unflushed_or_too_young_is_touched() -> None:
    _files, directory = compacting(replace(CONFIG, segment_ms=100))
    log = directory.logs["t", 0]
    for i in range(5):
        put(log, (b"a", b"%d" % i), timestamp_ms=NOW_MS + 1000 * i)
    assert log.segment_base_offsets == (0, 1, 2, 3, 4)
    assert log.dirtiness(0, 5, NOW_MS).end_offset == 0  # nothing is flushed yet
    flush(log)
    assert log.dirtiness(0, 5, NOW_MS).end_offset == 4
    assert log.dirtiness(0, 2, NOW_MS).end_offset == 2
    log.config = replace(log.config, min_compaction_lag_ms=2000)
    assert log.dirtiness(0, 5, NOW_MS + 3500).end_offset == 2
    assert log.dirtiness(4, 5, NOW_MS + 3500).dirty_bytes == 0


def test_a_log_is_compacted_when_it_is_dirty_enough_or_a_record_waited_too_long() -> None:
    _files, directory = compacting(replace(CONFIG, segment_ms=100, max_compaction_lag_ms=DAY_MS))
    log = directory.logs["t", 0]
    for i in range(5):
        put(log, (b"%d" % i, b"same size"), timestamp_ms=NOW_MS + 1000 * i)
    flush(log)
    for clean_offset, ratio, is_due in ((0, 1.0, True), (2, 0.5, False), (1, 0.75, True), (4, 0.0, False)):
        dirt = log.dirtiness(clean_offset, 5, NOW_MS)
        assert (dirt.ratio, dirt.is_due(log.config)) == (ratio, is_due)
    assert log.dirtiness(2, 5, NOW_MS + 2000 + DAY_MS).is_due(log.config) is False
    assert log.dirtiness(2, 5, NOW_MS + 2001 + DAY_MS).is_due(log.config) is True
    # An offset from before a truncation or a deletion says nothing: all is dirty again.
    assert log.dirtiness(99, 5, NOW_MS).first_dirty_offset == 0


def test_small_segments_are_put_together() -> None:
    files, directory = compacting(replace(CONFIG, segment_ms=100))
    log = directory.logs["t", 0]
    for i in range(20):
        put(log, (b"%d" % i, b"x" * 50), timestamp_ms=NOW_MS + 1000 * i)
    flush(log)
    before = records_of(log)
    compact_once(files, directory)
    sizes = {e.name: e.size_bytes for e in files.list(log.directory) if e.name.endswith(".log")}
    assert len(sizes) == len(log.segment_base_offsets) < 6
    assert max(sizes.values()) <= 1000
    assert records_of(log) == before


def test_with_both_policies_records_also_go_by_age() -> None:
    files, directory = compacting(replace(CONFIG, cleanup_policy=("compact", "delete"), retention_ms=DAY_MS))
    log = directory.logs["t", 0]
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    compact_once(files, directory)
    log.segments_must_stay = True
    assert log.delete_expired(log.log_end_offset, NOW_MS + 2 * DAY_MS) == 0
    log.segments_must_stay = False
    assert log.delete_expired(log.log_end_offset, NOW_MS + 2 * DAY_MS) == 2
    assert records_of(log) == []


@pytest.mark.parametrize(("position", "complaint"), [(77, "has offset"), (65, "the CRC of the batch at 0")])
def test_damage_ends_the_pass_and_changes_nothing(position: int, complaint: str) -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    roll(log)
    path = log.directory / file_name(0, ".log")
    data = bytearray(files.read(path))
    data[position] ^= 1
    files.overwrite(path, bytes(data))
    with pytest.raises(CorruptBatch, match=complaint):
        compact_once(files, directory)
    assert files.read(path) == data


LYING_NUMBER = keyed_batch([(b"a", b"1")])
LYING_NUMBER[HEADER_SIZE + 3] = 2 * 60  # the first and only record is the 61st
UNTIMELY = keyed_batch([(b"a", b"1"), (b"b", None)])
HEADER.pack_into(UNTIMELY, 0, *read_header(UNTIMELY)._replace(base_timestamp_ms=2**63 - 1))
TOO_EARLY = keyed_batch([(b"b", None)])
HEADER.pack_into(TOO_EARLY, 0, *read_header(TOO_EARLY)._replace(base_timestamp_ms=-(2**63)))


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (LYING_NUMBER, "numbered 60"),
        (UNTIMELY, "timestamp 1 ms after"),
        (TOO_EARLY, "timestamp delta of -"),
    ],
)
def test_lies_that_were_taken_unopened_end_the_pass_and_change_nothing(batch: bytearray, complaint: str) -> None:
    """From before the topic was compacted: a record that claims a later offset would take the place of later ones."""
    files, directory = compacting()
    log = directory.logs["t", 0]
    batch = bytearray(batch)
    update_crc(batch, 0, len(batch))
    append(log, batch)
    put(log, (b"a", b"2"))
    roll(log)
    before = log.read(0, 1 << 20, end_offset=log.log_end_offset)
    with pytest.raises(CorruptBatch, match=complaint):
        compact_once(files, directory)
    assert log.read(0, 1 << 20, end_offset=log.log_end_offset) == before


def end(log: PartitionLog, producer_id: int, *, is_commit: bool) -> int:
    marker = TransactionMarker(producer_id, 0, 0, is_commit)
    appended = log.append_marker(marker, leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(appended, Appended), appended
    log.producer_states.high_watermark_moved(log.log_end_offset)
    return appended.base_offset


def in_transaction(producer_id: int, sequence: int = 0) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": sequence,
        "is_transactional": True,
    }


def test_what_an_aborted_transaction_wrote_goes_and_its_marker_after_it() -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"good"))
    put(log, (b"a", b"bad"), **in_transaction(5))
    assert end(log, 5, is_commit=False) == 2
    put(log, (b"b", b"more"))
    log.producer_states.expire(NOW_MS, -1)
    roll(log)
    index = log.directory / file_name(0, ".txnindex")

    def first_batches() -> list[tuple[int, int | None]]:
        found = list(headers(files.read(log.directory / file_name(0, ".log"))))
        return [(header.base_offset, header.delete_horizon_ms) for _, header in found if header.base_offset < 4]

    compact_once(files, directory)
    assert first_batches() == [(0, None), (2, None), (3, None)]
    assert decode_aborted(files.read(index)) == [AbortedTransaction(5, 1, 2, 3)]
    assert log.aborted_transactions(0, 1 << 20, 4) == [(5, 1)]
    roll(log)
    compact_once(files, directory)
    assert first_batches() == [(0, None), (2, NOW_MS + 1000), (3, None)]
    assert not files.exists(index)
    assert log.aborted_transactions(0, 1 << 20, 4) == []
    roll(log)
    compact_once(files, directory, now_ms=NOW_MS + 1000)
    assert first_batches() == [(0, None), (3, None)]
    assert last_values(records_of(log))[b"a"] == b"good"


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_counts_as_its_marker_says_though_that_is_not_compacted_yet(is_commit: bool) -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"old"))
    put(log, (b"a", b"new"), **in_transaction(5))
    roll(log)
    end(log, 5, is_commit=is_commit)
    compact_once(files, directory)
    assert [record.value for record in records_of(log) if record.key == b"a"] == [b"new" if is_commit else b"old"]


def test_an_aborted_transaction_of_the_clean_part_does_not_taint_a_later_one_of_its_producer() -> None:
    files, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"aborted"), **in_transaction(5))
    end(log, 5, is_commit=False)
    put(log, (b"b", b"old"))
    roll(log)
    compact_once(files, directory)
    put(log, (b"b", b"new"), **in_transaction(5, sequence=1))
    end(log, 5, is_commit=True)
    roll(log)
    compact_once(files, directory)
    assert [record.value for record in records_of(log) if record.key == b"b"] == [b"new"]


def test_nothing_of_an_open_transaction_is_compacted() -> None:
    _, directory = compacting()
    log = directory.logs["t", 0]
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), **in_transaction(5))
    put(log, (b"a", b"3"))
    roll(log)
    assert log.dirtiness(0, log.producer_states.first_unstable_offset, NOW_MS).dirty_bytes == 0
    end(log, 5, is_commit=False)
    assert log.dirtiness(0, log.producer_states.first_unstable_offset, NOW_MS).dirty_bytes > 0


def prepared(power_cut: bool) -> tuple[SimulatedFiles, LogDirectory, list[Record]]:
    config = replace(CONFIG, segment_ms=2500, delete_retention_ms=0)
    files, directory = compacting(config)
    log = directory.logs["t", 0]
    for i in range(24):
        put(log, (b"key %d" % (i % 5), None if i in (11, 17) else b"%d" % i * 30), timestamp_ms=NOW_MS + 1000 * i)
    flush(log)
    directory.checkpoint()
    written = records_of(log)
    return files, directory, written


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_crash_at_every_operation_is_completed_or_undone(power_cut: bool) -> None:
    kill_after = passes_done = 0
    while passes_done < 2:
        files, directory, written = prepared(power_cut)
        expected = last_values(written)
        files.kill_at = files.changes_made + kill_after
        passes_done = 0
        try:
            for now_ms in (NOW_MS, NOW_MS + 10):
                put(directory.logs["t", 0], (b"key 0", b"new"), timestamp_ms=NOW_MS + 50_000 + now_ms % 100)
                expected[b"key 0"] = b"new"
                put(directory.logs["t", 0], (b"key 1", b"new"), timestamp_ms=NOW_MS + 60_000 + now_ms % 100)
                expected[b"key 1"] = b"new"
                flush(directory.logs["t", 0])
                compact_once(files, directory, now_ms=now_ms)
                for path in directory.logs["t", 0].take_removable(NOW_MS + DAY_MS):
                    files.remove(path)
                passes_done += 1
        except Killed:
            pass
        for seed in range(4 if power_cut else 1):
            survivor = files.after_power_cut(seed) if power_cut else files.restarted()
            found = open_directory(survivor, config=directory.logs["t", 0].config)
            log = found.logs["t", 0]
            state = last_values(records_of(log))
            for key in (b"key 2", b"key 3", b"key 4"):
                assert state.get(key) == expected.get(key), (kill_after, seed)
            assert log.log_end_offset >= len(written)
            names = [entry.name for entry in survivor.list(log.directory)]
            assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
            assert [r.offset for r in records_of(log)] == sorted({r.offset for r in records_of(log)})
            # And it can be compacted to the end, with the same outcome.
            put(log, (b"key 5", b"x"), timestamp_ms=NOW_MS + 90_000)
            flush(log)
            compact_once(survivor, found, now_ms=NOW_MS + 20)
            state[b"key 5"] = b"x"
            assert last_values(records_of(log)) == state
            found.close()
            assert survivor.open_descriptors == 0
            check_indexes(survivor)
        kill_after += 1
    assert kill_after > 60


def test_a_kill_after_the_topic_ceased_to_be_compacted_costs_nothing() -> None:
    """The recovery point on the disk is older than the pass, so the recovery reads over the gaps that it made."""
    files, directory = compacting(replace(CONFIG, segment_ms=2500))
    log = directory.logs["t", 0]
    for i in range(24):
        put(log, (b"key %d" % (i % 2), b"%d" % i * 30), timestamp_ms=NOW_MS + 1000 * i)
    flush(log)
    assert compact_once(files, directory) is not None
    put(log, (None, b"acknowledged"), timestamp_ms=NOW_MS + 25_000)
    flush(log)
    expected = records_of(log)
    ends = [end for _, end in zip(log.segment_base_offsets, log.segment_base_offsets[1:], strict=False)]
    assert any(end - 1 not in {record.offset for record in expected} for end in ends)
    found = open_directory(files.restarted(), config=replace(CONFIG, cleanup_policy=("delete",)))
    assert records_of(found.logs["t", 0]) == expected


def test_readers_are_served_between_any_two_steps_of_a_pass() -> None:
    files, directory, written = prepared(power_cut=False)
    log = directory.logs["t", 0]
    expected = last_values(written)
    dirt = log.dirtiness(0, log.log_end_offset, NOW_MS)
    job = log.compaction_job(dirt, NOW_MS, 1 << 16, 0.9, ".1.cleaned")
    for step in compact(files, job, lambda _: None):
        if isinstance(step, CleanedGroup):
            for moment in ("before", "after"):
                if moment == "after":
                    log.replace_segments(step, NOW_MS)
                put(log, (b"meanwhile", b"%d" % log.log_end_offset))
                expected[b"meanwhile"] = b"%d" % (log.log_end_offset - 1)
                found = records_of(log)
                for offset in range(log.log_end_offset):
                    assert records_of(log, offset) == [record for record in found if record.offset >= offset]
                assert last_values(found) == expected


def test_kafkas_leftovers_of_a_swap_are_finished_too() -> None:
    """Apache Kafka names them alike; an index without its log is none."""
    files, directory, _ = prepared(power_cut=False)
    log = directory.logs["t", 0]
    content = files.read(log.directory / file_name(0, ".log"))
    files.overwrite(log.directory / file_name(0, ".log.swap"), content)
    files.overwrite(log.directory / file_name(7, ".index.swap"), b"12345678")
    before = records_of(log)
    reopened = open_directory(files.restarted(), config=log.config).logs["t", 0]
    assert records_of(reopened) == before
    assert not [e.name for e in files.list(ROOT / "t-0") if "swap" in e.name]


@given(entries=st.lists(st.tuples(st.binary(max_size=12), st.integers(0, 2**62)), max_size=300))
def test_the_offset_map_is_a_dictionary(entries: list[tuple[bytes, int]]) -> None:
    table = OffsetMap(len(entries) + 1)
    for key, offset in entries:
        table.put(key, offset)
    expected = dict(entries)
    assert len(table) == len(expected)
    assert all(table.get(key) == offset for key, offset in expected.items())
    assert table.get(b"a key of thirteen bytes") == -1
