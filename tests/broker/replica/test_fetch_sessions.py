"""Fetch sessions as a state machine: who gets one, what it tells, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.replica.fetch_sessions import EVICTION_MS, FetchContext, FetchSessions, SessionAnswer
from highwater.kafka.protocol.fetch import FetchPartition, FetchTopic, PartitionFetched
from highwater.kafka.turn import running


def wanted(*partitions: tuple[str, int], offset: int = 0) -> list[FetchTopic]:
    names = dict.fromkeys(name for name, _ in partitions)
    return [
        (name, [FetchPartition(index, -1, offset, -1, 1000) for topic, index in partitions if topic == name])
        for name in names
    ]


def read(topics: Any, **state: Any) -> Any:
    """What a broker reads for them; `state` by "topic_partition" replaces fields of an answer."""
    return [
        (
            topic,
            [
                PartitionFetched(
                    p.partition,
                    **{"high_watermark": 10, "log_start_offset": 0, **state.get(f"{topic}_{p.partition}", {})},
                )
                for p in partitions
            ],
        )
        for topic, partitions in topics
    ]


def told(answer: SessionAnswer) -> list[tuple[str | UUID, int]]:
    return [(topic, entry.partition) for topic, entries in answer[2] for entry in entries]


class Client:
    def __init__(self, sessions: FetchSessions) -> None:
        self.sessions = sessions
        self.session_id = 0
        self.epoch = 0
        self.now_ms = 0

    def begin(self, topics: list[FetchTopic], forgotten: Any = (), **options: Any) -> FetchContext | ErrorCode:
        return self.sessions.open(
            self.session_id, self.epoch, topics, forgotten,
            uses_topic_ids=options.get("uses_topic_ids", False), now_ms=self.now_ms,
        )  # fmt: skip

    def fetch(self, topics: list[FetchTopic], forgotten: Any = (), **state: Any) -> SessionAnswer:
        context = self.begin(topics, forgotten)
        assert not isinstance(context, ErrorCode), context
        answer = context.answer(read(context.topics, **state), self.now_ms)
        error_code, session_id, _ = answer
        if error_code == ErrorCode.none:
            self.session_id, self.epoch = session_id, self.epoch + 1 if session_id else 0
        return answer


@pytest.fixture
def client() -> Client:
    return Client(FetchSessions(2, seed=1))


def test_a_session_tells_what_changed_and_nothing_else(client: Client) -> None:
    everything = wanted(("a", 0), ("a", 1), ("b", 0))
    first = client.fetch(everything)
    assert told(first) == [("a", 0), ("a", 1), ("b", 0)]
    assert first[1] > 0
    assert told(client.fetch([])) == []
    assert told(client.fetch([], b_0={"records": b"x"})) == [("b", 0)]
    assert told(client.fetch([], a_1={"high_watermark": 11})) == [("a", 1)]
    assert told(client.fetch([], a_1={"high_watermark": 11})) == []
    assert told(client.fetch([], a_0={"log_start_offset": 3}, a_1={"high_watermark": 11})) == [("a", 0)]
    diverged = {"diverging_epoch": (1, 2), "log_start_offset": 3}
    assert told(client.fetch([], a_0=diverged, a_1={"high_watermark": 11})) == [("a", 0)]


def test_after_an_error_a_partition_is_told_again(client: Client) -> None:
    client.fetch(wanted(("a", 0), ("a", 1)))
    failed = {"error_code": ErrorCode.kafka_storage_error, "high_watermark": -1, "log_start_offset": -1}
    assert told(client.fetch([], a_0=failed)) == [("a", 0)]
    assert told(client.fetch([], a_0=failed)) == [("a", 0)]
    assert told(client.fetch([])) == [("a", 0)]
    assert told(client.fetch([])) == []


def test_partitions_come_and_go_and_change_their_offset(client: Client) -> None:
    client.fetch(wanted(("a", 0)))
    assert told(client.fetch(wanted(("b", 3)))) == [("b", 3)]
    context = client.begin(wanted(("a", 0), offset=7), [("b", 3)])
    assert not isinstance(context, ErrorCode)
    assert [(topic, [p.fetch_offset for p in partitions]) for topic, partitions in context.topics] == [("a", [7])]


@pytest.mark.parametrize("offset", [3, 5])
def test_who_asks_again_without_having_come_further_is_told_again(client: Client, offset: int) -> None:
    client.fetch(wanted(("a", 0), ("a", 1), offset=5))
    assert told(client.fetch([])) == []
    assert told(client.fetch(wanted(("a", 0), offset=offset))) == [("a", 0)]
    assert told(client.fetch([])) == []
    assert told(client.fetch(wanted(("a", 0), offset=6))) == []


def test_a_follower_is_told_again_of_what_it_names() -> None:
    """It passes over answers that come as it begins another epoch, or cuts its log, and does not say so."""
    sessions = FetchSessions(10)
    options: Any = {"uses_topic_ids": False, "now_ms": 0, "is_follower": True}
    begun = sessions.open(0, 0, wanted(("a", 0), ("a", 1), offset=5), (), **options)
    assert not isinstance(begun, ErrorCode)
    session_id = begun.answer(read(begun.topics), 0)[1]
    for epoch, named in enumerate((wanted(("a", 0), offset=5), wanted(("a", 0), offset=6), []), start=1):
        context = sessions.open(session_id, epoch, named, (), **options)
        assert not isinstance(context, ErrorCode)
        assert told(context.answer(read(context.topics), 0)) == ([("a", 0)] if named else [])


def test_partitions_with_records_go_to_the_end_of_the_line(client: Client) -> None:
    client.fetch(wanted(("a", 0), ("a", 1), ("b", 0)))
    client.fetch([], a_0={"records": b"x"})
    context = client.begin([])
    assert not isinstance(context, ErrorCode)
    assert [(topic, [p.partition for p in partitions]) for topic, partitions in context.topics] == [
        ("a", [1]),
        ("b", [0]),
        ("a", [0]),
    ]


def test_a_session_goes_on_with_its_next_epoch_only(client: Client) -> None:
    client.fetch(wanted(("a", 0)))
    client.epoch = 2
    assert client.begin([]) == ErrorCode.invalid_fetch_session_epoch
    client.epoch = 1
    client.fetch([])
    client.epoch = 1
    assert client.begin([]) == ErrorCode.invalid_fetch_session_epoch
    client.session_id += 1
    assert client.begin([]) == ErrorCode.fetch_session_id_not_found
    client.session_id = 0
    assert client.begin([]) == ErrorCode.fetch_session_id_not_found


def test_a_fetch_that_was_overtaken_is_refused(client: Client) -> None:
    client.fetch(wanted(("a", 0)))
    slow = client.begin([])
    assert not isinstance(slow, ErrorCode)
    client.epoch = 2
    client.fetch([])
    assert slow.answer(read(slow.topics), 0) == (ErrorCode.invalid_fetch_session_epoch, 0, [])


def test_names_and_ids_are_not_mixed(client: Client) -> None:
    client.fetch(wanted(("a", 0)))
    assert client.begin([], uses_topic_ids=True) == ErrorCode.fetch_session_topic_id_error


def test_a_throttled_client_goes_on_where_it_was(client: Client) -> None:
    context = client.begin(wanted(("a", 0)))
    assert not isinstance(context, ErrorCode)
    assert context.answer_nothing() == (ErrorCode.none, 0, [])
    assert len(client.sessions) == 0
    session_id = client.fetch(wanted(("a", 0)))[1]
    context = client.begin([])
    assert not isinstance(context, ErrorCode)
    assert context.answer_nothing() == (ErrorCode.none, session_id, [])
    client.epoch += 1
    assert told(client.fetch([], a_0={"records": b"x"})) == [("a", 0)]


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_it_names(client: Client, epoch: int) -> None:
    old = client.fetch(wanted(("a", 0)))[1]
    client.epoch = epoch
    assert told(client.fetch(wanted(("a", 1)))) == [("a", 1)]
    client.session_id, client.epoch = old, 1
    assert client.begin([]) == ErrorCode.fetch_session_id_not_found
    assert len(client.sessions) == (1 if epoch == 0 else 0)


def test_a_session_without_partitions_ends(client: Client) -> None:
    client.fetch(wanted(("a", 0)))
    assert client.fetch([], [("a", 0)]) == (ErrorCode.none, 0, [])
    assert len(client.sessions) == 0


def test_slots_are_taken_from_the_idle_and_from_smaller_settled_ones() -> None:
    sessions = FetchSessions(2, seed=1)
    small, large, late = Client(sessions), Client(sessions), Client(sessions)
    small.fetch(wanted(("a", 0)))
    large.fetch(wanted(("a", 0), ("a", 1), ("a", 2)))
    # Both are new: nobody goes.
    assert late.fetch(wanted(("a", 0), ("a", 1)))[1] == 0
    # Both had their slot for long and are in use: the smaller one goes for a larger one.
    late.now_ms = small.now_ms = large.now_ms = EVICTION_MS + 1
    small.fetch([])
    large.fetch([])
    assert late.fetch(wanted(("a", 0)))[1] == 0
    assert late.fetch(wanted(("a", 0), ("a", 1)))[1] > 0
    assert small.begin([]) == ErrorCode.fetch_session_id_not_found
    assert not isinstance(large.begin([]), ErrorCode)
    # An idle one goes for anybody.
    other = Client(sessions)
    other.now_ms = 3 * EVICTION_MS
    assert other.fetch(wanted(("a", 0)))[1] > 0
    assert len(sessions) == 2


def test_without_slots_there_are_no_sessions() -> None:
    assert Client(FetchSessions(0)).fetch(wanted(("a", 0)))[1] == 0


keys = st.tuples(st.sampled_from("ab"), st.integers(0, 2))


@given(
    st.lists(
        st.tuples(st.dictionaries(keys, st.integers(0, 3)), st.sets(keys), st.dictionaries(keys, st.integers(0, 3)))
    )
)
def test_a_client_of_a_session_knows_what_one_without_would_know(
    steps: list[tuple[dict[tuple[str, int], int], set[tuple[str, int]], dict[tuple[str, int], int]]],
) -> None:
    """Whatever is added, forgotten and written, what was told last of a partition is what holds of it."""
    client = Client(FetchSessions(1, seed=1))
    watermarks: dict[tuple[str, int], int] = {}
    known: dict[tuple[str, int], int] = {}
    followed: set[tuple[str, int]] = {("a", 0)}
    client.fetch(wanted(("a", 0)), a_0={"high_watermark": 0})
    known["a", 0] = 0
    for added, forgotten, grown in steps:
        watermarks |= grown
        followed = (followed | set(added)) - (forgotten - {("a", 0)})
        state = {
            f"{topic}_{index}": {"high_watermark": watermarks.get((topic, index), 0)}
            for topic in "ab"
            for index in range(3)
        }
        answer = client.fetch(wanted(*added), [key for key in forgotten if key != ("a", 0)], **state)
        for topic, entries in answer[2]:
            for entry in entries:
                assert isinstance(topic, str)
                known[topic, entry.partition] = entry.high_watermark
        for key in followed:
            assert known[key] == watermarks.get(key, 0)


MANY = wanted(*(("many", index) for index in range(100)))


@pytest.fixture
def gives_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Has the next long request give way once, to what this is called with."""

    def to(others: Callable[[], Any]) -> None:
        def give_way() -> None:
            monkeypatch.setattr(running, "turn", None)
            others()

        monkeypatch.setattr(running, "turn", SimpleNamespace(give_way=give_way))

    return to


