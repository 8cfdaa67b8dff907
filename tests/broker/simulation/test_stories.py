"""Failures that real clusters had or have, told step by step: each happens where it must, and not where it must not."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import PeerFailure
from highwater.broker.cluster.zookeeper import Delete
from highwater.broker.replica.partition import Partition
from tests.broker.log.simulated_files import Killed
from tests.broker.simulation.checker import Violation
from tests.broker.simulation.story import (
    KEY,
    Sent,
    Story,
    before_leader_epochs,
    followers_do_not_flush_first,
    leaders_shrink_by_themselves,
)

_NO_MIN = {"min.insync.replicas": "1"}
_FLUSHED = {"log.flush.interval.messages": "1"}
_UNCLEAN = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


def _leader_fails_twice(story: Story) -> None:
    """A follower that does not yet know that a record is committed begins to follow another leader, which fails before
    the follower has fetched anything of it (KIP-101, scenario 1)."""
    story.produce("m1", 2)
    story.let_pass(1000)
    story.produce("m2", 2)
    assert story.replica(2).high_watermark == 2
    assert story.replica(1).high_watermark == 1
    story.cut(1, 3)
    story[2].kill()
    story.wait(lambda: story.state.leader == 3)
    story.cluster.network.heal_all()
    story.wait(lambda: story.replica(1).leader_epoch == 1)
    story[3].kill()
    story.wait(lambda: story.leads(1))


def test_a_committed_record_is_not_cut_off_by_who_does_not_know_that_it_is() -> None:
    story = Story()
    _leader_fails_twice(story)
    assert story.log(1) == ["m1@0", "m2@0"]
    story.heal()


def test_before_leader_epochs_a_committed_record_was_lost() -> None:
    with before_leader_epochs():
        story = Story()
        with pytest.raises(Violation, match="it leads in epoch 2 and has nothing at offset 1"):
            _leader_fails_twice(story)


def test_what_a_leader_acknowledged_in_the_event_in_which_it_died_counts_as_committed() -> None:
    """It flushes as the last, so that its flush commits the record. It answers the producer, and dies at the next
    operation of its disk, before anybody has looked at it again."""
    story = Story(properties=_FLUSHED)
    leader = story.replica(2)
    story[2].sync_delay_ms = 300
    flushed = Partition.flushed

    def flush_and_die(partition: Partition) -> None:
        flushed(partition)
        if partition is leader:
            raise Killed

    with patch.object(Partition, "flushed", flush_and_die):
        sent = story.send("m1", 2)
        story.wait(lambda: sent.outcome is not None)
    assert sent.is_acknowledged
    assert not story[2].is_running
    story.cluster.checker.acknowledged(KEY, b"m1", 0)
    story.wait(lambda: story.leads(1) or story.leads(3))
    assert story.log(story.state.leader) == ["m1@0"]
    story.heal()


def _power_fails_everywhere(story: Story) -> None:
    """All lose power, and who comes back first has lost what the former leader has (KIP-101, scenario 2)."""
    story.produce("m1", 2, acks=1)
    story.wait(lambda: story.cluster.is_whole)
    for broker in (1, 2, 3):
        log = story.replica(broker).log
        ticket = log.begin_flush()
        assert ticket is not None
        ticket.sync()
        log.complete_flush(ticket)
    story.produce("m2", 2, acks=1)
    # So long that the high watermarks are checkpointed.
    story.let_pass(5000)
    # On the disk of 2 alone.
    for broker in (1, 3):
        story[broker].cut_power_and_lose_all()
    story[2].kill()
    story.let_pass(4000)
    story[1].start()
    story[3].start()
    story.wait(lambda: story.leads(1) or story.leads(3))
    leader = story.state.leader
    story.produce("m3", leader, acks=1)
    story[2].start()
    story.wait(lambda: len(story.state.in_sync_replicas) == 3)


def test_logs_that_went_apart_in_a_power_cut_come_together() -> None:
    story = Story(may_lose=True, properties=_NO_MIN)
    _power_fails_everywhere(story)
    story.heal()
    assert story.log(1) == story.log(2) == story.log(3) == ["m1@0", f"m3@{story.state.leader_epoch}"]


def test_before_leader_epochs_logs_stayed_apart() -> None:
    with before_leader_epochs():
        story = Story(may_lose=True, properties=_NO_MIN)
        _power_fails_everywhere(story)
        with pytest.raises(Violation, match="are not the same"):
            story.heal()


def test_a_fast_change_of_leaders_leaves_no_divergence() -> None:
    """A leader is asked of an epoch that it never heard of (KIP-279)."""
    story = Story(properties=_NO_MIN)
    story.produce("m0", 2)
    story.wait(lambda: story.cluster.is_whole)
    # 2 is alone with its record, and so is 3, the next leader, with its own.
    story[2].cut_from_zookeeper()
    story.cut(2, 1)
    story.cut(2, 3)
    story.send("x1", 2, acks=1)
    story.wait(lambda: story.leads(3))
    story.cut(1, 3)
    story.send("y1", 3, acks=1)
    story.wait(lambda: story.replica(3).log.log_end_offset == 2)
    story[3].kill()
    story.cluster.network.heal_all()
    story.wait(lambda: story.leads(1))
    assert story.state.leader_epoch == 2
    story.produce("z1", 1, acks=1)
    story.heal()
    assert story.log(1) == story.log(2) == story.log(3) == ["m0@0", "z1@2"]


def test_a_stale_leader_acknowledges_nothing_and_nothing_of_it_stays() -> None:
    """A leader that was paused, and superseded meanwhile, takes records that are sent again to its successor."""
    story = Story()
    story.produce("m1", 2)
    story[2].pause()
    late = story.send("m2", 2)
    story.wait(lambda: story.leads(3))
    story.produce("m2", 3)
    story.produce("m3", 3)
    story[2].resume()
    # It has the record in its socket, and does not know yet that it leads no more.
    later = story.send("m4", 2)
    story.wait(lambda: late.outcome is not None and later.outcome is not None)
    assert not late.is_acknowledged
    assert not later.is_acknowledged
    story.heal()
    assert story.log(2) == ["m1@0", "m2@1", "m3@1"]


def test_a_leader_that_is_alone_acknowledges_nothing() -> None:
    """Cut off from everybody but its clients, it cannot know that another leads."""
    story = Story()
    story.produce("m1", 2)
    story.cut(2, 1)
    story.cut(2, 3)
    story[2].cut_from_zookeeper()
    unheard = story.send("m2", 2)
    story.wait(lambda: story.leads(3))
    assert story.leads(2)
    story.produce("m3", 3)
    story.wait(lambda: unheard.outcome is not None)
    assert unheard.outcome in (ErrorCode.request_timed_out, PeerFailure.TIMED_OUT)
    story.heal()
    assert story.log(1) == ["m1@0", "m3@1"]


def _leader_is_alone(story: Story) -> Sent:
    """Nobody but its clients reaches the only leader, and it is enough to be in sync alone."""
    story.produce("m1", 2)
    story.cut(2, 1)
    story.cut(2, 3)
    story[2].cut_from_zookeeper()
    sent = story.send("m2", 2, timeout_ms=3900)
    story.let_pass(3300)
    story.send("m3", 2)
    story.wait(lambda: sent.outcome is not None)
    story.wait(lambda: story.leads(3))
    story.produce("m4", 3)
    return sent


def test_a_leader_goes_on_alone_only_by_leave_of_the_controller() -> None:
    story = Story(properties=_NO_MIN)
    assert not _leader_is_alone(story).is_acknowledged
    story.heal()


def test_a_leader_that_took_leave_itself_would_lose_what_it_acknowledged() -> None:
    with leaders_shrink_by_themselves():
        story = Story(properties=_NO_MIN)
        with pytest.raises(Violation, match="two batches were committed at offset 1"):
            _leader_is_alone(story)


def _power_fails_before_the_flush(story: Story) -> Sent:
    """The leader has flushed a record, the followers have it in memory, and all lose power."""
    story.produce("m1", 2)
    story.let_pass(1000)
    for broker in (1, 3):
        story[broker].sync_delay_ms = 10_000
    sent = story.send("m2", 2)
    story.let_pass(1000)
    for broker in (1, 2, 3):
        story[broker].cut_power_and_lose_all()
    story.let_pass(4000)
    for broker in (1, 3):
        story[broker].start()
    story.wait(lambda: story.leads(1) or story.leads(3))
    return sent


def test_what_is_acknowledged_is_flushed_on_all_in_sync() -> None:
    story = Story(properties=_FLUSHED)
    assert not _power_fails_before_the_flush(story).is_acknowledged
    story.heal()


def test_followers_that_did_not_flush_first_would_lose_what_was_acknowledged() -> None:
    with followers_do_not_flush_first():
        story = Story(properties=_FLUSHED)
        with pytest.raises(Violation, match="and has nothing at offset 1"):
            _power_fails_before_the_flush(story)


def test_a_paused_controller_does_no_harm_when_it_wakes() -> None:
    """It takes itself for the controller still, and acts on what it saw before the pause."""
    story = Story()
    story.produce("m1", 2)
    # What it would do about that, it learns when it wakes.
    story[2].kill()
    story[1].pause()
    story.wait(lambda: story.controller == 3)
    story[2].start()
    story.wait(lambda: story[2].is_registered and story.leads(3))
    state = story.state
    story[1].resume()
    story.let_pass(200)
    assert story.controller == 3
    assert story.state.controller_epoch >= state.controller_epoch
    story.produce("m2", story.state.leader)
    story.heal()
    assert story.log(1) == ["m1@0", f"m2@{story.state.leader_epoch}"]


def _writes_late(story: Story) -> None:
    """A controller's writes are held up on their way to ZooKeeper, and arrive when another is the controller."""
    story.produce("m1", 2)
    zookeeper, session = story[1].zookeeper, story[2].zookeeper
    assert zookeeper is not None
    assert session is not None
    session_id = session.session_id
    zookeeper.cut()
    # It elects 3, and the write of that is under way.
    story[2].kill()
    story.let_pass(500)
    assert story.state.leader == 2
    story.cluster.ensemble.expire(session_id)
    story.cluster.ensemble.do(Delete(znodes.CONTROLLER))
    story.wait(lambda: story.state.leader == 3, at_most_ms=1000)
    zookeeper.heal()
    story.let_pass(2000)


