"""One connection's requests and answers, many on their way at once: bytes in and out. Pure."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from highwater.kafka.client import request as requests
from highwater.kafka.client.handshake import Session, handshake, unserved
from highwater.kafka.client.request import Request, UnexpectedAnswer
from highwater.kafka.login.credentials import Credential

ANSWER_BYTES_MAX: Final = 100 << 20
_SOFTWARE: Final = "highwater"
LENGTH_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_IDS: Final = 1 << 31


def answer_bytes(length: bytes | bytearray | memoryview, most: int = ANSWER_BYTES_MAX) -> int:
    """Return the size of an answer from the four bytes before it. Raises UnexpectedAnswer."""
    size: int = _LENGTH.unpack(length)[0]
    if not _CORRELATION_ID.size <= size <= most:
        raise UnexpectedAnswer(f"an answer of {size} bytes; is this the port of a broker, with this protocol?")
    return size


class UnservedError(Exception):
    """The broker serves no version of the request that this client knows. Nothing was sent."""


class Arrived(NamedTuple):
    """An answer as it came."""

    correlation_id: int
    request: Request[Any]
    version: int
    frame: bytes | memoryview

    def value(self) -> Any:
        """Raises UnexpectedAnswer."""
        return requests.read_answer(self.request, self.version, self.correlation_id, memoryview(self.frame))


class Exchange:
    """The handshake begins at once: send what `data_to_send` returns, and give what comes to `received`."""

    def __init__(self, client_id: str, credential: Credential | None) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._out: list[bytes] = []
        self._in = bytearray()
        self._pending: dict[int, tuple[Request[Any], int]] = {}
        self._handshake = handshake(credential, _SOFTWARE)
        self._session: Session | None = None
        self._send(*next(self._handshake))

    @property
    def session(self) -> Session | None:
        """None until the handshake is over."""
        return self._session

    @property
    def pending(self) -> list[Request[Any]]:
        """Requests without an answer, the oldest first; those of the handshake too."""
        return [request for request, _ in self._pending.values()]

    def data_to_send(self) -> bytes:
        """What has gathered since the last call."""
        data = b"".join(self._out)  # the bytes of one request are not copied
        self._out.clear()
        return data

    def ask(self, request: Request[Any]) -> int:
        """Add a request to what is to be sent, once the handshake is over. Returns the correlation id of its answer.

        Raises UnservedError.
        """
        assert self._session is not None
        version = request.version_for(self._session.versions)
        if version is None:
            raise UnservedError(unserved(request, self._session.versions))
        return self._send(request, version)

    def received(self, data: bytes) -> list[Arrived]:
        """Take what came. Returns the answers that are whole by now; those of the handshake are not among them.

        Raises UnexpectedAnswer or HandshakeError; the connection cannot be used afterwards.
        """
        self._in += data
        arrived = []
        start = 0
        while len(self._in) >= start + LENGTH_BYTES:
            end = start + LENGTH_BYTES + answer_bytes(self._in[start : start + LENGTH_BYTES])
            if len(self._in) < end:
                break
            answer = self.take(bytes(self._in[start + LENGTH_BYTES : end]))
            start = end
            if answer is not None:
                arrived.append(answer)
        del self._in[:start]
        return arrived

    def take(self, frame: bytes | memoryview) -> Arrived | None:
        """Take one whole answer, without its length, as `received` does; None for an answer of the handshake."""
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id not in self._pending:
            raise UnexpectedAnswer(f"an answer to request {correlation_id}, which was not asked")
        answer = Arrived(correlation_id, *self._pending.pop(correlation_id), frame)
        if self._session is not None:
            return answer
        try:
            self._send(*self._handshake.send(answer.value()))
        except StopIteration as end:
            self._session = end.value
        return None

    def _send(self, request: Request[Any], version: int) -> int:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        self._out.append(requests.frame(request, version, self._correlation_id, self._client_id))
        self._pending[self._correlation_id] = request, version
        return self._correlation_id
