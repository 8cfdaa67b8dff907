"""Produce and Fetch through the dispatcher: what clients of many kinds do, and what broke other brokers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import CloseConnection
from highwater.broker.log.files import RealFiles
from highwater.kafka.protocol.apis import APIS
from highwater.kafka.records.batch import HEADER_SIZE, Codec, headers, update_crc
from tests.broker.handlers.harness import NO_SUCH_ID, NodeHarness, Pending, one_batch

PRODUCE_VERSIONS = range(3, APIS[0].max_version + 1)
FETCH_VERSIONS = range(APIS[1].min_version, APIS[1].max_version + 1)


def partition_of(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def offsets(records: bytes) -> list[int]:
    return [header.base_offset for _, header in headers(records)]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_every_produce_version(node: NodeHarness, version: int) -> None:
    node.create_topic("t")
    assert node.produce("t", b"a", b"b", version=version).base_offset == 0
    answer = node.produce("t", b"c", version=version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time) == (ErrorCode.none, 2, None)
    if version >= 5:
        assert answer.log_start_offset == 0


def test_a_request_for_a_deleted_topic_writes_nothing_into_one_of_its_name(node: NodeHarness) -> None:
    old = node.create_topic("t").topic_id
    assert node.produce(old, b"a", version=13).error_code == ErrorCode.none
    node.topics.delete("t")
    node.scheduler.run()
    new = node.create_topic("t")
    refused = node.produce(old, b"b", version=13)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.unknown_topic_id, -1)
    assert new.partitions[0].log.log_end_offset == 0
    assert node.produce(new.topic_id, b"c", version=13).base_offset == 0
    with pytest.raises(CloseConnection, match="unknown_topic_id"):
        node.produce(old, b"b", version=13, acks=0)


def test_topics_by_id_have_answers_by_id(node: NodeHarness) -> None:
    ids = [node.create_topic(name).topic_id for name in ("t", "u")]
    wanted = [
        {"topic_id": topic_id, "partition_data": [{"index": index, "records": one_batch(b"v")} for index in (0, 7)]}
        for topic_id in (*ids, NO_SUCH_ID, None)
    ]
    answer = node.ask("produce", 13, acks=-1, timeout=1000, topic_data=wanted)
    assert [
        (topic.topic_id, [told.error_code for told in topic.partition_responses]) for topic in answer.responses
    ] == [
        *((topic_id, [ErrorCode.none, ErrorCode.unknown_topic_or_partition]) for topic_id in ids),
        *((topic_id, [ErrorCode.unknown_topic_id] * 2) for topic_id in (NO_SUCH_ID, None)),
    ]
    counters = node.node.counters
    assert [counters.topic(name).produces for name in ("t", "u")] == [1, 1]
    assert counters.unknown_topics.failed_produces == 6


def test_nobody_writes_to_internal_topics_by_their_ids(node: NodeHarness) -> None:
    topic = node.create_topic("__transaction_state")
    assert node.produce(topic.topic_id, b"v", version=13).error_code == ErrorCode.invalid_topic_exception
    assert topic.partitions[0].log.log_end_offset == 0


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_fetch_version(node: NodeHarness, version: int) -> None:
    topic = node.create_topic("t")
    node.produce("t", b"a", b"b")
    node.produce("t", b"c")
    wanted: Any = topic.topic_id if version >= 13 else "t"
    answer = partition_of(node.fetch(wanted, 0, version=version))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (ErrorCode.none, 3, 3)
    assert offsets(answer.records) == [0, 2]


def test_records_are_on_the_disk_as_they_came(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"not encrypted")
    node.flush()
    (log,) = (node.log_directory.path / "t-0").glob("*.log")
    assert b"not encrypted" in log.read_bytes()


def test_a_fetch_inside_a_batch_gets_the_whole_batch(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"a", b"b", b"c")
    node.produce("t", b"d")
    assert offsets(partition_of(node.fetch("t", 2)).records) == [0, 3]


def test_the_first_batch_comes_however_small_the_limits_and_only_the_first(node: NodeHarness) -> None:
    node.create_topic("t", 2)
    for partition in (0, 1):
        node.produce("t", bytes(5000), partition=partition)
        node.produce("t", bytes(5000), partition=partition)
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 10} for index in (0, 1)]
    answer = node.ask(
        "fetch", 11, replica_id=-1, min_bytes=1, max_bytes=10, topics=[{"topic": "t", "partitions": wanted}]
    )
    first, second = answer.responses[0].partitions
    assert offsets(first.records) == [0]
    assert second.records == b""


def test_the_whole_answer_keeps_to_max_bytes(node: NodeHarness) -> None:
    node.create_topic("t", 3)
    for partition in range(3):
        node.produce("t", bytes(5000), partition=partition)
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in range(3)]
    answer = node.ask(
        "fetch", 11, replica_id=-1, min_bytes=1, max_bytes=11_000, topics=[{"topic": "t", "partitions": wanted}]
    )
    assert [len(entry.records) > 0 for entry in answer.responses[0].partitions] == [True, True, False]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_errors_come_with_empty_records_never_null(node: NodeHarness, version: int) -> None:
    """librdkafka takes null records for a malformed answer."""
    topic = node.create_topic("t")
    known: Any = topic.topic_id if version >= 13 else "t"
    unknown: Any = UUID(int=9) if version >= 13 else "nowhere"
    node.produce("t", b"a")
    for wanted, offset, partition, error in (
        (known, 1000, 0, ErrorCode.offset_out_of_range),
        (known, 0, 7, ErrorCode.unknown_topic_or_partition),
        (known, 0, -1, ErrorCode.unknown_topic_or_partition),
        (unknown, 0, 0, ErrorCode.unknown_topic_id if version >= 13 else ErrorCode.unknown_topic_or_partition),
    ):
        answer = partition_of(node.fetch(wanted, offset, partition=partition, version=version, max_wait=10_000))
        assert (answer.error_code, answer.records) == (error, b"")


def test_leader_epochs_are_checked(node: NodeHarness) -> None:
    node.create_topic("t")
    assert partition_of(node.fetch("t", 0, current_leader_epoch=0, max_wait=0)).error_code == ErrorCode.none
    assert partition_of(node.fetch("t", 0, current_leader_epoch=1)).error_code == ErrorCode.unknown_leader_epoch


def test_a_restart_is_a_new_leader_epoch_and_a_reader_of_the_old_one_is_fenced(
    make_node: Callable[..., NodeHarness], tmp_path: Any
) -> None:
    first = NodeHarness(tmp_path / "log")
    first.create_topic("t")
    first.produce("t", b"a", b"b")
    first.close()
    second = NodeHarness(tmp_path / "log")
    try:
        assert partition_of(second.fetch("t", 0, current_leader_epoch=0)).error_code == ErrorCode.fenced_leader_epoch
        assert partition_of(second.fetch("t", 0, current_leader_epoch=1)).error_code == ErrorCode.none
        second.produce("t", b"c")
        ends = second.ask(
            "offset_for_leader_epoch",
            4,
            replica_id=-1,
            topics=[{"topic": "t", "partitions": [_epoch_question(epoch) for epoch in (0, 1, 2)]}],
        )
        assert [(p.leader_epoch, p.end_offset) for p in ends.topics[0].partitions] == [(0, 2), (1, 3), (-1, -1)]
        topic = second.node.partitions.topic("t")
        assert topic is not None
        diverged = partition_of(second.fetch(topic.topic_id, 3, version=13, last_fetched_epoch=0))  # type: ignore[arg-type]
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 2)
        assert diverged.records == b""
    finally:
        second.close()


def _epoch_question(epoch: int) -> dict[str, int]:
    return {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}


@pytest.mark.parametrize("version", range(7, 17))
def test_a_session_hears_only_of_what_changed(node: NodeHarness, version: int) -> None:
    topic = node.create_topic("t", 2)
    name: Any = topic.topic_id if version >= 13 else "t"
    key = {"topic_id" if version >= 13 else "topic": name}

    def fetch(session_id: int, epoch: int, *partitions: int, forgotten: tuple[int, ...] = (), max_wait: int = 0) -> Any:
        wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in partitions]
        return node.ask(
            "fetch",
            version,
            replica_id=-1,
            max_wait=max_wait,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[{**key, "partitions": wanted}] if wanted else [],
            forgotten_topics_data=[{**key, "partitions": list(forgotten)}] if forgotten else [],
        )

    def told(answer: Any) -> list[int]:
        assert answer.error_code == ErrorCode.none
        return [entry.partition_index for response in answer.responses for entry in response.partitions]

    first = fetch(0, 0, 0, 1)
    session_id = first.session_id
    assert session_id > 0
    assert told(first) == [0, 1]
    parked = fetch(session_id, 1, max_wait=500)
    assert isinstance(parked, Pending)
    node.produce("t", b"one", partition=1)
    node.scheduler.run()
    assert (parked.answer.session_id, told(parked.answer)) == (session_id, [1])
    assert told(fetch(session_id, 2, forgotten=(1,))) == []
    assert fetch(session_id, 2).error_code == ErrorCode.invalid_fetch_session_epoch
    assert fetch(session_id + 1, 1).error_code == ErrorCode.fetch_session_id_not_found
    final = fetch(session_id, -1, 0)
    assert (final.session_id, told(final)) == (0, [0])
    assert fetch(session_id, 3).error_code == ErrorCode.fetch_session_id_not_found


def test_a_session_keeps_to_names_or_ids(node: NodeHarness) -> None:
    node.create_topic("t")
    session_id = node.fetch("t", 0, version=12, session_epoch=0).session_id
    answer = node.ask("fetch", 13, max_wait=0, session_id=session_id, session_epoch=1, topics=[])
    assert answer.error_code == ErrorCode.fetch_session_topic_id_error


def test_a_fetch_with_nothing_to_read_waits_for_a_produce(node: NodeHarness) -> None:
    node.create_topic("t")
    pending = node.fetch("t", 0, max_wait=10_000)
    assert isinstance(pending, Pending)
    node.scheduler.run(9_999)
    assert pending.answer is None
    node.produce("t", b"a")
    node.scheduler.run()
    assert offsets(partition_of(pending.answer).records) == [0]
    assert node.scheduler.pending_timers == 0


def test_a_waiting_fetch_is_answered_when_its_time_is_up(node: NodeHarness) -> None:
    node.create_topic("t")
    pending = node.fetch("t", 0, max_wait=500)
    node.scheduler.run(500)
    answer = partition_of(pending.answer)
    assert (answer.error_code, answer.records, answer.high_watermark) == (ErrorCode.none, b"", 0)


def test_a_waiting_fetch_waits_for_min_bytes_and_takes_a_burst_at_once(node: NodeHarness) -> None:
    node.create_topic("t")
    size = len(one_batch(b"x" * 100))
    pending = node.fetch("t", 0, max_wait=10_000, min_bytes=3 * size)
    node.produce("t", b"x" * 100)
    node.produce("t", b"x" * 100)
    node.scheduler.run()
    assert pending.answer is None
    node.produce("t", b"x" * 100)
    node.produce("t", b"x" * 100)
    node.scheduler.run()
    assert offsets(partition_of(pending.answer).records) == [0, 1, 2, 3]


@pytest.mark.parametrize("read_committed", [False, True])
def test_a_fetch_that_a_limit_keeps_below_min_bytes_does_not_wait(node: NodeHarness, read_committed: bool) -> None:
    node.create_topic("t")
    size = len(one_batch(b"x" * 100))
    for _ in range(3):
        node.produce("t", b"x" * 100)
    # Two batches are a few bytes more than the partition may give, and one is less than is wanted.
    limits = {"partition_max_bytes": 2 * size - 1, "min_bytes": size + 1}
    isolation_level = 1 if read_committed else 0
    for offset in (0, 1):
        answer = node.fetch("t", offset, max_wait=10_000, isolation_level=isolation_level, **limits)
        assert offsets(partition_of(answer).records) == [offset]
    # Of the last one there is no more to be had, and more may come.
    pending = node.fetch("t", 2, max_wait=10_000, isolation_level=isolation_level, **limits)
    assert isinstance(pending, Pending)
    node.produce("t", b"x" * 100)
    node.scheduler.run()
    assert offsets(partition_of(pending.answer).records) == [2]


def test_what_counts_for_min_bytes_is_what_there_is_in_all_partitions_up_to_their_limits(node: NodeHarness) -> None:
    node.create_topic("t", 2)
    size = len(one_batch(b"x" * 100))

    def fetch(offsets: tuple[int, int], partition_max_bytes: int, min_bytes: int, max_bytes: int) -> Any:
        wanted = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
            for index, offset in enumerate(offsets)
        ]
        topics = [{"topic": "t", "partitions": wanted}]
        limits = {"min_bytes": min_bytes, "max_bytes": max_bytes, "max_wait": 10_000}
        return node.ask("fetch", 11, replica_id=-1, session_epoch=-1, topics=topics, **limits)

    for _ in range(9):
        node.produce("t", b"x" * 100)
    # More lies in the first than it may give, and both together are less than is wanted: it waits for the second.
    pending = fetch((0, 0), 2 * size, 4 * size, 1 << 20)
    node.produce("t", b"x" * 100, partition=1)
    node.scheduler.run()
    assert not pending.answer
    node.produce("t", b"x" * 100, partition=1)
    node.scheduler.run()
    assert [offsets(entry.records) for entry in pending.answer.responses[0].partitions] == [[0, 1], [0, 1]]
    # There is enough, though the second finds no room for what it has.
    answer = fetch((8, 0), 2 * size, 2 * size - 1, 2 * size - 1)
    assert [offsets(entry.records) for entry in answer.responses[0].partitions] == [[8], []]


def test_a_fetch_at_the_end_of_a_segment_does_not_wait_for_what_is_in_the_next(node: NodeHarness) -> None:
    size = len(one_batch(b"x" * 100))
    node.create_topic("t", segment_bytes=str(2 * size))
    for _ in range(3):
        node.produce("t", b"x" * 100)
    answer = node.fetch("t", 0, max_wait=10_000, min_bytes=3 * size)
    assert offsets(partition_of(answer).records) == [0, 1]


def test_a_fetch_whose_client_went_away_leaves_nothing_behind(node: NodeHarness) -> None:
    topic = node.create_topic("t")
    pending = node.fetch("t", 0, max_wait=10_000)
    pending.cancel()
    assert topic.partitions[0].fetch_waiters == {}
    assert node.scheduler.pending_timers == 0
    node.produce("t", b"a")
    node.scheduler.run(20_000)
    assert pending.answer is None


def test_a_fetch_waiting_on_a_deleted_topic_is_told(node: NodeHarness) -> None:
    node.create_topic("t")
    pending = node.fetch("t", 0, max_wait=10_000)
    node.topics.delete("t")
    node.scheduler.run()
    assert partition_of(pending.answer).error_code == ErrorCode.unknown_topic_or_partition


def test_acks_0_gets_no_answer_and_a_failed_one_hangs_up(node: NodeHarness) -> None:
    node.create_topic("t")
    assert node.produce("t", b"a", acks=0) is None
    assert partition_of(node.fetch("t", 0)).high_watermark == 1
    with pytest.raises(CloseConnection, match="unknown_topic_or_partition"):
        node.produce("nowhere", b"a", acks=0)


@pytest.mark.parametrize("acks", [2, -2, 300])
def test_other_acks_are_refused(node: NodeHarness, acks: int) -> None:
    node.create_topic("t")
    assert node.produce("t", b"a", acks=acks).error_code == ErrorCode.invalid_required_acks
    assert partition_of(node.fetch("t", 0)).high_watermark == 0


def test_zstd_needs_a_version_that_knows_it(node: NodeHarness) -> None:
    node.create_topic("t")
    errors = [node.produce("t", b"a", codec=Codec.ZSTD, version=version).error_code for version in (3, 6, 7, 11)]
    assert errors == [ErrorCode.unsupported_compression_type] * 2 + [ErrorCode.none] * 2
    assert partition_of(node.fetch("t", 0)).high_watermark == 2


def test_a_topic_of_zstd_is_not_read_by_who_cannot_know_it(node: NodeHarness) -> None:
    node.create_topic("t", compression_type="zstd")
    node.produce("t", b"a")
    found = [partition_of(node.fetch("t", 0, version=version)) for version in (4, 9, 10, 12)]
    told = [(partition.error_code, bool(partition.records)) for partition in found]
    assert told == [(ErrorCode.unsupported_compression_type, False)] * 2 + [(ErrorCode.none, True)] * 2


def test_acks_all_needs_min_insync_replicas(node: NodeHarness) -> None:
    node.create_topic("t", min_insync_replicas="2")
    assert node.produce("t", b"a", acks=-1).error_code == ErrorCode.not_enough_replicas
    assert node.produce("t", b"a", acks=1).error_code == ErrorCode.none


def _with(batch: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    if position >= 21:
        update_crc(changed, 0, len(changed))
    return bytes(changed)


BATCH = one_batch(b"a", b"b")


@pytest.mark.parametrize("leader_epoch", [-1, 0, 77])
def test_the_leader_epoch_in_a_batch_is_the_brokers_to_set(node: NodeHarness, leader_epoch: int) -> None:
    """franz-go sends -1, Sarama 0."""
    node.create_topic("t")
    batch = _with(BATCH, 12, ">i", leader_epoch)
    assert node.produce_records("t", batch).error_code == ErrorCode.none
    ((_, header),) = headers(partition_of(node.fetch("t", 0)).records)
    assert header.leader_epoch == 0


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (BATCH[:-1], ErrorCode.invalid_record),
        (BATCH[:40], ErrorCode.invalid_record),
        (BATCH + BATCH, ErrorCode.invalid_record),
        (_with(BATCH, 0, ">q", 5), ErrorCode.invalid_record),
        (_with(BATCH, 8, ">i", -1), ErrorCode.corrupt_message),
        (_with(BATCH, 16, ">b", 1), ErrorCode.invalid_record),
        (_with(BATCH, 16, ">b", 3), ErrorCode.corrupt_message),
        (_with(BATCH, 17, ">I", 1), ErrorCode.corrupt_message),
        (_with(BATCH, 21, ">h", 0x20), ErrorCode.invalid_record),
        (_with(BATCH, 21, ">h", 5), ErrorCode.unsupported_compression_type),
        (_with(BATCH, 21, ">h", 0x10), ErrorCode.transactional_id_authorization_failed),
        (_with(BATCH, 23, ">i", 5), ErrorCode.invalid_record),
        (_with(BATCH, 57, ">i", 0), ErrorCode.invalid_record),
    ],
)
def test_what_is_no_proper_batch_is_refused(node: NodeHarness, records: bytes | None, error: ErrorCode) -> None:
    node.create_topic("t")
    assert node.produce_records("t", records).error_code == error
    assert partition_of(node.fetch("t", 0)).high_watermark == 0


def test_too_large_a_batch_is_refused(node: NodeHarness) -> None:
    node.create_topic("t", max_message_bytes=str(HEADER_SIZE + 100))
    answer = node.produce("t", bytes(200))
    assert answer.error_code == ErrorCode.message_too_large
    assert "max.message.bytes" in answer.error_message


def test_one_bad_partition_does_not_spoil_the_others(node: NodeHarness) -> None:
    node.create_topic("t", 2)
    entries = [{"index": index, "records": one_batch(b"a")} for index in (0, 9, 1)]
    answer = node.ask("produce", 9, acks=1, timeout=1, topic_data=[{"name": "t", "partition_data": entries}])
    assert [(entry.index, entry.error_code) for entry in answer.responses[0].partition_responses] == [
        (0, ErrorCode.none),
        (9, ErrorCode.unknown_topic_or_partition),
        (1, ErrorCode.none),
    ]


def test_idempotence_duplicates_get_their_first_answer_and_gaps_are_refused(node: NodeHarness) -> None:
    node.create_topic("t")
    producer_id = node.ask("init_producer_id", 4, transaction_timeout=1000).producer_id
    batch = {"producer_id": producer_id, "producer_epoch": 0}
    # The first batch of a producer this broker does not remember is taken at any sequence (franz-go issue 1281).
    assert node.produce("t", b"a", b"b", base_sequence=10, **batch).base_offset == 0
    assert node.produce("t", b"c", base_sequence=12, **batch).base_offset == 2
    again = node.produce("t", b"a", b"b", base_sequence=10, **batch)
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    assert node.produce("t", b"x", base_sequence=14, **batch).error_code == ErrorCode.out_of_order_sequence_number
    assert partition_of(node.fetch("t", 0)).high_watermark == 3


def test_producer_ids_are_never_given_twice(make_node: Callable[..., NodeHarness], tmp_path: Any) -> None:
    given = []
    for _ in range(2):
        node = NodeHarness(tmp_path / "log")
        given += [node.ask("init_producer_id", 0, transaction_timeout=1000).producer_id for _ in range(1001)]
        node.close()
    assert len(set(given)) == len(given)


def test_flush_messages_holds_back_the_answer_and_the_readers(node: NodeHarness) -> None:
    node.create_topic("t", flush_messages="1")
    fetching = node.fetch("t", 0, max_wait=10_000)
    producing = [node.produce("t", value, acks=acks) for value, acks in ((b"a", 1), (b"b", -1))]
    node.scheduler.run()
    assert all(isinstance(pending, Pending) and pending.answer is None for pending in (*producing, fetching))
    node.flush()
    node.scheduler.run()
    assert [pending.answer.responses[0].partition_responses[0].base_offset for pending in producing] == [0, 1]
    assert offsets(partition_of(fetching.answer).records) == [0, 1]


def test_flush_messages_flushes_only_every_so_many(node: NodeHarness) -> None:
    node.create_topic("t", flush_messages="3")
    assert node.produce("t", b"a", b"b").base_offset == 0
    pending = node.produce("t", b"c")
    assert isinstance(pending, Pending)
    node.flush()
    assert pending.answer is not None
    assert node.produce("t", b"d").base_offset == 3


def test_a_producer_waiting_on_a_deleted_topic_is_told(node: NodeHarness) -> None:
    node.create_topic("t", flush_messages="1")
    pending = node.produce("t", b"a", acks=-1)
    node.topics.delete("t")
    answer = pending.answer.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.unknown_topic_or_partition


def test_a_full_disk_is_told_and_the_log_goes_on_when_space_returns(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create_topic("t")

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "pwrite", no_space)
        assert node.produce("t", b"a").error_code == ErrorCode.kafka_storage_error
    assert node.produce("t", b"b").base_offset == 0
