"""A leader among followers: who is in sync, how far the high watermark goes, and who hears of it when.

The cases that are named after Apache Kafka's are of PartitionTest.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import LeaderAndIsr
from tests.broker.handlers.harness import Pending
from tests.broker.replica.replicating import LAG_MS, ReplicaHarness

Make = Callable[..., ReplicaHarness]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ReplicaHarness] = []

    def make(**properties: str) -> ReplicaHarness:
        made.append(ReplicaHarness(tmp_path / "log", **properties))
        return made[-1]

    yield make
    for harness in made:
        harness.close(clean=False)


def outcome(produced: Any) -> ErrorCode:
    """Of a produce that was answered by now."""
    if isinstance(produced, Pending):
        assert not produced.waits, "it is not answered yet"
        produced = produced.answer.responses[0].partition_responses[0]
    found: ErrorCode = produced.error_code
    return found


def test_acks_of_all_wait_for_all_in_sync(make: Make) -> None:
    broker = make()
    assert broker.tell(leader=0, leader_epoch=0) is ErrorCode.none
    produced = broker.produce("t", b"x", acks=-1)
    assert outcome(broker.produce("t", b"y", acks=1)) is ErrorCode.none
    broker.fetch_as(1, 2)
    assert produced.waits
    broker.fetch_as(2, 1)
    assert outcome(produced) is ErrorCode.none
    assert (broker.replica().high_watermark, broker.replica().log_end_offset) == (1, 2)


def test_a_follower_is_told_the_high_watermark_that_it_makes(make: Make) -> None:
    broker = make()
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
    broker.produce("t", b"x")
    first = broker.fetch_as(1, 0)
    assert (first.high_watermark, len(first.records) > 0) == (0, True)
    assert broker.fetch_as(1, 1).high_watermark == 1


def test_a_follower_waits_for_the_log_to_grow_and_a_consumer_for_the_high_watermark(make: Make) -> None:
    broker = make()
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
    follower = broker.fetch_as(1, 0, wait_ms=500)
    consumer = broker.fetch("t", 0, max_wait=500)
    broker.produce("t", b"x")
    broker.scheduler.run()
    assert not follower.waits
    assert consumer.waits
    broker.fetch_as(1, 1)
    broker.scheduler.run()
    assert not consumer.waits
    assert broker.node.counters.replication_bytes_out > 0
    assert broker.node.counters.all_topics().bytes_out == broker.node.counters.replication_bytes_out


def test_what_one_fetch_lets_others_write_is_read_by_the_same(make: Make) -> None:
    broker = make()
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
    broker.produce("t", b"x")
    replica = broker.replica()
    replica.call_when_safe(0, lambda _: broker.produce("t", b"y"))
    answer = broker.fetch_as(1, 1, wait_ms=500)
    assert not isinstance(answer, Pending)
    assert len(answer.records) > 0


class TestInSync:
    def test_a_follower_that_falls_behind_is_left_out(self, make: Make) -> None:
        """testMaybeShrinkIsr, testShouldNotShrinkIsrIfReplicaIsCaughtUp..."""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, partition_epoch=4)
        produced = broker.produce("t", b"x", acks=-1)
        for _ in range(4):
            broker.fetch_as(1, 1)
            broker.pass_time(LAG_MS // 2)
        change, then = broker.proposals.take()
        assert (change.in_sync_replicas, change.partition_epoch, change.leader_epoch) == ((0, 1), 4, 0)
        assert produced.waits, "the controller has not agreed yet"
        then(LeaderAndIsr(0, 0, (0, 1), 1, 5))
        assert outcome(produced) is ErrorCode.none
        assert (broker.replica().in_sync_replicas, broker.replica().partition_epoch) == ([0, 1], 5)

    def test_a_follower_at_the_end_of_a_quiet_log_stays_in_sync(self, make: Make) -> None:
        """testShouldNotShrinkIsrIfFollowerCaughtUpToLogEnd"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0)
        broker.produce("t", b"x")
        broker.fetch_as(1, 1)
        broker.fetch_as(2, 1)
        broker.pass_time(5 * LAG_MS)
        assert broker.proposals.made == []

    def test_a_follower_that_never_reaches_a_fast_leader_stays_in_sync(self, make: Make) -> None:
        """testUpdateFollowerFetchState, testFollowerDoesNotJoinISRUntilCaughtUpToOffsetWithinCurrentLeaderEpoch"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
        broker.produce("t", b"x")
        for _ in range(12):
            end = broker.replica().log_end_offset
            broker.produce("t", b"x")
            broker.pass_time(LAG_MS // 4)
            broker.fetch_as(1, end)
        assert broker.proposals.made == []

    def test_one_that_is_about_to_come_in_counts_at_once(self, make: Make) -> None:
        """testIsrExpansion: until the controller has said no, it may be in the set."""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0], replicas=[0, 1])
        broker.produce("t", b"x", acks=-1)
        assert broker.replica().high_watermark == 1
        broker.fetch_as(1, 1)
        change, then = broker.proposals.take()
        assert change.in_sync_replicas == (0, 1)
        second = broker.produce("t", b"y", acks=-1)
        broker.pass_time(2 * LAG_MS)
        assert second.waits
        then(ErrorCode.ineligible_replica)
        assert not broker.leader().followers.proposed
        broker.fetch_as(1, 2)
        assert outcome(second) is ErrorCode.none
        change, then = broker.proposals.take()
        then(LeaderAndIsr(0, 0, (0, 1), 1, 1))
        assert broker.replica().in_sync_replicas == [0, 1]

    def test_it_must_have_come_to_where_the_epoch_began(self, make: Make) -> None:
        """testFollowerDoesNotJoinISRUntilCaughtUpToOffsetWithinCurrentLeaderEpoch"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
        for _ in range(3):
            broker.produce("t", b"x")
        assert broker.replica().high_watermark == 0
        broker.tell(leader=0, leader_epoch=1, in_sync=[0, 1])
        broker.fetch_as(2, 2)
        assert broker.proposals.made == []
        broker.fetch_as(2, 3)
        assert broker.proposals.take()[0].in_sync_replicas == (0, 1, 2)

    def test_a_broker_that_is_gone_does_not_come_in(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0])
        broker.live(0, 2)
        broker.fetch_as(1, 0)
        assert broker.proposals.made == []

    def test_nothing_waits_for_one_that_is_gone_before_it_came_in(self, make: Make) -> None:
        """A broker that shuts down is out of sync, fetches until it ends, and the other followers have all by then."""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
        broker.fetch_as(2, 0)
        _, then = broker.proposals.take()
        produced = broker.produce("t", b"x", acks=-1)
        broker.fetch_as(1, 1)
        then(ErrorCode.ineligible_replica)
        assert produced.waits, "it lives and has caught up"
        assert broker.update_metadata(live=[0, 1]) is ErrorCode.none
        assert outcome(produced) is ErrorCode.none

    def test_nothing_waits_for_one_that_was_about_to_come_in_and_may_not(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
        broker.fetch_as(2, 0)
        _, then = broker.proposals.take()
        produced = broker.produce("t", b"x", acks=-1)
        broker.fetch_as(1, 1)
        broker.live(0, 1)
        then(ErrorCode.ineligible_replica)
        assert outcome(produced) is ErrorCode.none

    def test_nothing_waits_for_one_that_was_not_heard_of_for_too_long(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
        broker.fetch_as(2, 0)
        _, then = broker.proposals.take()
        produced = broker.produce("t", b"x", acks=-1)
        broker.fetch_as(1, 1)
        then(ErrorCode.ineligible_replica)
        broker.pass_time(2 * LAG_MS)
        assert outcome(produced) is ErrorCode.none

    @pytest.mark.parametrize("error", [ErrorCode.invalid_update_version, ErrorCode.fenced_leader_epoch])
    def test_what_may_have_happened_counts_until_the_controller_tells(self, make: Make, error: ErrorCode) -> None:
        """testIsrNotExpandedIfUpdateFails, testRetryShrinkIsr..."""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0], replicas=[0, 1])
        broker.fetch_as(1, 0)
        _, then = broker.proposals.take()
        then(error)
        produced = broker.produce("t", b"x", acks=-1)
        broker.pass_time(2 * LAG_MS)
        assert produced.waits
        assert broker.proposals.made == []
        broker.tell(leader=0, leader_epoch=1, in_sync=[0], replicas=[0, 1])
        assert outcome(produced) is ErrorCode.none

    def test_other_errors_are_tried_again(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0], replicas=[0, 1])
        broker.fetch_as(1, 0)
        first, then = broker.proposals.take()
        then(ErrorCode.unknown_server_error)
        assert broker.proposals.take()[0] == first

    def test_answers_of_an_earlier_epoch_change_nothing(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0], replicas=[0, 1])
        broker.fetch_as(1, 0)
        _, then = broker.proposals.take()
        broker.tell(leader=0, leader_epoch=1, in_sync=[0], replicas=[0, 1], partition_epoch=9)
        then(LeaderAndIsr(0, 0, (0, 1), 1, 8))
        assert (broker.replica().in_sync_replicas, broker.replica().partition_epoch) == ([0], 9)

    def test_a_busy_channel_is_as_if_nothing_had_been_asked(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0], replicas=[0, 1])
        broker.proposals.is_busy = True
        broker.fetch_as(1, 0)
        broker.proposals.is_busy = False
        broker.fetch_as(1, 0)
        assert broker.proposals.take()[0].in_sync_replicas == (0, 1)


