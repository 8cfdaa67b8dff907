"""Times that are set, put off, brought forward and taken away, beside a dict that is searched whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from highwater.broker.group.consumer.deadlines import Deadlines

NAMES = st.sampled_from(["a", "b", "c", "d"])
TIMES = st.integers(0, 20)


@given(st.lists(st.tuples(NAMES, st.none() | TIMES)), TIMES)
def test_the_next_one_is_the_least_of_all(changes: list[tuple[str, int | None]], now_ms: int) -> None:
    deadlines = Deadlines()
    all_ms: dict[str, int] = {}
    for name, due_ms in changes:
        if due_ms is None:
            deadlines.discard(name)
            all_ms.pop(name, None)
        else:
            deadlines.set(name, due_ms)
            all_ms[name] = due_ms
        assert deadlines.next_ms == min(all_ms.values(), default=None)
        assert deadlines.due(now_ms) == [name for name, each_ms in all_ms.items() if each_ms <= now_ms]
        assert (name in deadlines) == (name in all_ms)


def test_members_that_are_heard_again_and_again_take_no_more_room() -> None:
    deadlines = Deadlines()
    for now_ms in range(0, 100_000, 10):
        name = f"m{now_ms % 7}"
        deadlines.set(name, now_ms + 450)
        deadlines.set("comes and goes", now_ms + 450)
        assert deadlines.next_ms is not None
        deadlines.discard("comes and goes")
    assert len(deadlines._queue) <= 8
