"""Frames: the four-byte length before every request and answer, and the headers that open them. Sans-IO."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from highwater.kafka.protocol.primitives import MalformedRequestError

Part = bytes | bytearray | memoryview
Parts = Sequence[Part]
"""An answer's body as the buffers it consists of, so that record bytes are not copied into it."""

LENGTH_BYTES: Final = 4
INITIAL_BUFFER_BYTES: Final = 64 * 1024
# A buffer that a read filled to the brim grows up to here, so that a busy connection needs few reads. Beyond it a
# buffer only grows for a frame that needs it.
READ_AHEAD_BUFFER_BYTES: Final = 1024 * 1024

_LENGTH: Final = struct.Struct(">i")
_REQUEST_HEADER: Final = struct.Struct(">hhih")
_RESPONSE_HEADER: Final = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_HEADER: Final = struct.Struct(">iib")


class FrameReceiver:
    """Bytes of one connection in, whole frames out.

    The caller reads into `writable()`, passes the number of bytes to `received()`, and takes frames with `next()`
    until it returns None. A frame is a view of the receive buffer: it is good until the next `writable()`.

    Memory grows with what was really sent, never with what a length field claims: the buffer doubles while a frame
    arrives. A large one is mapped, so that the kernel moves its pages: the event loop would copy 64 MiB in 50 ms.
    """

    __slots__ = ("_end", "_end_of_last_read", "_map", "_start", "_view", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        # A connection that says nothing has no buffer: there may be thousands of them.
        self._map: mmap | None = None
        self._view = memoryview(b"")
        self._start = 0
        self._end = 0
        self._end_of_last_read = 0

    @property
    def capacity_bytes(self) -> int:
        return len(self._view)

    @property
    def is_empty(self) -> bool:
        return self._start == self._end

    def writable(self) -> memoryview:
        """Where the next bytes belong; never empty. Ends the life of the frames given out before."""
        capacity = len(self._view)
        pending = self._end - self._start
        if not pending:
            self._start = self._end = 0
        if self._end_of_last_read == capacity:
            doubled = max(capacity * 2, INITIAL_BUFFER_BYTES)
            grown = min(doubled, max(self._wanted_bytes(), READ_AHEAD_BUFFER_BYTES, pending + 1))
            self._rebase(max(capacity, grown))
        elif capacity - self._end < capacity // 4:
            self._rebase(capacity)
        if pending > READ_AHEAD_BUFFER_BYTES and (limit := self._start + self._wanted_bytes()) > self._end:
            # Nothing of the next frame, which would have to be moved.
            return self._view[self._end : limit]
        return self._view[self._end :]

    def _rebase(self, capacity: int) -> None:
        """Move what is pending to the front of a buffer of `capacity` bytes."""
        pending = self._end - self._start
        if capacity != len(self._view):
            if self._start or not self._grow_in_place(capacity):
                self._copy(capacity)
        elif self._start:
            self._view[:pending] = bytes(self._view[self._start : self._end])
        self._start = 0
        self._end = self._end_of_last_read = pending

    def _grow_in_place(self, capacity: int) -> bool:
        """Resize the map; False if there is none, or a frame of it is still in use."""
        pages = self._map
        if pages is None:
            return False
        self._view.release()
        try:
            pages.resize(capacity)
        except BufferError:
            return False
        finally:
            self._view = memoryview(pages)
        return True

    def _copy(self, capacity: int) -> None:
        """Move what is pending to the front of a new buffer."""
        pending = self._view[self._start : self._end]
        self._map = mmap(-1, capacity, MAP_PRIVATE | MAP_ANONYMOUS) if capacity > READ_AHEAD_BUFFER_BYTES else None
        self._view = memoryview(bytearray(capacity) if self._map is None else self._map)
        self._view[: len(pending)] = pending

    def _wanted_bytes(self) -> int:
        """What the frame at the front needs in all, as far as that can be known."""
        if self._end - self._start < LENGTH_BYTES:
            return LENGTH_BYTES
        length: int = _LENGTH.unpack_from(self._view, self._start)[0]
        return LENGTH_BYTES + length

    def received(self, byte_count: int) -> None:
        self._end += byte_count
        self._end_of_last_read = self._end

    def next(self) -> memoryview | None:
        """The next whole frame without its length, or None. Raises MalformedRequestError for an impossible length."""
        start = self._start
        available = self._end - start
        if available < LENGTH_BYTES:
            return None
        length: int = _LENGTH.unpack_from(self._view, start)[0]
        if not 0 <= length <= self.max_frame_bytes:
            raise MalformedRequestError(
                f"a frame claims {length} bytes; socket.request.max.bytes allows {self.max_frame_bytes}"
            )
        if available < LENGTH_BYTES + length:
            return None
        self._start = end = start + LENGTH_BYTES + length
        return self._view[start + LENGTH_BYTES : end]

    @property
    def untaken(self) -> tuple[memoryview, int, int]:
        """(the buffer, start, end) of what was received and not taken."""
        return self._view, self._start, self._end

    def skip_to(self, position: int) -> None:
        """Take what `untaken` has before a position; it is good as long as a frame."""
        self._start = position

    def give_away(self) -> None:
        """Let the frames that were given out live on, however many bytes come."""
        pending = self._end - self._start
        self._copy(max(pending, INITIAL_BUFFER_BYTES))
        self._start = 0
        self._end = self._end_of_last_read = pending

    def head(self, most_bytes: int) -> bytes:
        """The first bytes of what was not taken yet."""
        return bytes(self._view[self._start : min(self._end, self._start + most_bytes)])

    def shrink(self) -> None:
        """Give the buffer back; for the caller to call on idle connections."""
        if self._start == self._end and len(self._view):
            self._map = None
            self._view = memoryview(b"")
            self._start = self._end = self._end_of_last_read = 0


class RequestHeader:
    __slots__ = ("api_key", "api_version", "body_position", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None, body_position: int
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_position = body_position
        """Where the body starts, for versions that are not flexible; flexible ones have header tags to skip first."""


def read_request_header(frame: memoryview) -> RequestHeader:
    """The header of a request. The client id is never compact, not even in flexible versions (KIP-482)."""
    if len(frame) < _REQUEST_HEADER.size:
        raise MalformedRequestError(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key, api_version, correlation_id, client_id_bytes = _REQUEST_HEADER.unpack_from(frame)
    position = _REQUEST_HEADER.size
    if client_id_bytes == -1:
        return RequestHeader(api_key, api_version, correlation_id, None, position)
    end = position + client_id_bytes
    if client_id_bytes < 0 or end > len(frame):
        raise MalformedRequestError(f"the client id claims {client_id_bytes} bytes")
    try:
        client_id = str(frame[position:end], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequestError(f"the client id is not UTF-8: {error.reason}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def frame_response(correlation_id: int, parts: Parts, *, flexible_header: bool) -> list[Part]:
    """A whole answer as the buffers to write: length, header, body."""
    size = sum(map(len, parts))
    head = (
        _FLEXIBLE_RESPONSE_HEADER.pack(size + 5, correlation_id, 0)
        if flexible_header
        else _RESPONSE_HEADER.pack(size + 4, correlation_id)
    )
    return [head, *parts]
