"""What the controller has a broker do with its replicas, and what becomes of them over a restart.

The cases that are named after Apache Kafka's are of ReplicaManagerTest.scala and KafkaApisTest.scala.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker import slices
from highwater.kafka.records.batch import CorruptBatch
from tests.broker.handlers.harness import Pending
from tests.broker.log.building import read_all
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.replica.replicating import BROKER_EPOCH, TOPIC_ID, ReplicaHarness, error_of, led_batch

Make = Callable[..., ReplicaHarness]
OTHER_ID = UUID(int=99)
NOW_MS = 1_700_000_000_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ReplicaHarness] = []

    def make(*others: str, **properties: str) -> ReplicaHarness:
        made.append(ReplicaHarness(tmp_path / "log", [tmp_path / other for other in others], **properties))
        return made[-1]

    yield make
    for harness in made:
        harness.close(clean=False)


class TestLeaderAndIsr:
    def test_a_replica_is_made_led_followed_and_led_again(self, make: Make) -> None:
        broker = make()
        assert broker.tell(leader=0, leader_epoch=0, is_new=True) is ErrorCode.none
        assert broker.replica().is_leader
        assert broker.roles == [("t", 0, 0)]
        assert broker.tell(leader=2, leader_epoch=1) is ErrorCode.none
        assert broker.following.leaders == {("t", 0): 2}
        assert broker.tell(leader=1, leader_epoch=2) is ErrorCode.none
        assert broker.following.leaders == {("t", 0): 1}
        assert broker.tell(leader=0, leader_epoch=3) is ErrorCode.none
        assert broker.following.leaders == {}
        assert broker.roles == [("t", 0, 0), ("t", 0, None), ("t", 0, None), ("t", 0, 3)]
        assert (broker.replica().leader_epoch, broker.replica().partition_epoch) == (3, 3)

    def test_nobody_is_followed_while_there_is_no_leader(self, make: Make) -> None:
        broker = make()
        assert broker.tell(leader=-1, leader_epoch=1) is ErrorCode.none
        assert broker.following.leaders == {}
        assert not broker.replica().is_leader

    @pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
    def test_every_version_is_understood(self, make: Make, version: int) -> None:
        broker = make()
        fields = {
            "controller_id": 2,
            "controller_epoch": 1,
            "broker_epoch": BROKER_EPOCH,
            "live_leaders": [],
            **({"type": 0} if version >= 5 else {}),
        }
        state = {
            "partition_index": 0,
            "controller_epoch": 1,
            "leader": 0,
            "leader_epoch": 0,
            "isr": [0],
            "partition_epoch": 0,
            "replicas": [0],
            "is_new": True,
            **({"adding_replicas": [], "removing_replicas": []} if version >= 3 else {}),
            **({"leader_recovery_state": 0} if version >= 6 else {}),
        }
        ids = {"topic_id": OTHER_ID} if version >= 5 else {}
        topics = [{"topic_name": "t", **ids, "partition_states": [state]}]
        assert error_of(broker.ask("leader_and_isr", version, topic_states=topics, **fields)) is ErrorCode.none
        assert broker.replica().is_leader

    def test_old_epochs_change_nothing(self, make: Make) -> None:
        """testLeaderAndIsrRequestWithStaleControllerEpoch..., testShouldRejectStaleBrokerEpoch..."""
        broker = make()
        broker.tell(leader=0, leader_epoch=5, controller_epoch=3)
        for leader_epoch in (4, 5):
            told = broker.tell(leader=1, leader_epoch=leader_epoch, controller_epoch=3)
            assert told is ErrorCode.stale_controller_epoch
        assert broker.tell(leader=1, leader_epoch=6, controller_epoch=2) is ErrorCode.stale_controller_epoch
        stale = broker.tell(leader=1, leader_epoch=6, controller_epoch=3, broker_epoch=BROKER_EPOCH - 1)
        assert stale is ErrorCode.stale_broker_epoch
        assert broker.replica().is_leader
        assert broker.replica().leader_epoch == 5

    def test_another_topic_of_the_same_name(self, make: Make) -> None:
        """testInconsistentIdReturnsError"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0)
        told = broker.tell(leader=0, leader_epoch=1, topic_id=OTHER_ID)
        assert told is ErrorCode.inconsistent_topic_id

    def test_a_partition_that_is_not_to_be_here(self, make: Make) -> None:
        broker = make()
        assert broker.tell(leader=1, leader_epoch=0, replicas=[1, 2]) is ErrorCode.unknown_topic_or_partition
        assert broker.node.partitions.find("t", 0) is None

    def test_settings_of_new_topics_are_asked_for_first_and_orders_stay_in_order(self, make: Make) -> None:
        broker = make()
        broker.configs["t"] = {"min.insync.replicas": "2", "segment.bytes": "12345"}
        broker.waiting_reads = []
        first = broker.tell(leader=0, leader_epoch=0)
        second = broker.tell(leader=1, leader_epoch=1)
        assert isinstance(first, Pending)
        assert isinstance(second, Pending)
        assert broker.node.partitions.topic("t") is None
        (answer,) = broker.waiting_reads
        answer()
        broker.waiting_reads[1]() if len(broker.waiting_reads) > 1 else None
        assert error_of(first.answer) is ErrorCode.none
        assert error_of(second.answer) is ErrorCode.none
        assert [epoch for _, _, epoch in broker.roles] == [0, None]
        assert broker.replica().log.config.segment_bytes == 12345
        assert broker.replica().min_in_sync_replicas == 2

    def test_an_order_that_fails_holds_up_none_after_it(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = make()
        with monkeypatch.context() as patched:
            patched.setattr(broker.following, "add", Mock(side_effect=RuntimeError("a fault of ours")))
            with pytest.raises(RuntimeError):
                broker.tell(leader=1, leader_epoch=0)
        assert broker.tell(leader=0, leader_epoch=1) is ErrorCode.none
        assert broker.replica().is_leader

    def test_what_is_elsewhere_and_what_is_nowhere(self, make: Make) -> None:
        broker = make()
        assert broker.refusal("t", 0) is ErrorCode.unknown_topic_or_partition
        assert broker.refusal(OTHER_ID, 0) is ErrorCode.unknown_topic_id
        broker.tell(leader=1, leader_epoch=0)
        assert broker.refusal("t", 0) is ErrorCode.not_leader_or_follower
        assert broker.produce("t", b"x").error_code is ErrorCode.not_leader_or_follower
        assert broker.fetch("t", 0, version=10).responses[0].partitions[0].error_code is (
            ErrorCode.not_leader_or_follower
        )


class TestStopReplica:
    def test_it_stops_following_or_goes(self, make: Make) -> None:
        """testStopReplicaWithExistingPartitionAndNewerLeaderEpoch, ...AndDeleteFlag"""
        broker = make()
        broker.tell(leader=1, leader_epoch=3)
        assert broker.stop_replica(2, deletes=False) is ErrorCode.fenced_leader_epoch
        assert broker.following.leaders == {("t", 0): 1}
        assert broker.stop_replica(3, deletes=False) is ErrorCode.none
        assert broker.following.leaders == {}
        assert broker.replica().log_end_offset == 0
        assert broker.stop_replica(4, deletes=True) is ErrorCode.none
        assert broker.node.partitions.topic("t") is None
        assert list(broker.log_directories.keys()) == []
        assert broker.roles[-1] == ("t", 0, None)

    @pytest.mark.parametrize("epoch", [-1, -2])
    def test_a_deletion_goes_for_every_epoch(self, make: Make, epoch: int) -> None:
        """testStopReplicaWithExistingPartitionAndLeaderEpochSentinel / EpochDuringDelete"""
        broker = make()
        broker.tell(leader=0, leader_epoch=3)
        produced = broker.produce("t", b"x", acks=-1)
        assert broker.stop_replica(epoch, deletes=True) is ErrorCode.none
        answer = produced.answer.responses[0].partition_responses[0]
        assert answer.error_code is ErrorCode.not_leader_or_follower

    def test_what_was_not_taken_up_yet_goes_too(self, make: Make) -> None:
        """testStopReplicaWithInexistentPartition...: a deletion that came while the broker was down"""
        broker = make()
        broker.tell(leader=0, leader_epoch=0)
        broker.close()
        broker = make()
        assert broker.node.partitions.find("t", 0) is None
        assert broker.stop_replica(5, deletes=True) is ErrorCode.none
        assert list(broker.log_directories.keys()) == []

    def test_a_controller_of_the_past(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, controller_epoch=4)
        assert broker.stop_replica(0, deletes=True, controller_epoch=3) is ErrorCode.stale_controller_epoch
        assert broker.replica().is_leader


class TestFollowing:
    def test_what_the_leader_sends_is_kept_as_it_is(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=4)
        replica = broker.replica()
        replica.append_as_follower(led_batch(0, 3, b"a", b"b") + led_batch(2, 4, b"c"), 1, 0, NOW_MS)
        assert read_all(replica.log) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert (replica.high_watermark, replica.latest_epoch) == (1, 4)
        replica.append_as_follower(b"", 9, 1, NOW_MS)
        assert (replica.high_watermark, replica.log_start_offset) == (3, 1)
        replica.append_as_follower(b"", 2, 0, NOW_MS)
        assert (replica.high_watermark, replica.log_start_offset) == (3, 1)
        with pytest.raises(CorruptBatch):
            replica.append_as_follower(led_batch(1, 4, b"again"), 3, 1, NOW_MS)

    def test_a_consumer_may_read_below_the_high_watermark_that_is_known(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=4)
        waiting = broker.fetch("t", 0, version=11, max_wait=500)
        broker.replica().append_as_follower(led_batch(0, 4, b"a") + led_batch(1, 4, b"b"), 1, 0, NOW_MS)
        broker.scheduler.run()
        told = waiting.answer.responses[0].partitions[0]
        assert (told.error_code, told.high_watermark) == (ErrorCode.none, 1)
        assert bytes(told.records) == led_batch(0, 4, b"a")

    def test_what_the_leader_does_not_have_is_cut_off(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=4)
        replica = broker.replica()
        replica.append_as_follower(b"".join(led_batch(at, 4, b"%d" % at) for at in range(5)), 2, 0, NOW_MS)
        replica.truncate_to(3)
        assert (replica.log_end_offset, replica.high_watermark) == (3, 2)
        replica.truncate_to(1)
        assert (replica.log_end_offset, replica.high_watermark) == (1, 1)
        replica.truncate_fully(7)
        assert (replica.log_start_offset, replica.log_end_offset, replica.high_watermark) == (7, 7, 7)

    def test_a_new_leader_goes_on_from_the_high_watermark_it_knew(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=0)
        replica = broker.replica()
        replica.append_as_follower(b"".join(led_batch(at, 0, b"%d" % at) for at in range(5)), 2, 0, NOW_MS)
        broker.tell(leader=0, leader_epoch=1, in_sync=[0, 2])
        assert replica.high_watermark == 2
        broker.fetch_as(2, 4, epoch=1)
        assert replica.high_watermark == 4

    def test_a_log_that_must_be_flushed_is_fetched_on_for_when_it_is(self, make: Make) -> None:
        broker = make()
        broker.configs["t"] = {"flush.messages": "1"}
        broker.tell(leader=1, leader_epoch=0)
        replica = broker.replica()
        kept: list[str] = []
        assert replica.call_when_flushed(lambda: kept.append("never"))
        replica.append_as_follower(led_batch(0, 0, b"a"), 0, 0, NOW_MS)
        assert not replica.call_when_flushed(lambda: kept.append("flushed"))
        broker.flush()
        assert kept == ["flushed"]
        assert replica.call_when_flushed(lambda: None)


class TestRestart:
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_a_replica_begins_with_the_high_watermark_of_the_checkpoint(self, make: Make, is_clean: bool) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=0)
        broker.replica().append_as_follower(led_batch(0, 0, b"a", b"b", b"c"), 2, 0, NOW_MS)
        broker.log_directory.checkpoint(broker.node.partitions.high_watermarks())
        broker.log_directories.close(clean=is_clean, high_watermarks=broker.node.partitions.high_watermarks())
        broker = make()
        # A checkpoint before the controller was heard forgets nothing.
        broker.log_directory.checkpoint(broker.node.partitions.high_watermarks())
        broker.tell(leader=1, leader_epoch=1)
        assert (broker.replica().high_watermark, broker.replica().log_end_offset) == (2, 3)

    def test_a_leader_alone_in_sync_needs_nobody(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=0)
        broker.replica().append_as_follower(led_batch(0, 0, b"a"), 0, 0, NOW_MS)
        broker.tell(leader=0, leader_epoch=1, in_sync=[0])
        assert broker.replica().high_watermark == 1


