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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
_METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 3, 18, 22
LEADER: Final = 1
LENGTH: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhi")
_HEAD_BYTES: Final = 4096
_DISCARD_BYTES: Final = 1 << 22
_BATCH_HEADER_BYTES: Final = 61
_COUNT_AT: Final = 57


class ProtocolError(Exception):
    """A peer asks for what this broker does not know."""


class ProduceHead(NamedTuple):
    """What a Produce request says before its records."""

    acks: int
    topic: bytes
    partition: int
    records_bytes: int
    records_at: int


@dataclass(slots=True)
class _Peer:
    """One connection: what was read and not used, and how much of the present request is to be thrown away."""

    socket: socket.socket
    head: bytearray = field(default_factory=bytearray)
    discard_bytes: int = 0
    answer: bytes = b""


class NullBroker:
    """Serves until `control` has something to read; one thread."""

    # Fetch is named because librdkafka takes a broker without it for one that knows no record batches.
    spoken: ClassVar[tuple[tuple[int, int, int], ...]] = (
        (PRODUCE, 3, 7),
        (FETCH, 4, 4),
        (_METADATA, 5, 5),
        (_API_VERSIONS, 0, 3),
        (_INIT_PRODUCER_ID, 0, 1),
    )

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
        except (OSError, ProtocolError, struct.error):
            return False
        return bool(data)

    def _reply(self, peer: _Peer) -> None:
        if peer.answer:
            peer.socket.sendall(LENGTH.pack(len(peer.answer)) + peer.answer)

    def _take_request(self, peer: _Peer) -> bool:
        """Answer the request at the front of `head`, or begin to throw it away; False when there is none to go on."""
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
        """Prepare the answer once all that it needs is there; the number of bytes that takes."""
        head = peer.head
        found = produce_head(head, LENGTH.size + HEADER.size)
        if found is None or len(head) < found.records_at + _BATCH_HEADER_BYTES:
            return len(head) + 1
        needed = found.records_at + _BATCH_HEADER_BYTES
        peer.answer = self.acknowledge(found, bytes(head[found.records_at : needed]), correlation, version)
        return needed

    def acknowledge(self, found: ProduceHead, batch_header: bytes, correlation: int, version: int) -> bytes:
        """Count the records; the answer, empty where nobody waits for it."""
        error = self.error_for(found.topic.decode(), found.partition, batch_header)
        key = found.topic, found.partition
        offset = self._next_offset[key]
        self._next_offset[key] += 0 if error else LENGTH.unpack_from(batch_header, _COUNT_AT)[0]
        if not found.acks:
            return b""
        start_offset = b"" if version < 5 else bytes(8)
        topic = struct.pack(">h", len(found.topic)) + found.topic
        partition = struct.pack(">iihqq", 1, found.partition, error, offset, -1)
        return b"".join((struct.pack(">ii", correlation, 1), topic, partition, start_offset, bytes(4)))

    def answer(self, api: int, version: int, correlation: int, body: bytes) -> bytes:
        """To all but Produce; `body` begins with the client id. Raises ProtocolError."""
        after_client_id = 2 + max(0, struct.unpack_from(">h", body)[0])
        return LENGTH.pack(correlation) + self.answer_to(api, version, body[after_client_id:])

    def answer_to(self, api: int, version: int, body: bytes) -> bytes:
        """The answer's body. Raises ProtocolError."""
        if api == _API_VERSIONS:
            return self._api_versions(version)
        if (api, version) == (_METADATA, 5):
            return self._metadata(body)
        if api == _INIT_PRODUCER_ID and version <= 1:
            return struct.pack(">ihqh", 0, 0, 1, 0)
        raise ProtocolError

    def _api_versions(self, version: int) -> bytes:
        if version < 3:
            throttle = bytes(4) if version else b""
            rows = b"".join(struct.pack(">hhh", *row) for row in self.spoken)
            return struct.pack(">hi", 0, len(self.spoken)) + rows + throttle
        rows = b"".join(struct.pack(">hhhb", *row, 0) for row in self.spoken)
        return struct.pack(">hB", 0, len(self.spoken) + 1) + rows + bytes(5)

    def _metadata(self, body: bytes) -> bytes:
        (count,) = LENGTH.unpack_from(body)
        names = list(self._topics) if count < 0 else list(strings(body, count))
        host, port = self.address
        parts = [struct.pack(">iii", 0, 1, LEADER), string(host), struct.pack(">ihhi", port, -1, -1, LEADER)]
        parts.append(LENGTH.pack(len(names)))
        for name in names:
            partitions = self._topics.get(name, 1)
            parts += [struct.pack(">h", 0), string(name), struct.pack(">bi", 0, partitions)]
            parts += [
                struct.pack(">hiiiiiii", 0, partition, LEADER, 1, LEADER, 1, LEADER, 0)
                for partition in range(partitions)
            ]
        return b"".join(parts)


def produce_head(request: bytes | bytearray, at: int) -> ProduceHead | None:
    """Of a request whose body begins `at`; None while not enough of it is there. Raises ProtocolError."""
    try:
        for _ in range(2):  # client id, transactional id
            at += 2 + max(0, struct.unpack_from(">h", request, at)[0])
        acks, _, topics, name_bytes = struct.unpack_from(">hiih", request, at)
        name_end = at + 12 + name_bytes
        partitions, partition, records_bytes = struct.unpack_from(">iii", request, name_end)
    except struct.error:
        return None
    if (topics, partitions) != (1, 1):
        raise ProtocolError
    return ProduceHead(acks, bytes(request[at + 12 : name_end]), partition, records_bytes, name_end + 12)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def strings(body: bytes, count: int) -> Iterator[str]:
    at = LENGTH.size
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
def broker_process(module: str, topics: dict[str, int]) -> Iterator[NullBrokerProcess]:
    """A broker whose `module` runs as this one does. topics: name -> number of partitions."""
    command = [sys.executable, "-m", module, json.dumps(topics)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = NullBrokerProcess(process, process.stdout.readline().strip())
        try:
            yield running
        finally:
            rest, _ = process.communicate()
            running.records = int(rest or 0)


def null_broker(topics: dict[str, int]) -> contextlib.AbstractContextManager[NullBrokerProcess]:
    """topics: name -> number of partitions."""
    return broker_process("bench.calibrate.null_broker", topics)


def serve(make: Callable[[dict[str, int]], NullBroker]) -> None:
    """The body of such a process."""
    broker = make(json.loads(sys.argv[1]))
    host, port = broker.address
    sys.stdout.write(f"{host}:{port}\n")
    sys.stdout.flush()
    broker.serve(sys.stdin.fileno())
    sys.stdout.write(f"{broker.records}\n")


if __name__ == "__main__":
    serve(NullBroker)
