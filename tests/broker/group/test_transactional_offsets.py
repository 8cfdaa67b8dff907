"""TxnOffsetCommit: who may commit in a transaction, and what becomes of the offsets (KIP-98, KIP-447)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, partition_of
from tests.broker.group.asking import GroupHarness
from tests.broker.handlers.harness import Pending, versions

T0 = ("t", 0)
UNVERIFIED = {"transaction_partition_verification_enable": "false"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GroupHarness]:
    node = GroupHarness(tmp_path / "log", **UNVERIFIED)
    node.find()
    yield node
    node.close(clean=False)


def test_offsets_count_when_the_transaction_commits(node: GroupHarness) -> None:
    node.commit({T0: 1})
    assert node.commit_in_transaction({T0: 5, ("t", 1): 6}) == {T0: ErrorCode.none, ("t", 1): ErrorCode.none}
    assert node.fetch_offsets(T0, ("t", 1)) == {T0: (1, "")}
    assert node.fetch_offsets(T0, require_stable=True) == ErrorCode.unstable_offset_commit
    assert node.end_transaction(True) == {ErrorCode.none}
    assert node.fetch_offsets(T0, ("t", 1), require_stable=True) == {T0: (5, ""), ("t", 1): (6, "")}


def test_offsets_of_an_aborted_transaction_are_as_if_they_had_never_been(node: GroupHarness) -> None:
    node.commit({T0: 1})
    node.commit_in_transaction({T0: 5})
    node.commit_in_transaction({T0: 6}, group="other")
    assert node.end_transaction(False) == {ErrorCode.none}
    assert node.fetch_offsets(T0, require_stable=True) == {T0: (1, "")}
    assert node.ask("list_groups", 4).groups[0].group_id == "g"
    assert len(node.ask("list_groups", 4).groups) == 1


def test_a_plain_commit_after_that_of_a_transaction_wins(node: GroupHarness) -> None:
    node.commit_in_transaction({T0: 5})
    node.commit({T0: 9})
    node.end_transaction(True)
    assert node.fetch_offsets(T0) == {T0: (9, "")}


def test_of_two_transactions_that_which_was_written_last_wins(node: GroupHarness) -> None:
    node.commit_in_transaction({T0: 5}, producer_id=1)
    node.commit_in_transaction({T0: 6}, producer_id=2)
    node.end_transaction(True, producer_id=2)
    node.end_transaction(True, producer_id=1)
    assert node.fetch_offsets(T0) == {T0: (6, "")}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_comes_while_the_groups_are_read_back_counts(tmp_path: Path, is_commit: bool) -> None:
    node = GroupHarness(tmp_path / "log", **UNVERIFIED)
    node.find()
    node.commit({T0: 1})
    node.commit_in_transaction({T0: 5})
    node.close(clean=False)
    node = GroupHarness.__new__(GroupHarness)
    super(GroupHarness, node).__init__(tmp_path / "log", offsets_topic_num_partitions="3", **UNVERIFIED)
    assert node.fetch_offsets(T0) == ErrorCode.coordinator_load_in_progress
    assert node.commit_in_transaction({T0: 7}) == {T0: ErrorCode.coordinator_load_in_progress}
    assert node.commit_in_transaction({T0: 7}, version=1) == {T0: ErrorCode.coordinator_not_available}
    assert node.end_transaction(is_commit) == {ErrorCode.none}
    node.scheduler.run()
    assert node.fetch_offsets(T0, require_stable=True) == {T0: (5 if is_commit else 1, "")}
    node.close(clean=False)


def test_members_are_checked_where_they_are_named(node: GroupHarness) -> None:
    def commit(**who: Any) -> ErrorCode:
        outcome: ErrorCode = node.commit_in_transaction({T0: 5}, **who)[T0]
        return outcome

    assert commit(generation_id=1, member_id="m") == ErrorCode.illegal_generation
    member = node.become_stable()
    assert commit(generation_id=1, member_id=member) == ErrorCode.none
    assert commit(generation_id=2, member_id=member) == ErrorCode.illegal_generation
    assert commit(generation_id=-1, member_id=member) == ErrorCode.illegal_generation
    assert commit(generation_id=1, member_id="m") == ErrorCode.unknown_member_id
    assert commit(generation_id=1, member_id=member, group_instance_id="i") == ErrorCode.unknown_member_id
    assert commit() == ErrorCode.none  # as older producers do
    assert commit(group="") == ErrorCode.invalid_group_id
    unknown = ("no", 0)
    assert node.commit_in_transaction({unknown: 5}) == {unknown: ErrorCode.unknown_topic_or_partition}


def test_a_generation_of_a_group_that_does_not_exist(node: GroupHarness) -> None:
    begun = node.begin()
    for version in versions("txn_offset_commit")[3:]:
        unknown = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.illegal_generation
        told = node.commit_in_transaction({T0: 5}, version=version, generation_id=1, member_id="m", **begun)
        assert told == {T0: unknown}
    assert node.ask("list_groups", 4).groups == ()


def test_offsets_of_a_deleted_topic_are_none_of_one_of_its_name(node: GroupHarness) -> None:
    begun = node.begin()
    old = node.topic_key("t", is_by_id=True)
    nowhere, ninth = ("nowhere", 0), ("t", 9)
    assert node.commit_in_transaction({T0: 5, ninth: 6, nowhere: 7}, version=6, **begun) == {
        T0: ErrorCode.none,
        ninth: ErrorCode.unknown_topic_or_partition,
        nowhere: ErrorCode.unknown_topic_id,
    }
    node.topics.delete("t")
    node.scheduler.run()
    node.create_topic("t", 4)
    offset = {"partition_index": 0, "committed_offset": 8, "committed_metadata": None}
    wanted = [key | {"partitions": [offset]} for key in (old, {"topic_id": None})]
    told = node.ask("txn_offset_commit", 6, group_id="g", topics=wanted, **begun).topics
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in told] == [
        (old["topic_id"], ErrorCode.unknown_topic_id),
        (None, ErrorCode.unknown_topic_id),
    ]
    assert node.ask("end_txn", 5, committed=True, **begun).error_code == ErrorCode.none
    node.scheduler.run()
    assert node.fetch_offsets(T0, require_stable=True) == {}


def test_a_rebalance_does_not_keep_a_producer_from_committing(node: GroupHarness) -> None:
    """It has the results in its transaction already, and the generation tells that it still owned the partitions."""
    member = node.become_stable()
    given = node.join()
    joining = node.join(given.member_id)
    again = node.join(member)
    node.scheduler.run()
    assert isinstance(joining, Pending)
    generation = again.generation_id
    assert node.state() == "CompletingRebalance"
    assert node.commit({T0: 5}, member_id=member, generation=generation) == {T0: ErrorCode.rebalance_in_progress}
    assert node.commit_in_transaction({T0: 5}, member_id=member, generation_id=generation) == {T0: ErrorCode.none}


def test_older_epochs_of_a_producer_are_fenced(node: GroupHarness) -> None:
    assert node.commit_in_transaction({T0: 5}, producer_epoch=3) == {T0: ErrorCode.none}
    assert node.commit_in_transaction({T0: 6}, producer_epoch=2) == {T0: ErrorCode.invalid_producer_epoch}
    node.end_transaction(True, producer_epoch=3)
    assert node.fetch_offsets(T0) == {T0: (5, "")}


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_commit_that_is_refused_leaves_the_one_before_it(node: GroupHarness, is_commit: bool) -> None:
    """Of the same transaction in the same group, as on Kafka 4.4."""
    node.commit({T0: 1})
    assert node.commit_in_transaction({T0: 5}, producer_epoch=1) == {T0: ErrorCode.none}
    refused = node.commit_in_transaction({T0: 7}, producer_epoch=1, generation_id=3, member_id="nobody")
    assert refused == {T0: ErrorCode.unknown_member_id}
    assert node.commit_in_transaction({T0: 8}, producer_epoch=0) == {T0: ErrorCode.invalid_producer_epoch}
    assert node.fetch_offsets(T0, require_stable=True) == ErrorCode.unstable_offset_commit
    node.end_transaction(is_commit, producer_epoch=1)
    assert node.fetch_offsets(T0, require_stable=True) == {T0: (5 if is_commit else 1, "")}


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)])
def test_the_transaction_must_have_the_groups_partition(tmp_path: Path, version: int, error: ErrorCode) -> None:
    node = GroupHarness(tmp_path / "log")
    node.find()
    begun = node.begin()
    producer = begun | {"version": version}
    assert node.commit_in_transaction({T0: 5}, **producer) == {T0: error}
    unknown = producer | {"transactional_id": "y"}
    assert node.commit_in_transaction({T0: 5}, **unknown) == {T0: ErrorCode.invalid_producer_id_mapping}
    stale = producer | {"producer_epoch": begun["producer_epoch"] - 1}
    assert node.commit_in_transaction({T0: 5}, **stale) == {T0: ErrorCode.invalid_producer_epoch}
    added = node.ask("add_offsets_to_txn", 3, **begun, group_id="g")
    assert added.error_code == ErrorCode.none
    assert node.commit_in_transaction({T0: 5}, **producer) == {T0: ErrorCode.none}
    ended = node.ask("end_txn", 3, **begun, committed=True)
    assert ended.error_code == ErrorCode.none
    node.scheduler.run()
    assert node.fetch_offsets(T0, require_stable=True) == {T0: (5, "")}
    node.close(clean=False)


def test_what_a_transaction_changes_does_not_expire(tmp_path: Path) -> None:
    node = GroupHarness(tmp_path / "log", **UNVERIFIED, offsets_retention_minutes="1")
    node.find()
    node.commit({T0: 1})
    node.commit_in_transaction({T0: 5})
    node.advance(10 * 60_000)
    assert node.fetch_offsets(T0) == {T0: (1, "")}
    node.end_transaction(False)
    node.advance(10 * 60_000)
    assert node.fetch_offsets(T0) == {}
    node.close(clean=False)


def test_the_records_are_a_batch_of_the_producer(node: GroupHarness) -> None:
    node.commit_in_transaction({T0: 5}, producer_id=7, producer_epoch=2)
    partition = node.node.partitions.find(OFFSETS_TOPIC, partition_of("g", 3))
    assert partition is not None
    state = partition.log.producer_states.get(7)
    assert state is not None
    assert (state.epoch, state.last_sequence, state.transaction_first_offset) == (2, 0, 0)
