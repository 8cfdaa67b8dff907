"""What actors hold a broker to, where a request was not answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.drills.actors import Churner, Lost


class _NoAnswer:
    """An admin client whose requests the broker takes and does not answer in time."""

    def list_topics(self, timeout: float) -> None:
        pass

    def create_topics(self, topics: list[Any], request_timeout: float) -> dict[str, Any]:
        def no_result(timeout: float) -> None:
            raise TimeoutError

        return {topic.topic: SimpleNamespace(result=no_result) for topic in topics}


def test_a_topic_whose_creation_was_not_answered_may_come_until_the_next_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    churner = Churner("churn", "127.0.0.1:1", lambda topic, number: b"")
    monkeypatch.setattr(churner, "_admin", _NoAnswer())
    there: Any = {("churn-1", partition): SimpleNamespace(records=[]) for partition in range(Churner.PARTITIONS)}
    churner.note_kill()
    churner.step()
    churner.check_promises({})
    churner.check_promises(there)
    churner.note_kill()
    churner.check_promises(there)
    with pytest.raises(Lost, match="topic churn-1 should be there"):
        churner.check_promises({})