class TestMinInSync:
    def test_too_few_in_sync(self, make: Make) -> None:
        """testAppendRecordsToLeaderWithNotEnoughReplicas; no more than there are replicas is asked."""
        broker = make(min_insync_replicas="2")
        broker.tell(leader=0, leader_epoch=0, in_sync=[0])
        assert outcome(broker.produce("t", b"x", acks=-1)) is ErrorCode.not_enough_replicas
        assert outcome(broker.produce("t", b"x", acks=1)) is ErrorCode.none
        broker.tell(leader=0, leader_epoch=1, in_sync=[0], replicas=[0])
        assert outcome(broker.produce("t", b"x", acks=-1)) is ErrorCode.none

    def test_the_high_watermark_waits_for_enough(self, make: Make) -> None:
        """testUnderMinIsr...: Kafka 3.9 does not advance it (KIP-966)."""
        broker = make(min_insync_replicas="2")
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
        produced = broker.produce("t", b"x", acks=-1)
        broker.pass_time(2 * LAG_MS)
        _, then = broker.proposals.take()
        then(LeaderAndIsr(0, 0, (0,), 1, 1))
        assert produced.waits
        assert broker.replica().high_watermark == 0
        broker.fetch_as(1, 1)
        _, then = broker.proposals.take()
        then(LeaderAndIsr(0, 0, (0, 1), 1, 2))
        assert outcome(produced) is ErrorCode.none

    def test_a_client_waits_no_longer_than_it_said(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0)
        produced = broker.produce("t", b"x", acks=-1)
        broker.pass_time(30_000)
        assert outcome(produced) is ErrorCode.request_timed_out
        broker.fetch_as(1, 1)
        broker.fetch_as(2, 1)
        assert broker.replica().high_watermark == 1


