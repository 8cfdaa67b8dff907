"""What happens to a tree of znodes, as values and as the bytes of its journal.

A change is one transaction: its steps happen together. Applied to the same tree it always has the same result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_CHANGE: Final = struct.Struct(">qqI")
_LENGTH: Final = struct.Struct(">I")
_SESSION: Final = struct.Struct(">q")
_TIMEOUT: Final = struct.Struct(">i")


class ChangeError(Exception):
    """Bytes that no change has; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class NodeMade:
    path: str
    data: bytes
    owner: int
    """The session of an ephemeral node, else 0."""


@dataclass(frozen=True, slots=True)
class NodeWritten:
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    path: str


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session_id: int
    password: bytes
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """Its ephemeral nodes are removed in the same transaction."""

    session_id: int


Step = NodeMade | NodeWritten | NodeRemoved | SessionOpened | SessionClosed


class Change(NamedTuple):
    zxid: int
    """The number of the transaction: the last one's + 1."""
    time_ms: int
    steps: tuple[Step, ...]


def encode_change(change: Change) -> bytes:
    parts = [_CHANGE.pack(change.zxid, change.time_ms, len(change.steps))]
    for step in change.steps:
        match step:
            case NodeMade(path, data, owner):
                parts += b"\1", encode_text(path), encode_bytes(data), _SESSION.pack(owner)
            case NodeWritten(path, data):
                parts += b"\2", encode_text(path), encode_bytes(data)
            case NodeRemoved(path):
                parts += b"\3", encode_text(path)
            case SessionOpened(session_id, password, timeout_ms):
                parts += b"\4", _SESSION.pack(session_id), encode_bytes(password), _TIMEOUT.pack(timeout_ms)
            case SessionClosed(session_id):
                parts += b"\5", _SESSION.pack(session_id)
    return b"".join(parts)


def decode_changes(data: bytes) -> Iterator[Change]:
    """Yields the changes that stand behind each other in `data`. Raises ChangeError."""
    reader = Reader(data)
    while not reader.is_at_end:
        zxid, time_ms, count = reader.unpack(_CHANGE)
        yield Change(zxid, time_ms, tuple(_decode_step(reader) for _ in range(count)))


def _decode_step(reader: Reader) -> Step:
    tag = reader.take(1)
    if tag == b"\1":
        return NodeMade(reader.text(), reader.bytes(), *reader.unpack(_SESSION))
    if tag == b"\2":
        return NodeWritten(reader.text(), reader.bytes())
    if tag == b"\3":
        return NodeRemoved(reader.text())
    if tag == b"\4":
        (session_id,) = reader.unpack(_SESSION)
        password = reader.bytes()
        (timeout_ms,) = reader.unpack(_TIMEOUT)
        return SessionOpened(session_id, password, timeout_ms)
    if tag == b"\5":
        return SessionClosed(*reader.unpack(_SESSION))
    raise ChangeError(f"a step of the unknown kind {tag.hex()}")


def encode_bytes(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def encode_text(text: str) -> bytes:
    return encode_bytes(text.encode())


class Reader:
    """Reads one value after another, and no byte beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ChangeError(f"it ends {end - len(self._data)} bytes too early")
        found = self._data[self._position : end]
        self._position = end
        return found

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def bytes(self) -> bytes:
        (size,) = self.unpack(_LENGTH)
        return self.take(size)

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise ChangeError(f"a path that is not UTF-8: {error.reason}") from None
