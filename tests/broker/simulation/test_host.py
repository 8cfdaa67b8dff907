"""A broker of several processes in the simulation: clean histories, a journal that ends anywhere, another N."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from highwater.broker.cluster import znodes
from highwater.broker.server.process_home import ProcessHome
from highwater.broker.tree.serving import TreeConnection
from tests.broker.simulation.history import Verdict
from tests.broker.simulation.host import HostCluster, HostHistory

_WITHIN_MS = 60_000


@pytest.mark.parametrize("seed", range(5))
def test_a_history_runs_clean(seed: int) -> None:
    verdict = HostHistory(seed).run()
    assert verdict.failure is None, _told(verdict)
    assert verdict.events > 500


def test_a_seed_decides_everything() -> None:
    assert HostHistory(3).run().history == HostHistory(3).run().history


# Each of these breaks one promise of the parent; histories with it must fail. The seed is of one that does today.


def _what_is_not_on_the_disk_is_told() -> AbstractContextManager[object]:
    def release(self: TreeConnection) -> None:
        while self._held:
            self._write(self._held.popleft()[1])
        if self.is_closing:
            self._close()

    return patch.object(TreeConnection, "release", release)


def _replicas_are_left_behind() -> AbstractContextManager[object]:
    return patch.object(ProcessHome, "_refuse_to_leave_replicas", lambda self, tree, count: None)


@pytest.mark.parametrize(("breaking", "seed"), [(_what_is_not_on_the_disk_is_told, 55), (_replicas_are_left_behind, 0)])
def test_the_checker_notices(breaking: Callable[[], AbstractContextManager[object]], seed: int) -> None:
    with breaking():
        histories = (HostHistory((seed + number) % 100) for number in range(100))
        assert any(history.run().failure is not None for history in histories)


# Step by step


def started(processes: int) -> HostCluster:
    cluster = HostCluster(0, processes=processes)
    cluster.start()
    wait(cluster, lambda: all(broker.is_registered for broker in cluster.members))
    return cluster


def wait(cluster: HostCluster, until: Callable[[], bool]) -> None:
    assert cluster.world.run(_WITHIN_MS, until), "\n".join([*cluster.describe(), *cluster.world.history])


def test_a_topic_comes_into_being_though_the_parent_dies_at_any_operation_of_its_journal() -> None:
    for operation in range(40):
        cluster = started(2)
        files = cluster.parent.files
        files.kill_at = files.changes_made + operation
        cluster.create_topic("t", [[1], [2], [1, 2]])
        cluster.world.run(2000)
        has_died = cluster.parent.life is None
        cluster.parent.start()
        wait(cluster, lambda: len(cluster.assignments) == 3 and cluster.is_whole)  # noqa: B023 - called at once
        cluster.check_convergence()
        if not has_died:
            assert operation > 10, "that many operations there are at least"
            return
    raise AssertionError("the journal never came to rest")


def test_there_are_fewer_processes_only_when_no_replica_is_left_behind() -> None:
    cluster = started(3)
    cluster.create_topic("t", [[3], [1]])
    wait(cluster, lambda: cluster.is_whole)
    cluster.parent.kill()
    assert not any(broker.is_running for broker in cluster.brokers.values())
    cluster.parent.start(2)
    assert cluster.parent.count == 3
    wait(cluster, lambda: cluster.is_whole)
    move = znodes.encode(znodes.reassignment_value({("t", 0): [2]}))
    cluster.parent.make(znodes.REASSIGN_PARTITIONS, move)
    wait(cluster, lambda: cluster.is_whole and list(cluster.assignments["t", 0].replicas) == [2])
    cluster.stop()
    wait(cluster, lambda: cluster.parent.life is None)
    cluster.parent.start(2)
    assert cluster.parent.count == 2
    wait(cluster, lambda: cluster.is_whole)
    cluster.parent.kill()
    cluster.parent.start(4)
    wait(cluster, lambda: cluster.is_whole and all(broker.is_registered for broker in cluster.members))
    assert [broker.is_running for broker in cluster.brokers.values()] == [True] * 4


def test_a_parent_that_stood_still_ends_no_session() -> None:
    cluster = started(2)
    before = cluster.parent.children(znodes.BROKER_IDS)
    epochs = [cluster.parent.stat(znodes.broker_path(int(broker_id))) for broker_id in before]
    cluster.parent.pause()
    cluster.world.run(20_000)
    cluster.parent.resume()
    cluster.world.run(10_000)
    assert [cluster.parent.stat(znodes.broker_path(int(broker_id))) for broker_id in before] == epochs


def _told(verdict: Verdict) -> str:
    return "\n".join(verdict.history[-60:])