class TestEpochs:
    def test_what_was_known_of_followers_does_not_outlive_the_epoch(self, make: Make) -> None:
        """Another may have led between, and had them cut off what they had."""
        broker = make()
        broker.tell(leader=0, leader_epoch=5, in_sync=[0, 1], replicas=[0, 1])
        broker.fetch_as(1, 0)
        produced = broker.produce("t", b"x", acks=-1)
        broker.produce("t", b"y")
        broker.tell(leader=0, leader_epoch=7, in_sync=[0, 1], replicas=[0, 1])
        assert produced.waits
        broker.fetch_as(1, 1, epoch=7)
        assert outcome(produced) is ErrorCode.none
        assert broker.replica().high_watermark == 1

    def test_followers_of_other_epochs_and_strangers_are_refused(self, make: Make) -> None:
        """testMakeLeaderDoesNotUpdateEpochCacheForOldFormats, testFetchFromUnrecognizedFollower"""
        broker = make()
        broker.tell(leader=0, leader_epoch=3, in_sync=[0, 1], replicas=[0, 1])
        assert broker.fetch_as(1, 0, epoch=2).error_code is ErrorCode.fenced_leader_epoch
        assert broker.fetch_as(1, 0, epoch=4).error_code is ErrorCode.unknown_leader_epoch
        assert broker.fetch_as(2, 0, epoch=3).error_code is ErrorCode.unknown_leader_epoch
        assert broker.fetch_as(2, 0).error_code is ErrorCode.not_leader_or_follower
        assert broker.fetch_as(1, 5, epoch=3).error_code is ErrorCode.offset_out_of_range
        assert broker.leader().followers.get(1).log_end_offset == -1  # type: ignore[union-attr]

    def test_a_follower_whose_log_went_another_way_hears_where(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=1)
        broker.produce("t", b"x")
        broker.tell(leader=0, leader_epoch=4)
        broker.produce("t", b"y")
        answer = broker.fetch_as(1, 3, epoch=4, last_epoch=2)
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 1)
        assert answer.records == b""
        assert broker.leader().followers.get(1).log_end_offset == -1  # type: ignore[union-attr]

    def test_who_waits_for_a_leader_hears_when_it_leads_no_longer(self, make: Make) -> None:
        """testDelayedProduce..., ReplicaManagerTest.testBecomeFollowerWhenLeaderIsUnchangedButMissedLeaderUpdate"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0)
        produced = broker.produce("t", b"x", acks=-1)
        follower = broker.fetch_as(1, 1, wait_ms=500)
        consumer = broker.fetch("t", 0, max_wait=500, version=10)
        broker.tell(leader=1, leader_epoch=1)
        broker.scheduler.run()
        assert outcome(produced) is ErrorCode.not_leader_or_follower
        for fetch in (follower, consumer):
            assert fetch.answer.responses[0].partitions[0].error_code is ErrorCode.not_leader_or_follower
        assert outcome(broker.produce("t", b"x")) is ErrorCode.not_leader_or_follower

    def test_a_new_leader_knows_not_yet_how_far_consumers_could_read(self, make: Make) -> None:
        """testLatestOffsetIncludesEpoch..., testDeferredOffsets: KIP-207"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
        broker.produce("t", b"x")
        broker.tell(leader=0, leader_epoch=1, in_sync=[0, 1], replicas=[0, 1])

        def latest(version: int) -> Any:
            wanted = {"partition_index": 0, "timestamp": -1}
            topics = [{"name": "t", "partitions": [wanted]}]
            answer = broker.ask("list_offsets", version, replica_id=-1, topics=topics)
            return answer.topics[0].partitions[0]

        assert latest(5).error_code is ErrorCode.offset_not_available
        assert latest(4).error_code is ErrorCode.leader_not_available
        broker.fetch_as(1, 1)
        assert (latest(5).error_code, latest(5).offset) == (ErrorCode.none, 1)