def test_a_superseded_controller_writes_nothing() -> None:
    story = Story()
    _writes_late(story)
    assert story.controller != 1
    story.heal()


def test_an_unclean_election_loses_what_only_the_old_leader_had() -> None:
    story = Story((2, 3, 4), may_lose=True, properties=_UNCLEAN)
    story.produce("m1", 2)
    story.wait(lambda: story.cluster.is_whole)
    for broker in (3, 4):
        story.cut(2, broker)
    alone = story.send("m2", 2, timeout_ms=3900)
    story.wait(lambda: alone.outcome is not None)
    assert alone.is_acknowledged
    assert story.state.in_sync_replicas == (2,)
    story[2].kill()
    story.cluster.network.heal_all()
    story.wait(lambda: story.leads(3))
    story.heal()
    assert story.log(2) == ["m1@0"]
    assert story.cluster.checker.partition(KEY).lost == 1


def test_without_unclean_elections_a_partition_waits_for_who_has_all() -> None:
    story = Story((2, 3, 4), properties=_NO_MIN)
    story.produce("m1", 2)
    story.wait(lambda: story.cluster.is_whole)
    for broker in (3, 4):
        story.cut(2, broker)
    alone = story.send("m2", 2, timeout_ms=3900)
    story.wait(lambda: alone.outcome is not None)
    assert alone.is_acknowledged
    assert story.state.in_sync_replicas == (2,)
    story[2].kill()
    story.cluster.network.heal_all()
    story.let_pass(20_000)
    assert not story.leads(3)
    assert not story.leads(4)
    story.heal()
    assert story.log(3) == ["m1@0", "m2@0"]


