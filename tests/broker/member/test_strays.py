from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from highwater.broker.cluster.state import PartitionView, TopicView
from highwater.broker.member.strays import Strays

TOPIC_ID = UUID(int=1)


class Cluster:
    """Partitions of others' brokers, told of when the test says so."""

    def __init__(self) -> None:
        self.tell: Any = None

    def when_changed(self, tell: Any) -> Any:
        self.tell = tell
        return lambda: None

    def topic(self, name: str) -> TopicView:
        view = PartitionView(2, 0, [2, 3], [2, 3], [])
        return TopicView(name, TOPIC_ID, {0: view, 1: view})


def test_one_log_that_cannot_be_deleted_holds_up_no_other() -> None:
    tried: list[tuple[str, int]] = []

    def delete(name: str, index: int) -> None:
        tried.append((name, index))
        if index == 0:
            raise OSError(errno.ENOSPC, "no space")

    logs = {("t", index): SimpleNamespace(topic_id=TOPIC_ID) for index in (0, 1)}
    partitions: Any = SimpleNamespace(
        log_directories=logs,
        find=lambda name, index: None,
        delete_replica=delete,
        finish_deletions=lambda name: None,
    )
    cluster: Any = Cluster()
    Strays(1, partitions, cluster)
    cluster.tell()
    cluster.tell()
    assert sorted(tried) == [("t", 0), ("t", 1)]
