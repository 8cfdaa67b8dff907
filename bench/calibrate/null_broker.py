"""A broker that acknowledges Produce requests at once and discards their records.

The rate that producers reach against it is their own ceiling. It counts records by the headers of batches and discards
records inside the kernel (recv with MSG_TRUNC, tcp(7)), so it uses little CPU itself.
"""

from __future__ import annotations

import json
import select
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from highwater.bench.calibrate.broker_process import serve
from highwater.bench.calibrate.dialect import (
    BATCH_HEADER_BYTES,
    HEADER,
    LENGTH,
    PRODUCE,
    Dialect,
    produce_head,
)
from highwater.common.child_process import Serving, serving
from highwater.kafka.protocol.primitives import MalformedRequestError

_HEAD_BYTES: Final = 4096
_DISCARD_BYTES: Final = 1 << 22


@dataclass(slots=True)
class _Peer:
    """One connection: unused bytes, and how many bytes of the present request to discard."""

    socket: socket.socket
    head: bytearray = field(default_factory=bytearray)
    discard_bytes: int = 0
    answer: bytes = b""


class NullBroker(Dialect):
    """One thread."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self._scratch = bytearray(_DISCARD_BYTES)

    def serve(self, control: int) -> None:
        """Serve until `control` is readable."""
        peers: dict[int, _Peer] = {}
        with self.listener, select.epoll() as poll:
            poll.register(self.listener.fileno(), select.EPOLLIN)
            poll.register(control, select.EPOLLIN)
            while True:
                for descriptor, _ in poll.poll():
                    if descriptor == control:
                        for peer in peers.values():
                            peer.socket.close()
                        return
                    if descriptor == self.listener.fileno():
                        connection, _ = self.listener.accept()
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        peers[connection.fileno()] = _Peer(connection)
                        poll.register(connection.fileno(), select.EPOLLIN)
                    elif not self._read(peers[descriptor]):
                        poll.unregister(descriptor)
                        peers.pop(descriptor).socket.close()

    def _read(self, peer: _Peer) -> bool:
        """Read what has arrived; False when the peer is gone or sent something invalid."""
        try:
            if peer.discard_bytes:
                size = min(peer.discard_bytes, _DISCARD_BYTES)
                taken = peer.socket.recv_into(self._scratch, size, socket.MSG_TRUNC)
                peer.discard_bytes -= taken
                if taken and not peer.discard_bytes:
                    self._reply(peer)
                return taken > 0
            data = peer.socket.recv(_HEAD_BYTES)
            peer.head += data
            while self._take_request(peer):
                pass
        except (OSError, MalformedRequestError):
            return False
        return bool(data)

    def _reply(self, peer: _Peer) -> None:
        if peer.answer:
            peer.socket.sendall(LENGTH.pack(len(peer.answer)) + peer.answer)

    def _take_request(self, peer: _Peer) -> bool:
        """Answer or begin to discard the request at the front of `head`; False when more bytes are needed."""
        head = peer.head
        if peer.discard_bytes or len(head) < LENGTH.size + HEADER.size:
            return False
        end = LENGTH.size + LENGTH.unpack_from(head)[0]
        api, version, correlation = HEADER.unpack_from(head, LENGTH.size)
        if api == PRODUCE:
            needed = self._produce_answer(peer, correlation, version)
            if len(head) < min(needed, end):
                return False
        elif len(head) < end:
            return False
        else:
            peer.answer = self.answer(api, version, correlation, bytes(head[LENGTH.size + HEADER.size : end]))
        if len(head) < end:
            peer.discard_bytes = end - len(head)
            head.clear()
            return False
        del head[:end]
        self._reply(peer)
        return True

    def _produce_answer(self, peer: _Peer, correlation: int, version: int) -> int:
        """Prepare the answer when all needed bytes are there. Returns how many bytes it used."""
        head = peer.head
        found = produce_head(head, LENGTH.size + HEADER.size)
        if found is None or len(head) < found.records_at + BATCH_HEADER_BYTES:
            return len(head) + 1
        needed = found.records_at + BATCH_HEADER_BYTES
        peer.answer = self.acknowledge(found, bytes(head[found.records_at : needed]), correlation, version)
        return needed


def null_broker(topics: dict[str, int]) -> AbstractContextManager[Serving]:
    """Start the broker in its own process. topics: name -> number of partitions."""
    return serving("highwater.bench.calibrate.null_broker", json.dumps(topics))


if __name__ == "__main__":
    serve(NullBroker)
