"""Topics made, grown and deleted on a file system that fails or dies at any operation; the next start is sound."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.alone.assembly import LoneNode
from highwater.broker.alone.store import FILE_NAME, EmbeddedMetadataStore
from highwater.broker.log.checkpoint import encode_partition_metadata
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.runtime import Runtime
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.settings.store import MetadataError
from highwater.broker.topics.administration import (
    MAX_PARTITIONS_PER_REQUEST,
    CreatedTopic,
    MorePartitions,
    NewTopic,
    Terms,
)
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.storage import Storage
from highwater.broker.turns import Turns
from highwater.kafka.protocol.problem import Problem
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.log.building import ROOT, append, batch, read_all
from tests.broker.log.simulated_files import Killed, SimulatedFiles
from tests.broker.manual_clock import ManualClock


def start(files: SimulatedFiles) -> LoneNode:
    config = BrokerConfig([])
    clock, scheduler = ManualClock(), ManualScheduler()
    directory = LogDirectory(files, ROOT, log_config_of(TopicConfig(config, {})), broker_id=0, clock=clock)
    store = EmbeddedMetadataStore(files, ROOT, directory.cluster_id)
    directory.load()
    directories = LogDirectories([directory])
    store.begin_epoch(directories.latest_leader_epoch)
    return LoneNode(
        Runtime(broker_id=0, config=config, clock=clock, scheduler=scheduler, turns=Turns(clock, scheduler)),
        store,
        Storage(
            log_directories=directories,
            storage_failed=lambda error, partition: None,
            request_flush=lambda partition: None,
            request_checkpoint=lambda done: None,
        ),
    )


def leader_epoch_of(alone: LoneNode) -> int:
    assert isinstance(alone.node.store, EmbeddedMetadataStore)
    return alone.node.store.leader_epoch


def create(alone: LoneNode) -> Any:
    return alone.topics.create(NewTopic("new", 3, 1))


def grow(alone: LoneNode) -> Any:
    return alone.topics.grow(MorePartitions("old", 4))


def recreate(alone: LoneNode) -> Any:
    return alone.topics.delete("old") or alone.topics.create(NewTopic("old", 2, 1))


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("work", [create, grow, recreate])
def test_an_interrupted_change_of_topics_is_whole_or_not_there(
    work: Callable[[LoneNode], Any], is_killed: bool
) -> None:
    for at in range(400):
        files = SimulatedFiles()
        alone = start(files)
        assert not isinstance(alone.topics.create(NewTopic("kept", 1, 1)), Problem)
        assert not isinstance(alone.topics.create(NewTopic("old", 2, 1)), Problem)
        for log in alone.node.storage.log_directories.all[0].logs.values():
            append(log, batch(b"record"))
        old = alone.node.partitions.topic("old")
        assert old is not None
        number = files.changes_made + at
        if is_killed:
            files.kill_at = number
        else:
            files.fail_at = {number: errno.ENOSPC}
        is_over = False
        try:
            answer = work(alone)
            is_over = files.changes_made <= number
            if not is_killed and isinstance(answer, Problem):
                files.fail_at = {}
                if work is not recreate:
                    assert not isinstance(work(alone), Problem), f"{at}: it cannot be done again"
        except Killed:
            pass
        check(start(files.restarted()), old.topic_id, f"operation {at}")
        if is_over:
            return
    raise AssertionError("not all operations were tried")


def check(alone: LoneNode, old_id: UUID, what: str) -> None:
    kept = alone.node.storage.log_directories.all[0].logs["kept", 0]
    assert read_all(kept) == [(0, b"record")], what
    old = alone.node.partitions.topic("old")
    if old is not None and old.topic_id == old_id:
        for partition in [old.partitions[index] for index in (0, 1) if index in old.partitions]:
            assert read_all(partition.log) == [(0, b"record")], what
    for topic in alone.node.partitions.topics():
        for partition in topic.partitions.values():
            assert partition.log.topic_id == topic.topic_id, what
            if topic.name == "new" or (topic.name == "old" and topic.topic_id != old_id):
                assert partition.log.log_end_offset == 0, what
            append(partition.log, batch(b"more"))
    assert not isinstance(alone.topics.create(NewTopic("another", 1, 1)), Problem), what
    for name in ("new", "old"):
        if alone.node.partitions.topic(name) is None:
            assert not isinstance(alone.topics.create(NewTopic(name, 3, 1)), Problem), what


@pytest.mark.parametrize("work", [create, grow, recreate])
def test_what_a_full_disk_left_half_done_is_finished_when_there_is_space(work: Callable[[LoneNode], Any]) -> None:
    """Neither a folder that nobody knows, which would stop the next start, nor a name that cannot be had again."""
    for at in range(300):
        files = SimulatedFiles()
        alone = start(files)
        assert not isinstance(alone.topics.create(NewTopic("old", 2, 1)), Problem)
        number = files.changes_made + at
        files.full_during = range(number, number + 40)
        work(alone)
        is_over = files.changes_made <= number
        files.full_during = range(0)
        for name in ("old", "new"):
            if alone.node.partitions.topic(name) is None:
                assert not isinstance(alone.topics.create(NewTopic(name, 1, 1)), Problem), f"operation {at}"
            assert alone.topics.delete(name) is None
        assert alone.node.storage.log_directories.all[0].logs == {}
        assert list(start(files.restarted()).node.partitions.topics()) == [], f"operation {at}"
        if is_over:
            return
    raise AssertionError("not all operations were tried")


def test_the_records_of_another_topic_of_the_same_name_are_not_taken_for_its_own() -> None:
    files = SimulatedFiles()
    alone = start(files)
    alone.topics.create(NewTopic("t", 1, 1))
    append(alone.node.storage.log_directories.all[0].logs["t", 0], batch(b"record"))
    path = ROOT / "t-0" / "partition.metadata"
    files.overwrite(path, encode_partition_metadata(UUID(int=7)))
    with pytest.raises(MetadataError, match=r"^/logs/t-0 is of topic id AAAAAAAAAAAAAAAAAAAABw, and [^\n]*$"):
        start(files.restarted())


def test_metadata_put_back_from_a_copy_gives_nothing_out_twice() -> None:
    """Neither a leader epoch, which clients and transactions would refuse, nor the id of a producer that a log knows:
    the first batch of its new owner would be taken for a retry, and be lost."""
    files = SimulatedFiles()
    start(files).topics.create(NewTopic("t", 1, 1))
    copy = files.read(ROOT / FILE_NAME)
    for _ in range(3):
        files = files.restarted()
        alone = start(files)
        producer_id = alone.node.producer_ids.next()
        log = alone.node.storage.log_directories.all[0].logs["t", 0]
        batches = batch(b"record", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        append(log, batches, leader_epoch=leader_epoch_of(alone))
    files = files.restarted()
    files.overwrite(ROOT / FILE_NAME, copy)
    again = start(files)
    assert leader_epoch_of(again) == leader_epoch_of(alone) + 1
    log = again.node.storage.log_directories.all[0].logs["t", 0]
    batches = batch(b"record", producer_id=again.node.producer_ids.next(), producer_epoch=0, base_sequence=0)
    assert not append(log, batches, leader_epoch=leader_epoch_of(again)).duplicate
    assert len(read_all(log)) == 4


def test_partitions_are_counted_over_all_topics_of_a_request() -> None:
    alone = start(SimulatedFiles())
    half = MAX_PARTITIONS_PER_REQUEST // 2 + 1
    results: list[CreatedTopic | Problem] = []
    wanted = [NewTopic("a", half, 1), NewTopic("b", half, 1)]
    alone.topics.create_topics(wanted, Terms(0, validate_only=True), results.extend)
    first, second = results
    assert not isinstance(first, Problem)
    assert isinstance(second, Problem)
    assert second.error_code is ErrorCode.policy_violation