def test_a_session_that_goes_on_gives_its_slot_to_nobody_meanwhile(
    gives_way: Callable[[Callable[[], Any]], None],
) -> None:
    sessions = FetchSessions(1)
    client, other = Client(sessions), Client(sessions)
    client.fetch(MANY)
    client.now_ms = other.now_ms = EVICTION_MS + 1
    gives_way(lambda: other.fetch(wanted(("a", 0))))
    assert told(client.fetch(MANY)) == [("many", index) for index in range(100)]
    assert (len(sessions), other.session_id) == (1, 0)


def test_a_session_ends_while_it_forgets_its_last_partition(gives_way: Callable[[Callable[[], Any]], None]) -> None:
    sessions = FetchSessions(1)
    client = Client(sessions)
    client.fetch(MANY)
    gives_way(lambda: sessions.open(client.session_id, -1, [], (), uses_topic_ids=False, now_ms=0))
    assert client.fetch(MANY, [("many", index) for index in range(100)])[1] == 0
    assert not len(sessions)


def test_sessions_that_begin_together_take_no_more_than_the_slots(
    gives_way: Callable[[Callable[[], Any]], None],
) -> None:
    sessions = FetchSessions(1)
    client, other = Client(sessions), Client(sessions)
    gives_way(lambda: other.fetch(wanted(("a", 0))))
    context = client.begin(MANY)
    assert not isinstance(context, ErrorCode)
    answer = context.answer(read(MANY), 0)
    assert len(sessions) == 1
    assert (answer[1], other.epoch) == (0, 1)
