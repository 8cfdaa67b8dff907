"""A record as it was read, and a record as it is to be written. Pure."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeAlias

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Place(NamedTuple):
    """Where a record is in the log."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """The form of the header hw-origin. No topic has a slash in its name."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def parse_place(text: str) -> Place | None:
    """Return the place that `str` writes as this; None if there is none."""
    parts = text.split("/")
    if len(parts) != 3 or not parts[0] or not all(_NUMBER.fullmatch(part) for part in parts[1:]):
        return None
    return Place(parts[0], int(parts[1]), int(parts[2]))


class Record(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition, self.offset)

    def header(self, name: str) -> bytes | None:
        """The last header of that name, as Kafka's clients take it; None if it is missing."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def text(self, name: str) -> str | None:
        """The header as text; None if it is missing or is not UTF-8."""
        value = self.header(name)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None


class Outgoing(NamedTuple):
    """A record to write."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    partition: int | None = None
    """None lets the partitioner choose by key."""

    def arguments(self) -> dict[str, Any]:
        """The arguments of confluent-kafka's `Producer.produce`."""
        arguments: dict[str, Any] = {
            "topic": self.topic,
            "key": self.key,
            "value": self.value,
            "headers": list(self.headers),
            "timestamp": self.timestamp_ms,
        }
        return arguments if self.partition is None else arguments | {"partition": self.partition}
