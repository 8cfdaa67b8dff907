"""One connection to a broker, for frames as they are."""

from __future__ import annotations

import socket
import struct
from typing import Final

_DEADLINE_S: Final = 60.0


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _DEADLINE_S)
        self._stream = self._socket.makefile("rb")

    def exchange(self, frame: bytes) -> bytes:
        """The answer with its length before it."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = self._stream.read(4)
        return size + self._stream.read(*struct.unpack(">i", size))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()
