"""Partitions of a session with nothing to say: left out, noticed again, and the answers as without that."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.replica.fetch_sessions import FetchSession
from highwater.broker.replica.leader import Leader
from tests.broker.replica.replicating import LAG_MS, ReplicaHarness

PARTITIONS = 3
CONSUMER = -1


class SessionFollower:
    """A follower, or CONSUMER, that has a fetch session with broker 0, which leads all partitions of `t`."""

    def __init__(self, broker: ReplicaHarness, broker_id: int) -> None:
        self.broker, self.broker_id = broker, broker_id
        self.session_id = self.epoch = 0
        self.offsets = [0] * PARTITIONS
        self.named: list[int] = list(range(PARTITIONS))
        """What the next fetch names: at first all, then those whose offsets moved."""

    def ask(self, wait_ms: int = 0) -> Any:
        named, self.named = self.named, []
        return self.broker.ask(
            "fetch",
            12,
            replica_id=self.broker_id,
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[{"topic": "t", "partitions": [self._wanted(index) for index in named]}] if named else [],
        )

    def _wanted(self, index: int) -> dict[str, Any]:
        return {
            "partition": index,
            "fetch_offset": self.offsets[index],
            "log_start_offset": 0,
            "partition_max_bytes": 1 << 20,
        }

    def take(self, answer: Any) -> list[tuple[int, ErrorCode, int, int, int]]:
        """What each partition of the answer is told: index, error, high watermark, log start, offset from now on."""
        assert answer.error_code is ErrorCode.none
        self.session_id, self.epoch = answer.session_id, self.epoch + 1
        told = []
        for entry in (entry for topic in answer.responses for entry in topic.partitions):
            index = entry.partition_index
            if entry.records:
                replica = self.broker.replica(index=index)
                self.offsets[index] = replica.high_watermark if self.broker_id == CONSUMER else replica.log_end_offset
                self.named.append(index)
            told.append(
                (index, entry.error_code, int(entry.high_watermark), int(entry.log_start_offset), self.offsets[index])
            )
        return told

    def fetch(self) -> list[tuple[int, ErrorCode, int, int, int]]:
        return self.take(self.ask())


def leading(folder: Path, in_sync: tuple[int, ...] = (0, 1, 2)) -> ReplicaHarness:
    broker = ReplicaHarness(folder / "log")
    for index in range(PARTITIONS):
        assert broker.tell(leader=0, leader_epoch=0, partition=index, in_sync=in_sync) is ErrorCode.none
    return broker


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that fetches of followers look at."""
    found: list[int] = []
    due = FetchSession.due

    def noted(self: FetchSession, *arguments: Any) -> Any:
        topics = due(self, *arguments)
        found.extend(wanted.partition for _, partitions in topics for wanted in partitions)
        return topics

    monkeypatch.setattr(FetchSession, "due", noted)
    return found


def test_a_fetch_looks_only_at_what_may_have_something_to_say(tmp_path: Path, looked_at: list[int]) -> None:
    broker = leading(tmp_path)
    follower = SessionFollower(broker, 1)
    follower.fetch()  # begins the session
    follower.fetch()
    looked_at.clear()
    assert follower.fetch() == []
    assert looked_at == []
    broker.produce("t", b"x", partition=1)
    assert [index for index, *_ in follower.fetch()] == [1]
    assert looked_at == [1]
    looked_at.clear()
    follower.fetch()
    follower.fetch()
    assert set(looked_at) == {1}
    broker.close(clean=False)


def test_a_consumer_reads_only_what_may_have_something_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    due = FetchSession.due_to_consumer

    def noted(self: FetchSession, read_committed: bool) -> Any:
        topics, left_out = due(self, read_committed)
        read.extend(wanted.partition for _, partitions in topics for wanted in partitions)
        return topics, left_out

    monkeypatch.setattr(FetchSession, "due_to_consumer", noted)
    broker = leading(tmp_path, in_sync=(0,))
    consumer = SessionFollower(broker, CONSUMER)
    consumer.fetch()
    consumer.fetch()
    read.clear()
    assert consumer.fetch() == []
    assert read == []
    broker.produce("t", b"x", partition=1)
    assert [index for index, *_ in consumer.fetch()] == [1]
    consumer.fetch()
    assert set(read) == {1}
    read.clear()
    assert consumer.fetch() == []
    assert read == []
    broker.tell(leader=1, leader_epoch=1, partition=2)
    assert consumer.fetch() == []
    assert read == [2], "another role is looked at"
    broker.close(clean=False)


@pytest.mark.parametrize("broker_id", [1, CONSUMER])
def test_a_fetch_that_waits_wakes_for_a_settled_partition(broker_id: int, tmp_path: Path) -> None:
    broker = leading(tmp_path, in_sync=(0,))
    follower = SessionFollower(broker, broker_id)
    follower.fetch()
    follower.fetch()
    parked = follower.ask(wait_ms=500)
    assert parked.waits
    broker.produce("t", b"x", partition=2)
    broker.pass_time(1)
    assert [index for index, *_ in follower.take(parked.answer)] == [2]
    broker.close(clean=False)


