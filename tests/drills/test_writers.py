"""What the kill drill's writer takes for a broken promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.drills.actors import Lost
from tests.drills.reading import Seen
from tests.drills.writers import Writer

Delivered = Callable[[object, Any], None]


class Message:
    def __init__(self, value: bytes, offset: int) -> None:
        self._value = value
        self._offset = offset

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class Acknowledging:
    """A producer of one partition whose broker acknowledges each record at once."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._end = 0

    def __len__(self) -> int:
        return 0

    def produce(self, topic: str, value: bytes, partition: int, on_delivery: Delivered) -> None:
        on_delivery(None, Message(value, self._end))
        self._end += 1

    def poll(self, timeout: float) -> None:
        pass


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr("tests.drills.writers.Producer", Acknowledging)
    writer = Writer("short", "127.0.0.1:1", "short", 1, enable_idempotence=True)
    writer.step()
    writer.note_kill()
    assert writer.acknowledged == 20
    return writer


def test_an_acknowledged_record_that_is_not_there_is_lost(writer: Writer) -> None:
    with pytest.raises(Lost, match="short: 0 was acknowledged at short-0, offset 0, where there is None"):
        writer.check_promises({("short", 0): Seen(0, 0, 20, [])})


def test_what_retention_deleted_before_it_could_be_read_is_not_lost(writer: Writer) -> None:
    writer.check_promises({("short", 0): Seen(0, 0, 20, [], low_at_end=20)})
    assert writer.verified == 20


def test_what_retention_left_must_be_there(writer: Writer) -> None:
    with pytest.raises(Lost, match="short: 15 was acknowledged at short-0, offset 15"):
        writer.check_promises({("short", 0): Seen(0, 0, 20, [], low_at_end=15)})