class TestFailedDirectory:
    def test_its_partitions_are_offline_and_nobody_is_followed_for_them(self, make: Make) -> None:
        """testPartitionMarkedOfflineIfLogCantBeCreated, testFetcherAreNotRestartedForOfflinePartition"""
        broker = make("other")
        broker.tell(leader=1, leader_epoch=0)
        broker.tell(leader=1, leader_epoch=0, partition=1)
        first = broker.log_directories.of(broker.replica().log)
        assert first is not broker.log_directories.of(broker.replica(index=1).log)
        broker.roles.clear()
        assert broker.node.partitions.fail_directory(first) == 1
        assert broker.following.leaders == {("t", 1): 1}
        assert broker.roles == [("t", 0, None)]
        assert broker.tell(leader=0, leader_epoch=1) is ErrorCode.kafka_storage_error
        assert broker.stop_replica(1, deletes=True) is ErrorCode.kafka_storage_error
        assert broker.tell(leader=0, leader_epoch=1, partition=1) is ErrorCode.none
        # One that is not new may have its log in the directory that failed.
        assert broker.tell(leader=0, leader_epoch=1, partition=2) is ErrorCode.kafka_storage_error

    def test_no_empty_log_takes_the_place_of_one_in_a_directory_that_lacks_since_the_start(self, make: Make) -> None:
        broker = make()
        broker.tell(leader=1, leader_epoch=0)
        broker.log_directories.lacking.append(Path("/lost"))
        assert broker.tell(leader=0, leader_epoch=1) is ErrorCode.none
        assert broker.tell(leader=0, leader_epoch=1, partition=1) is ErrorCode.kafka_storage_error
        partitions = broker.node.partitions
        assert partitions.move_log(broker.replica(), "/lost") is ErrorCode.kafka_storage_error
        assert partitions.move_log(broker.replica(), "/nowhere") is ErrorCode.log_dir_not_found
        assert broker.tell(leader=0, leader_epoch=1, partition=3, is_new=True) is ErrorCode.none

    def test_a_cut_that_fails_takes_the_directory_along(self) -> None:
        files = SimulatedFiles()
        broker = ReplicaHarness(Path("/log"), [], files)
        broker.tell(leader=1, leader_epoch=0)
        broker.replica().append_as_follower(b"".join(led_batch(at, 0, b"x") for at in range(5)), 0, 0, NOW_MS)
        files.fail_at[files.changes_made] = 5
        with pytest.raises(OSError, match="injected"):
            broker.replica().truncate_to(2)
        assert broker.replica().has_failed
        assert broker.following.leaders == {}


