"""Histories that run clean, seeds that once failed, and proof that the checker sees what it must."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from highwater.broker.cluster.zookeeper import Create, Request
from highwater.broker.controller import elections
from highwater.broker.handlers.produce_run import ProduceRuns
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.member.zookeeper_acls import ZooKeeperAcls
from highwater.broker.replica.follower_progress import Followers
from highwater.broker.replica.partition import Partition
from highwater.broker.security.authorizer import Authorizer, Permissions
from highwater.broker.settings import acl_tree
from highwater.kafka.acl import Permission
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.produce_run import PartitionRun, ProduceShape, RunBatch
from highwater.kafka.protocol.produce_run_reader import RunReader
from tests.broker.simulation.cluster import Cluster
from tests.broker.simulation.history import History, Verdict
from tests.broker.simulation.story import before_leader_epochs


@pytest.mark.parametrize("seed", range(5))
def test_a_history_runs_clean(seed: int) -> None:
    verdict = History(seed).run()
    assert verdict.failure is None, _told(verdict)
    assert verdict.events > 500


def test_a_seed_decides_everything() -> None:
    assert History(3).run().history == History(3).run().history


def test_fetches_wait_for_the_disk_in_a_history() -> None:
    history = History(3)
    history.run()
    assert sum(broker.cold_reads for broker in history.cluster.brokers.values()) > 0


def test_a_broker_that_was_told_to_stop_is_not_there_to_stay() -> None:
    """A history that ended while one was still stopping judged it when it was just starting again."""
    cluster = Cluster(0, brokers=3)
    cluster.start()
    assert cluster.world.run(20_000, lambda: cluster.is_complete)
    cluster.brokers[1].stop()
    assert cluster.brokers[1].is_registered
    assert not cluster.is_complete
    assert cluster.world.run(20_000, lambda: not cluster.brokers[1].is_running)
    assert not cluster.is_complete
    cluster.brokers[1].start()
    assert cluster.world.run(20_000, lambda: cluster.is_complete)


# Each of these breaks one rule that keeps records safe; histories with it must fail. The seed is of one that does now.


def _followers_keep_what_their_leader_lacks() -> AbstractContextManager[object]:
    return patch.object(Partition, "diverging_epoch", lambda self, epoch, offset: None)


def _the_high_watermark_does_not_wait_for_followers() -> AbstractContextManager[object]:
    return patch.object(Followers, "replicated_offset", lambda self, safe_end_offset, *_: safe_end_offset)


def _who_is_out_of_sync_is_elected() -> AbstractContextManager[object]:
    return patch.object(elections, "offline_leader", lambda assigned, _, live: elections.unclean_leader(assigned, live))


@contextmanager
def _what_was_sent_again_is_not_known() -> Iterator[None]:
    append = PartitionLog.append

    def append_without_sequence(self: PartitionLog, *args: Any, **options: Any) -> Any:
        return append(self, *args, **(options | {"has_sequence": False}))

    with patch.object(PartitionLog, "append", append_without_sequence):
        yield


# The same of the requests that are handled as one.


@contextmanager
def _answers_of_a_run_are_mixed_up() -> Iterator[None]:
    answers = ProduceShape.answers

    def mixed_up(self: ProduceShape, batches: list[RunBatch], parts: list[PartitionRun]) -> bytes:
        first, last = batches[0], batches[-1]
        first.base_offset, last.base_offset = last.base_offset, first.base_offset
        return answers(self, batches, parts)

    with patch.object(ProduceShape, "answers", mixed_up):
        yield


def _a_run_is_answered_before_it_is_safe() -> AbstractContextManager[object]:
    def answers(self: ProduceRuns, shape: ProduceShape, run: RunReader, *_: Any) -> list[Part]:
        return [shape.answers(run.batches, run.parts)]

    return patch.object(ProduceRuns, "_answers_when_safe", answers)


@contextmanager
def _a_run_is_answered_and_its_end_is_not_appended() -> Iterator[None]:
    append_run = PartitionLog.append_run

    def append_but_the_last(self: PartitionLog, run: PartitionRun, **options: Any) -> None:
        if len(run.batches) > 1:
            run.drop(run.batches[-1])
        append_run(self, run, **options)

    with patch.object(PartitionLog, "append_run", append_but_the_last):
        yield


class _AnyNumber(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _a_run_takes_any_sequence() -> AbstractContextManager[object]:
    return patch.object(PartitionRun, "next_sequence", _AnyNumber())


@pytest.mark.parametrize(
    ("breaking", "seed"),
    [
        (_followers_keep_what_their_leader_lacks, 3),
        (_the_high_watermark_does_not_wait_for_followers, 5),
        (_who_is_out_of_sync_is_elected, 0),
        (_what_was_sent_again_is_not_known, 0),
        (before_leader_epochs, 8),
        (_answers_of_a_run_are_mixed_up, 0),
        (_a_run_is_answered_before_it_is_safe, 0),
        (_a_run_is_answered_and_its_end_is_not_appended, 0),
        (_a_run_takes_any_sequence, 0),
    ],
)
def test_the_checker_notices(breaking: Callable[[], AbstractContextManager[object]], seed: int) -> None:
    with breaking():
        histories = (History((seed + number) % 100) for number in range(100))
        assert any(history.run().failure is not None for history in histories)


# The same for ACLs.


@pytest.mark.parametrize("seed", range(3))
def test_a_history_with_acls_runs_clean(seed: int) -> None:
    history = History(seed, has_acls=True)
    verdict = history.run()
    assert verdict.failure is None, _told(verdict)
    assert history.access is not None
    assert history.access.decisions > 20


def _changes_of_others_are_not_read() -> AbstractContextManager[object]:
    return patch.object(ZooKeeperAcls, "watch_fired", lambda self, path, event: None)


def _a_new_session_does_not_read_what_was_missed() -> AbstractContextManager[object]:
    return patch.object(ZooKeeperAcls, "session_began", lambda self, broker_epoch: None)


def _what_a_connection_was_allowed_stays_so() -> AbstractContextManager[object]:
    return patch.object(Permissions, "forget", lambda self: None)


def _brokers_start_without_acls() -> AbstractContextManager[object]:
    def nothing(_: ZooKeeperAcls) -> Generator[Sequence[Request], list[Any], None]:
        yield [Create(acl_tree.LITERAL_CHANGES)]

    return patch.object(ZooKeeperAcls, "load", nothing)


def _a_denial_does_not_go_first() -> AbstractContextManager[object]:
    """On the brokers: the checker asks an authorizer of its own, in another way."""

    def decide(self: Permissions, *asked: Any) -> bool:
        lenient = Authorizer(self._authorizer._super_users)
        for resource, entries in self._authorizer.resources.items():
            lenient.set_entries(resource, [each for each in entries if each.permission is Permission.ALLOW])
        return lenient.allows(self._principal, self._host, *asked)

    return patch.object(Permissions, "_decide", decide)


@pytest.mark.parametrize(
    ("breaking", "seed"),
    [
        (_changes_of_others_are_not_read, 0),
        (_a_new_session_does_not_read_what_was_missed, 5),
        (_what_a_connection_was_allowed_stays_so, 0),
        (_brokers_start_without_acls, 0),
        (_a_denial_does_not_go_first, 0),
    ],
)
def test_the_checker_notices_acls_that_are_not_kept(
    breaking: Callable[[], AbstractContextManager[object]], seed: int
) -> None:
    with breaking():
        histories = (History((seed + number) % 100, has_acls=True) for number in range(100))
        assert any(history.run().failure is not None for history in histories)


def _told(verdict: Verdict) -> str:
    return "\n".join(verdict.history[-60:])