def test_a_follower_of_settled_partitions_stays_in_sync(tmp_path: Path) -> None:
    broker = leading(tmp_path)
    follower = SessionFollower(broker, 1)
    for _ in range(5):
        follower.fetch()
        broker.pass_time(LAG_MS // 2)
    broker.produce("t", b"x")
    leader = broker.leader()
    leader.shrink_isr()
    (change, _) = broker.proposals.take()
    assert change.in_sync_replicas == (0, 1)
    broker.close(clean=False)


def test_a_follower_that_the_controller_refuses_asks_again_to_be_in_sync(tmp_path: Path) -> None:
    broker = ReplicaHarness(tmp_path / "log")
    for index in range(PARTITIONS):
        broker.tell(leader=0, leader_epoch=0, partition=index, in_sync=(0, 2))
    follower = SessionFollower(broker, 1)
    for _ in range(3):
        follower.fetch()
        refused = [broker.proposals.take() for _ in range(PARTITIONS)]
        assert {change.in_sync_replicas for change, _ in refused} == {(0, 2, 1)}
        for _, answer in refused:
            answer(ErrorCode.ineligible_replica)
    broker.close(clean=False)


def test_a_settled_fetch_shows_that_the_log_starts_later_on_all_that_live(tmp_path: Path) -> None:
    """The log starts too early on a follower that is gone by then."""
    broker = leading(tmp_path)
    follower = SessionFollower(broker, 1)
    for _ in range(3):
        follower.fetch()
    told: list[ErrorCode] = []
    leader = broker.leader()
    broker.fetch_as(2, 0, log_start=-1)
    leader.when_low(0, told.append)
    follower.fetch()
    assert told == []
    broker.live(0, 1)
    follower.fetch()
    assert told == [ErrorCode.none]
    broker.close(clean=False)


def test_what_a_coordinator_appends_during_a_fetch_is_in_its_answer(tmp_path: Path) -> None:
    """The fetch advances a high watermark that a coordinator waits for, and the partition it appends to is settled."""
    broker = leading(tmp_path)
    followers = [SessionFollower(broker, broker_id) for broker_id in (1, 2)]
    for _ in range(3):
        assert [follower.fetch() for follower in followers]
    broker.produce("t", b"x")
    broker.replica().call_when_safe(0, lambda _: broker.produce("t", b"marker", partition=1))
    followers[1].fetch()
    followers[1].fetch()
    followers[0].fetch()
    assert [index for index, *_ in followers[0].fetch()] == [1, 0]
    broker.close(clean=False)


Act = Callable[[ReplicaHarness, list[SessionFollower]], Any]


def produced(index: int) -> Act:
    return lambda broker, _: broker.produce("t", b"x", partition=index).error_code


def fetched(number: int) -> Act:
    return lambda _, followers: followers[number].fetch()


def deleted(index: int) -> Act:
    return lambda broker, _: broker.replica(index=index).delete_records(-1)


def led_anew(index: int) -> Act:
    def act(broker: ReplicaHarness, _: list[SessionFollower]) -> Any:
        partition = broker.replica(index=index)
        return broker.tell(leader=0, leader_epoch=partition.leader_epoch + 1, partition=index)

    return act


def lost(index: int) -> Act:
    def act(broker: ReplicaHarness, _: list[SessionFollower]) -> Any:
        partition = broker.replica(index=index)
        return broker.tell(leader=1, leader_epoch=partition.leader_epoch + 1, partition=index)

    return act


def passed(duration_ms: int) -> Act:
    return lambda broker, _: broker.pass_time(duration_ms)


def shrunk(index: int) -> Act:
    def act(broker: ReplicaHarness, _: list[SessionFollower]) -> Any:
        role = broker.replica(index=index).role
        if isinstance(role, Leader):
            role.shrink_isr()
        changes = [change for change, _ in broker.proposals.made]
        return [(change.partition, change.in_sync_replicas) for change in changes]

    return act


INDEXES = st.integers(0, PARTITIONS - 1)
ACTS = st.one_of(
    INDEXES.map(produced),
    st.integers(0, 2).map(fetched),
    st.integers(0, 2).map(fetched),
    st.integers(0, 2).map(fetched),
    INDEXES.map(deleted),
    INDEXES.map(led_anew),
    INDEXES.map(lost),
    st.sampled_from((10, LAG_MS // 2, LAG_MS)).map(passed),
    INDEXES.map(shrunk),
)


def played(acts: list[Act], folder: Path) -> list[Any]:
    """What each act returned, and what the leader knows of its followers at the end."""
    broker = leading(folder)
    followers = [SessionFollower(broker, broker_id) for broker_id in (1, 2, CONSUMER)]
    begun = [follower.fetch() for _ in range(3) for follower in followers]
    trace = [*begun, *(act(broker, followers) for act in acts)]
    broker.pass_time(1)
    trace += [follower.fetch() for _ in range(4) for follower in followers]
    trace += [deleted(index)(broker, followers) for index in range(PARTITIONS)]
    trace += [follower.fetch() for follower in followers]
    for index in range(PARTITIONS):
        partition = broker.replica(index=index)
        trace.append((partition.high_watermark, partition.log_start_offset, partition.log_end_offset))
        if isinstance(partition.role, Leader):
            trace += [
                (known.log_end_offset, known.last_caught_up_ms, known.last_fetch_ms)
                for known in partition.role.followers
            ]
    trace.append(broker.replica().counters.fetches)
    broker.close(clean=False)
    return trace


@given(st.lists(ACTS, max_size=30))
def test_answers_and_followers_are_as_if_nothing_were_ever_settled(acts: list[Act]) -> None:
    with ExitStack() as stack:
        one, other = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        found = played(acts, one)
        with patch.object(FetchSession, "settle", lambda *_: None):
            assert found == played(acts, other)
