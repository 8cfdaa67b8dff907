"""Restarts of a broker on its log that do not come up the first time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.trials import lifetime
from highwater.common.errors import TrialError
from tests.broker.running import running_broker


class Node:
    """Ends at each start before the one numbered `serves_at`."""

    log_file = Path("system.log")

    def __init__(self, serves_at: int) -> None:
        self.starts = 0
        self._serves_at = serves_at

    def take_down(self, how: object) -> None:
        pass

    def reap(self) -> bool:
        return self.starts < self._serves_at

    def start_again(self) -> None:
        self.starts += 1

    def serves(self) -> bool:
        return True


def restarted(node: Node, bootstrap_servers: str, taken: list[list[int]]) -> lifetime.Restarted:
    system: Any = SimpleNamespace(nodes=[node], bootstrap_servers=bootstrap_servers, process_ids=[])
    return lifetime.restart("kill", system, ["t"], 1, lambda found: taken.append(list(found)), lambda: None)


@pytest.mark.clients
def test_a_broker_that_ends_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)
        taken: list[list[int]] = []
        found = restarted(Node(serves_at=3), broker.address, taken)
    assert (found.figures.starts, found.in_log, len(taken)) == (3, [[0]], 3)


def test_a_broker_that_never_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "_STARTS_APART_S", 0.0)
    with pytest.raises(TrialError, match=r"^the broker ended 30 times while it started \(its output: system.log\)$"):
        restarted(Node(serves_at=10**6), "127.0.0.1:1", [])