class TestInSlices:
    """Orders for many partitions, with the loop in between."""

    PARTITIONS = 13

    @pytest.fixture(autouse=True)
    def one_step_in_a_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(slices, "SLICE_NS", 0)

    def tell_all(self, broker: ReplicaHarness, leader: int, leader_epoch: int) -> Any:
        states = [
            {
                "partition_index": index,
                "controller_epoch": 1,
                "leader": leader,
                "leader_epoch": leader_epoch,
                "isr": [0, 1, 2],
                "partition_epoch": leader_epoch,
                "replicas": [0, 1, 2],
                "adding_replicas": [],
                "removing_replicas": [],
                "is_new": leader_epoch == 0,
                "leader_recovery_state": 0,
            }
            for index in range(self.PARTITIONS)
        ]
        return broker.ask(
            "leader_and_isr",
            7,
            controller_id=2,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            type=0,
            live_leaders=[],
            topic_states=[{"topic_name": "t", "topic_id": TOPIC_ID, "partition_states": states}],
        )

    def delete_all(self, broker: ReplicaHarness) -> Any:
        states = [
            {"partition_index": index, "leader_epoch": 9, "delete_partition": True} for index in range(self.PARTITIONS)
        ]
        return broker.ask(
            "stop_replica",
            4,
            controller_id=2,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            topic_states=[{"topic_name": "t", "partition_states": states}],
        )

    def led(self, broker: ReplicaHarness) -> list[int]:
        topic = broker.node.partitions.topic("t")
        return [] if topic is None else [index for index, found in topic.partitions.items() if found.is_leader]

    def test_orders_are_carried_out_one_after_another(self, make: Make) -> None:
        broker = make()
        led, followed, stopped = self.tell_all(broker, 0, 0), self.tell_all(broker, 1, 1), self.delete_all(broker)
        assert self.led(broker) == [0, 1, 2, 3]
        assert broker.roles == [("t", index, 0) for index in range(4)], "coordinators hear of each slice"
        broker.scheduler.run()
        errors = [each.error_code for each in led.answer.topics[0].partition_errors]
        assert errors == [ErrorCode.none] * self.PARTITIONS
        errors = [each.error_code for each in followed.answer.topics[0].partition_errors]
        assert errors == [ErrorCode.none] * self.PARTITIONS
        assert [each.error_code for each in stopped.answer.partition_errors] == [ErrorCode.none] * self.PARTITIONS
        assert broker.following.leaders == {}
        assert broker.log_directory.logs == {}
        leaders = [("t", index, 0) for index in range(self.PARTITIONS)]
        followers = [("t", index, None) for index in range(self.PARTITIONS)]
        assert broker.roles == leaders + followers + followers

    def test_a_controller_that_is_deposed_meanwhile_is_obeyed_no_further(self, make: Make) -> None:
        broker = make()
        pending = self.tell_all(broker, 0, 0)
        assert broker.member.epochs.obey(2, BROKER_EPOCH) is ErrorCode.none
        broker.scheduler.run()
        errors = [each.error_code for each in pending.answer.topics[0].partition_errors]
        assert errors == [ErrorCode.none] * 4 + [ErrorCode.stale_controller_epoch] * (self.PARTITIONS - 4)
        assert pending.answer.error_code is ErrorCode.stale_controller_epoch
        assert self.led(broker) == [0, 1, 2, 3]

    def test_a_bug_in_one_order_does_not_stop_those_after_it(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = make()
        pending = self.tell_all(broker, 0, 0)
        stopped = self.delete_all(broker)
        monkeypatch.setattr(broker.node.partitions, "open_replica", Mock(side_effect=KeyError("a bug")))
        with pytest.raises(KeyError, match="a bug"):
            broker.scheduler.run()
        broker.scheduler.run()
        assert pending.waits
        assert [each.error_code for each in stopped.answer.partition_errors] == [ErrorCode.none] * self.PARTITIONS

    def test_an_end_in_between_leaves_the_rest_to_the_next_start(self, make: Make) -> None:
        broker = make()
        pending = self.tell_all(broker, 0, 0)
        broker.close()
        broker.scheduler.run()
        assert pending.waits
        assert len(broker.log_directory.logs) == 4


class TestSegmentsThatAreGone:
    """A follower fetches the records again. With an empty log a leader would have the other replicas delete theirs."""

    def restarted_without_segments(self, make: Make) -> ReplicaHarness:
        broker = make()
        broker.tell(leader=0, leader_epoch=0, replicas=[0, 1], is_new=True)
        assert broker.produce("t", b"x", b"y").error_code == 0
        folder = broker.replica().log.directory
        broker.close()
        shutil.rmtree(folder)
        return make()

    def test_a_leader_is_offline_at_every_start_until_they_are_back(
        self, make: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker = self.restarted_without_segments(make)
        for _ in range(2):
            assert broker.tell(leader=0, leader_epoch=1, replicas=[0, 1]) is ErrorCode.kafka_storage_error
            assert broker.node.partitions.find("t", 0) is None
            assert "this broker cannot lead t-0: the segments of" in caplog.text
            caplog.clear()
            broker.log_directory.checkpoint()
            broker.close()
            broker = make()
        (broker.log_directory.path / "t-0").mkdir()
        broker.close()
        broker = make()
        assert broker.tell(leader=0, leader_epoch=1, replicas=[0, 1]) is ErrorCode.none
        assert (broker.replica().log.log_start_offset, broker.replica().log.log_end_offset) == (2, 2)

    def test_a_follower_begins_anew(self, make: Make, caplog: pytest.LogCaptureFixture) -> None:
        broker = self.restarted_without_segments(make)
        assert broker.tell(leader=1, leader_epoch=1, replicas=[0, 1]) is ErrorCode.none
        assert broker.replica().log.log_end_offset == 0
        assert "t-0 is fetched from its leader again: the segments of" in caplog.text
        assert broker.tell(leader=0, leader_epoch=2, replicas=[0, 1]) is ErrorCode.none

    def test_a_new_topic_of_the_name_has_nothing_to_do_with_it(self, make: Make) -> None:
        broker = self.restarted_without_segments(make)
        told = broker.tell(leader=0, leader_epoch=0, replicas=[0, 1], topic_id=OTHER_ID, is_new=True)
        assert told is ErrorCode.none
        assert broker.replica().log.log_end_offset == 0