def test_a_log_that_must_be_flushed_counts_as_far_as_it_is(make: Make) -> None:
    broker = make()
    broker.configs["t"] = {"flush.messages": "1"}
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
    of_leader, of_all = broker.produce("t", b"x", acks=1), broker.produce("t", b"y", acks=-1)
    broker.fetch_as(1, 2)
    assert of_leader.waits
    assert of_all.waits
    broker.flush()
    assert (outcome(of_leader), outcome(of_all)) == (ErrorCode.none, ErrorCode.none)
    assert broker.replica().high_watermark == 2


def test_deleted_records_are_gone_from_all_replicas_that_live(make: Make) -> None:
    broker = make()
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
    broker.produce("t", b"x")
    broker.produce("t", b"y")
    broker.fetch_as(1, 2)
    broker.live(0, 1)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]
    asked = broker.ask("delete_records", 2, topics=topics, timeout=1000)
    assert asked.waits
    broker.fetch_as(1, 2, log_start=1)
    deleted = asked.answer.topics[0].partitions[0]
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.none, 1)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}]
    asked = broker.ask("delete_records", 2, topics=topics, timeout=1000)
    broker.pass_time(1000)
    assert asked.answer.topics[0].partitions[0].error_code is ErrorCode.request_timed_out


def test_a_consumer_is_sent_to_the_replica_in_its_rack(make: Make) -> None:
    """testReadFromRackAwareReplica..., KIP-392"""
    broker = make(replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector", broker_rack="a")
    broker.live(0, 1, 2, racks={0: "a", 1: "b", 2: "c"})
    broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1])
    broker.produce("t", b"x")
    broker.fetch_as(1, 1)

    def fetch(rack: str) -> Any:
        return broker.fetch("t", 0, rack_id=rack).responses[0].partitions[0]

    assert (fetch("b").preferred_read_replica, fetch("b").records) == (1, b"")
    for rack in ("a", "c", ""):
        assert fetch(rack).preferred_read_replica == -1
        assert len(fetch(rack).records) > 0
