"""What is asked of brokers that do not answer, or do not know a topic yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.messaging import topics
from highwater.pipeline.messaging.topics import Topics


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda there: there.ensure("new", 1, {}), "topic new cannot be created: "),
        (lambda there: there.grow("known", 5), "topic known cannot grow: "),
        (lambda there: there.delete_before({("known", 0): 1}), "known-0: its records cannot be deleted: "),
    ],
)
def test_brokers_that_are_silent_for_long(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Topics], None], message: str
) -> None:
    """A request of librdkafka's admin client lasts for 60 s by default, and the callers wait for 30 s."""
    monkeypatch.setattr(topics, "_TIMEOUT_S", 0.2)
    there = Topics({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    monkeypatch.setattr(there, "partitions", {"known": 1}.get)
    with pytest.raises(ClientError, match=f"^{message}"):
        ask(there)


def test_a_topic_that_was_created_a_moment_ago_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Topics({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    answers = iter([None, None, 4, 4])
    monkeypatch.setattr(there, "partitions", lambda topic: next(answers))
    assert there.await_topic("new") == 4
    monkeypatch.setattr(topics, "_NEW_TOPIC_S", 0.3)
    monkeypatch.setattr(there, "partitions", lambda topic: None)
    with pytest.raises(SettingsError, match="there is no topic nothing: create it first"):
        there.await_topic("nothing")
