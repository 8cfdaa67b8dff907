"""Since when last stable offsets stand still: what goes on, what begins anew, and what is forgotten."""

from __future__ import annotations

from highwater.monitor.undecided import UndecidedPartitions
from tests.monitor.clusters import partition, topic


def test_a_partition_stands_still_until_its_last_stable_offset_moves() -> None:
    made = UndecidedPartitions()

    def tick(at_ms: int, stable: int | None, end: int | None = 10, topic_id: str = "a") -> list[tuple[str, int]]:
        one = partition("t", end=end, stable=stable) if stable is not None else partition("t", end=None)
        made.add({"t": topic("t", one, topic_id=topic_id)}, at_ms)
        return made.standing_since(at_ms - 20, 5)

    assert tick(0, 4) == []
    assert tick(10, 4, end=12) == []
    assert tick(20, None) == [("t", 0)]  # its leader did not answer
    assert tick(30, 4) == [("t", 0)]
    assert tick(40, 5) == []
    assert tick(60, 5) == [("t", 0)]
    assert tick(70, 5, topic_id="b") == []  # another topic
    assert tick(100, 10) == []
    assert made.by_partition == {}
    made.add({}, 110)
    assert made.standing_since(200, 5) == []


def test_those_that_stand_longest_come_first() -> None:
    made = UndecidedPartitions()
    for at_ms in range(4):
        parts = [partition("t", number, end=9, stable=min(at_ms, number)) for number in range(4)]
        made.add({"t": topic("t", *parts)}, at_ms)
    assert made.standing_since(9, 2) == [("t", 0), ("t", 1)]
    assert made.standing_since(1, 9) == [("t", 0), ("t", 1)]
