"""What a member of a group hands out when its partitions go to another one meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater.pipeline.messaging import exchange
from highwater.pipeline.messaging.errors import NotCommittedError
from highwater.pipeline.messaging.exchange import Exchange


class FakeMessage:
    def __init__(self, offset: int) -> None:
        self._offset = offset

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> None:
        return None

    value = headers = key


class FakeClient:
    """A queue of messages, and of rebalances in between, as librdkafka's."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.queue: list[FakeMessage | str] = []

    def memberid(self) -> None:
        """It has left the group."""

    def init_transactions(self, _: float) -> None:
        """Nothing was left open."""

    def subscribe(self, _: list[str], **callbacks: Callable[[FakeClient, list[Any]], None]) -> None:
        self._callbacks = callbacks

    def poll(self, _: float) -> FakeMessage | None:
        while self.queue:
            head = self.queue.pop(0)
            if isinstance(head, FakeMessage):
                return head
            self._callbacks[head](self, [])
        return None

    def consume(self, _: int, timeout_s: float) -> list[FakeMessage]:
        return list(iter(lambda: self.poll(timeout_s), None))


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ([5, 6, 7], [5, 6, 7]),
        ([5, 6, "on_revoke"], []),
        ([5, "on_revoke", "on_assign", 5, 6], [5, 6]),
        ([5, "on_lost", "on_assign", 9], [9]),
        (["on_assign", 5, 6], [5, 6]),
    ],
)
def test_nothing_is_kept_of_partitions_that_went(
    monkeypatch: pytest.MonkeyPatch, queue: list[int | str], expected: list[int]
) -> None:
    consumer = FakeClient({})
    monkeypatch.setattr(exchange, "Producer", FakeClient)
    monkeypatch.setattr(exchange, "Consumer", lambda _: consumer)
    member = Exchange({}, "billing", "one")
    member.subscribe(["orders"])
    consumer.queue = [FakeMessage(each) if isinstance(each, int) else each for each in queue]
    assert [each.offset for each in member.read(0, 100)] == expected


def test_one_who_left_the_group_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "Producer", FakeClient)
    monkeypatch.setattr(exchange, "Consumer", FakeClient)
    with pytest.raises(NotCommittedError, match=r"^billing, member one: this member was removed from the group"):
        Exchange({}, "billing", "one").commit([], {("orders", 0): 1})
