"""A broker that keeps nothing: it reads Produce requests, throws the records away and acknowledges at once.

What producers reach against it is their own ceiling. Records are counted from their batches' headers and discarded
inside the kernel (recv with MSG_TRUNC, tcp(7)), so its own work hardly shows. It leads every partition of every topic
that anybody asks for. It speaks what producers need: ApiVersions 0 and 3, Metadata 5, InitProducerId 0 and 1, Produce
up to 7 with one partition in a request, as librdkafka and the wire driver send them.

As a script it prints its address, serves until standard input ends, and then prints the number of records it took.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_PRODUCE, _METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 0, 3, 18, 22
# Fetch is named because librdkafka takes a broker without it for one that knows no record batches.
_SPOKEN: Final = ((_PRODUCE, 3, 7), (1, 4, 4), (_METADATA, 5, 5), (_API_VERSIONS, 0, 3), (_INIT_PRODUCER_ID, 0, 1))
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhi")
_HEAD_BYTES: Final = 4096
_DISCARD_BYTES: Final = 1 << 22
_BATCH_HEADER_BYTES: Final = 61
_COUNT_AT: Final = 57
_LEADER: Final = 1


class _ProtocolError(Exception):
    """A peer asks for what this broker does not know."""


@dataclass(slots=True)
class _Peer:
    """One connection: what was read and not used, and how much of the present request is to be thrown away."""

    socket: socket.socket
    head: bytearray = field(default_factory=bytearray)
    discard_bytes: int = 0
    answer: bytes = b""


class NullBroker:
    """Serves until `control` has something to read; one thread."""

    def __init__(self, topics: dict[str, int]) -> None:
        """topics: name -> partitions, as told to whoever asks for all; others that are asked for by name have 1."""
        self._topics = topics
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address: tuple[str, int] = self._listener.getsockname()
        self._next_offset: Counter[tuple[bytes, int]] = Counter()
        self._scratch = bytearray(_DISCARD_BYTES)

    @property
    def records(self) -> int:
        return self._next_offset.total()

    def error_for(self, topic: str, partition: int, batch_header: bytes) -> int:
        """The error code of the next answer; a broker that is less kind overrides it."""
        return 0

    def serve(self, control: int) -> None:
        peers: dict[int, _Peer] = {}
        with self._listener, select.epoll() as poll:
            poll.register(self._listener.fileno(), select.EPOLLIN)
            poll.register(control, select.EPOLLIN)
            while True:
                for descriptor, _ in poll.poll():
                    if descriptor == control:
                        for peer in peers.values():
                            peer.socket.close()
                        return
                    if descriptor == self._listener.fileno():
                        connection, _ = self._listener.accept()
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        peers[connection.fileno()] = _Peer(connection)
                        poll.register(connection.fileno(), select.EPOLLIN)
                    elif not self._read(peers[descriptor]):
                        poll.unregister(descriptor)
                        peers.pop(descriptor).socket.close()

    def _read(self, peer: _Peer) -> bool:
        """Take what has arrived; False when the peer is gone or not understood."""
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
        except (OSError, _ProtocolError, struct.error):
            return False
        return bool(data)

    def _reply(self, peer: _Peer) -> None:
        if peer.answer:
            peer.socket.sendall(_LENGTH.pack(len(peer.answer)) + peer.answer)

    def _take_request(self, peer: _Peer) -> bool:
        """Answer the request at the front of `head`, or begin to throw it away; False when there is none to go on."""
        head = peer.head
        if peer.discard_bytes or len(head) < _LENGTH.size + _HEADER.size:
            return False
        end = _LENGTH.size + _LENGTH.unpack_from(head)[0]
        api, version, correlation = _HEADER.unpack_from(head, _LENGTH.size)
        if api == _PRODUCE:
            needed = self._produce_answer(peer, correlation, version)
            if len(head) < min(needed, end):
                return False
        elif len(head) < end:
            return False
        else:
            peer.answer = self._answer(api, version, correlation, bytes(head[_LENGTH.size + _HEADER.size : end]))
        if len(head) < end:
            peer.discard_bytes = end - len(head)
            head.clear()
            return False
        del head[:end]
        self._reply(peer)
        return True

    def _produce_answer(self, peer: _Peer, correlation: int, version: int) -> int:
        """Prepare the answer once all that it needs is there; the number of bytes that takes."""
        head, at = peer.head, _LENGTH.size + _HEADER.size
        try:
            for _ in range(2):  # client id, transactional id
                at += 2 + max(0, struct.unpack_from(">h", head, at)[0])
            acks, _, topics = struct.unpack_from(">hii", head, at)
            name_at = at + 10
            (name_bytes,) = struct.unpack_from(">h", head, name_at)
            name = bytes(head[name_at + 2 : name_at + 2 + name_bytes])
            at = name_at + 2 + name_bytes
            partitions, partition, _ = struct.unpack_from(">iii", head, at)
            batch_at = at + 12
            count: int = _LENGTH.unpack_from(head, batch_at + _COUNT_AT)[0]
        except struct.error:
            return len(head) + 1
        if (topics, partitions) != (1, 1):
            raise _ProtocolError
        needed: int = batch_at + _BATCH_HEADER_BYTES
        error = self.error_for(name.decode(), partition, bytes(head[batch_at:needed]))
        offset = self._next_offset[name, partition]
        self._next_offset[name, partition] += 0 if error else count
        peer.answer = b""
        if acks:
            start_offset = b"" if version < 5 else bytes(8)
            peer.answer = b"".join(
                (
                    struct.pack(">iih", correlation, 1, name_bytes),
                    name,
                    struct.pack(">iihqq", 1, partition, error, offset, -1),
                    start_offset,
                    bytes(4),
                )
            )
        return needed

    def _answer(self, api: int, version: int, correlation: int, body: bytes) -> bytes:
        after_client_id = 2 + max(0, struct.unpack_from(">h", body)[0])
        body = body[after_client_id:]
        prefix = _LENGTH.pack(correlation)
        if api == _API_VERSIONS:
            return prefix + _api_versions(version)
        if (api, version) == (_METADATA, 5):
            return prefix + self._metadata(body)
        if api == _INIT_PRODUCER_ID and version <= 1:
            return prefix + struct.pack(">ihqh", 0, 0, 1, 0)
        raise _ProtocolError

    def _metadata(self, body: bytes) -> bytes:
        (count,) = _LENGTH.unpack_from(body)
        names = list(self._topics) if count < 0 else list(_strings(body, count))
        host, port = self.address
        parts = [struct.pack(">iii", 0, 1, _LEADER), _string(host), struct.pack(">ihhi", port, -1, -1, _LEADER)]
        parts.append(_LENGTH.pack(len(names)))
        for name in names:
            partitions = self._topics.get(name, 1)
            parts += [struct.pack(">h", 0), _string(name), struct.pack(">bi", 0, partitions)]
            parts += [
                struct.pack(">hiiiiiii", 0, partition, _LEADER, 1, _LEADER, 1, _LEADER, 0)
                for partition in range(partitions)
            ]
        return b"".join(parts)


def _api_versions(version: int) -> bytes:
    if version < 3:
        throttle = bytes(4) if version else b""
        rows = b"".join(struct.pack(">hhh", *row) for row in _SPOKEN)
        return struct.pack(">hi", 0, len(_SPOKEN)) + rows + throttle
    rows = b"".join(struct.pack(">hhhb", *row, 0) for row in _SPOKEN)
    return struct.pack(">hB", 0, len(_SPOKEN) + 1) + rows + bytes(5)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _strings(body: bytes, count: int) -> Iterator[str]:
    at = _LENGTH.size
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, at)
        yield body[at + 2 : at + 2 + size].decode()
        at += 2 + size


class NullBrokerProcess:
    """A null broker in a process of its own. `records` is known once it has ended."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process_id = process.pid
        self.address = address
        self.records = 0


@contextlib.contextmanager
def null_broker(topics: dict[str, int]) -> Iterator[NullBrokerProcess]:
    """topics: name -> number of partitions."""
    command = [sys.executable, "-m", "bench.calibrate.null_broker", json.dumps(topics)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = NullBrokerProcess(process, process.stdout.readline().strip())
        try:
            yield running
        finally:
            rest, _ = process.communicate()
            running.records = int(rest or 0)


def _main() -> None:
    broker = NullBroker(json.loads(sys.argv[1]))
    host, port = broker.address
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    broker.serve(sys.stdin.fileno())
    sys.stdout.write(f"{broker.records}\n")


if __name__ == "__main__":
    _main()
