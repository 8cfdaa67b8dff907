"""What sinks read from a session. One in which Spark copies slow tasks is refused before anything is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.sink import batch_transaction, partition_transaction

ONCE = {"delivery": "exactly_once", "transactionalIdPrefix": "hw", "tasks": "2", "topic": "out"}
NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def frame(setting: str) -> Any:
    return SimpleNamespace(sparkSession=SimpleNamespace(conf={"spark.speculation": setting}))


@pytest.mark.parametrize("setting", ["true", "True"])
def test_copies_of_tasks_are_refused(setting: str) -> None:
    words = r"^spark\.speculation is true, and two copies of a task must not write; set it to false$"
    with pytest.raises(SettingsError, match=words):
        partition_transaction.TopicSink({**NOBODY, **ONCE}).write(frame(setting), 0)
    with pytest.raises(SettingsError, match=words):
        batch_transaction.TransactionalSink(NOBODY, "id", "out").append(frame(setting))


def test_other_sessions_are_not() -> None:
    with pytest.raises(AttributeError, match="schema"):
        partition_transaction.TopicSink({**NOBODY, **ONCE}).write(frame("false"), 0)
    with pytest.raises(AttributeError, match="schema"):
        partition_transaction.TopicSink({**NOBODY, "topic": "out"}).write(frame("true"), 0)