def test_acknowledgements_wait_for_a_lagging_follower_until_it_is_out_of_sync() -> None:
    story = Story()
    story.produce("m1", 2)
    story[3].pause()
    slow = story.send("m2", 2, timeout_ms=3900)
    story.let_pass(500)
    assert slow.outcome is None
    story.wait(lambda: slow.outcome is not None)
    assert slow.is_acknowledged
    assert set(story.state.in_sync_replicas) == {1, 2}
    story.heal()


def test_too_few_in_sync_refuse_and_show_nothing() -> None:
    story = Story((2, 3, 4))
    story.produce("m1", 2)
    story.wait(lambda: story.cluster.is_whole)
    for broker in (3, 4):
        story.cut(2, broker)
    # Appended while the others counted as in sync.
    early = story.send("m2", 2, timeout_ms=3900)
    story.wait(lambda: early.outcome is not None)
    assert not early.is_acknowledged
    story.wait(lambda: story.state.in_sync_replicas == (2,))
    late = story.send("m3", 2)
    story.wait(lambda: late.outcome is not None)
    assert late.outcome is ErrorCode.not_enough_replicas
    weak = story.send("m4", 2, acks=1)
    story.wait(lambda: weak.outcome is not None)
    assert weak.is_acknowledged
    assert story.replica(2).high_watermark == 1
    story.heal()
    assert story.log(3) == ["m1@0", "m2@0", "m4@0"]
