"""What is asked of brokers that do not answer: the room's own errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.pipeline.errors import ClientError
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
