"""Sends hostile requests to a broker process, one at a time, and measures how long another client waits meanwhile."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, CREATE_TOPICS, Api, api_of
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.running import RunningBroker, running_broker
from tests.drills.bystander.shapes import TOPIC, shapes
from tests.drills.bystander.worst import OPENED, PARTITIONS, PLAIN, worst

IDLE_S: Final = 3.0
"""For how long the bystander is measured with nobody beside it."""
_TRIES: Final = 3
"""A longer stall is measured again, and the shortest counts: another program of the host can stall a client too."""
_ANSWER_S: Final = 180.0
_PAUSE_S: Final = 0.002
_NEVER_SENT: Final = frozenset(("api_versions",))
"""The bystander's own."""


class Failed(Exception):  # noqa: N818 - a verdict
    """What the broker may not do."""


class Stall(NamedTuple):
    """How long the bystander waited for its longest answer during one hostile request."""

    api: str
    version: int
    label: str
    size_bytes: int
    longest_ms: float
    """Without the time in which another program of the host had the processor of the broker's event loop."""
    answer_s: float
    ended: str
    """answered; closed"""
    memory_bytes: int


@dataclass
class Result:
    idle_ms: float = 0.0
    stalls: list[Stall] = field(default_factory=list)

    def of_each_api(self) -> list[Stall]:
        longest: dict[str, Stall] = {}
        for stall in self.stalls:
            if stall.api not in longest or stall.longest_ms > longest[stall.api].longest_ms:
                longest[stall.api] = stall
        return sorted(longest.values(), key=lambda stall: -stall.longest_ms)

    def text(self) -> str:
        rows = [
            f"{len(self.stalls):,} requests; with nobody beside it the bystander waited {self.idle_ms:.1f} ms at most",
            "",
            "| API | version | request | bytes | longest wait of the bystander | answer after | memory |",
            "|---|---|---|---|---|---|---|",
        ]
        rows += [
            f"| {stall.api} | {stall.version} | {stall.label} | {stall.size_bytes:,} | {stall.longest_ms:.1f} ms "
            f"| {stall.answer_s:.2f} s, {stall.ended} | {stall.memory_bytes >> 20} MiB |"
            for stall in self.of_each_api()
        ]
        return "\n".join(rows)


class Request(NamedTuple):
    api: Api
    version: int
    label: str
    body: Callable[[], bytes]


def requests(wanted: str, *, every_version: bool) -> Iterator[Request]:
    """All of them whose API and label contain `wanted`, of a client that may do everything."""
    for api in APIS.values():
        served = [version for version in range(api.max_version + 1) if api.serves(version)]
        for version in served if every_version else sorted({served[0], served[-1]}):
            for shape in shapes(api, version) if api.name not in _NEVER_SENT else ():
                if wanted in f"{api.name} {shape.label}":
                    yield Request(api, version, shape.label, shape.body)
    for each in worst():
        if wanted in f"{api_of(each.key).name} {each.label}":
            yield Request(api_of(each.key), each.version, each.label, lambda body=each.body: body)  # type: ignore[misc]


def denied_requests(wanted: str) -> Iterator[Request]:
    """Requests of the newest versions that name ever other things, of a client that may do nothing."""
    for api in APIS.values():
        for shape in shapes(api, api.max_version) if api.name not in _NEVER_SENT else ():
            label = f"{shape.label}, denied"
            if " distinct " in label and wanted in f"{api.name} {label}":
                yield Request(api, api.max_version, label, shape.body)


def drill(
    directory: Path,
    *,
    wanted: str = "",
    every_version: bool = False,
    bound_ms: float = 50.0,
    tell: Callable[[Stall], None] = lambda _: None,
) -> Result:
    """Send every request. Raises Failed for a broker that ends, hangs or has a bug."""
    result = Result()
    for super_user, sent in (
        ("ANONYMOUS", requests(wanted, every_version=every_version)),
        ("nobody", denied_requests(wanted)),
    ):
        properties = (
            "auto.create.topics.enable=false",
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            f"super.users=User:{super_user}",
        )
        with running_broker(directory / super_user, properties=properties) as broker:
            _create_topics(broker.port)  # Who may do nothing is denied that too.
            with _bystander(broker.port, broker.process.pid) as bystander:
                bystander.longest_ms()
                time.sleep(IDLE_S)
                result.idle_ms = max(result.idle_ms, bystander.longest_ms())
                for request in sent:
                    stall = min((_measured(broker, bystander, request, bound_ms)), key=lambda each: each.longest_ms)
                    result.stalls.append(stall)
                    tell(stall)
            _look_at_log(broker)
            if broker.stop() != 0:
                raise Failed("the broker did not stop cleanly")
    return result


def _measured(broker: RunningBroker, bystander: _Bystander, request: Request, bound_ms: float) -> Iterator[Stall]:
    body = request.body()
    for _ in range(_TRIES):
        bystander.longest_ms()
        began_s = time.monotonic()
        ended = _send(broker.port, request, body)
        answer_s = time.monotonic() - began_s
        longest_ms = bystander.longest_ms()
        if broker.process.poll() is not None:
            raise Failed(f"{request.api.name} {request.version}, {request.label}: the broker ended")
        memory_bytes = psutil.Process(broker.process.pid).memory_info().rss
        yield Stall(
            request.api.name, request.version, request.label, len(body), longest_ms, answer_s, ended, memory_bytes
        )
        if longest_ms <= bound_ms:
            return


def _send(port: int, request: Request, body: bytes) -> str:
    """Send one request and read its answer to the end."""
    tags = b"\0" if request.api.is_flexible(request.version) else b""
    head = struct.pack(">hhih", request.api.key, request.version, 1, 1) + b"x" + tags
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S) as connection:
        try:
            connection.sendall(struct.pack(">i", len(head) + len(body)) + head)
            connection.sendall(body)
            left = 4
            length = b""
            while len(length) < 4:
                if not (piece := connection.recv(4 - len(length))):
                    return "closed"
                length += piece
            (left,) = struct.unpack(">i", length)
            while left:
                if not (piece := connection.recv(min(left, 1 << 20))):
                    return "closed"
                left -= len(piece)
        except TimeoutError:
            raise Failed(f"{request.api.name} {request.version}, {request.label}: no answer") from None
        except ConnectionError:
            return "closed"
    return "answered"


def _create_topics(port: int) -> None:
    topics: dict[str, dict[str, str]] = {TOPIC: {}, PLAIN: {}, **OPENED}
    wanted = [
        {
            "name": name,
            "num_partitions": PARTITIONS,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for name, configs in topics.items()
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S) as connection:
        _ask(
            connection,
            CREATE_TOPICS,
            4,
            cold.encode_request("create_topics", 4, {"topics": wanted, "timeout": 60_000, "validate_only": False}),
        )


def _ask(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 1, -1)
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL)


def _look_at_log(broker: RunningBroker) -> None:
    for sign in ("Traceback", "a bug in the broker", "was never retrieved"):
        if sign in (text := broker.log_text()):
            raise Failed(f"the log of the broker has {sign!r}: {text[text.index(sign) - 200 :][:2000]}")


class _Bystander:
    """A process with one connection, which asks, writes and reads small things, one after the other."""

    def __init__(self, longest: Synchronized[float], rounds: Synchronized[int]) -> None:
        self._longest = longest
        self._rounds = rounds

    def longest_ms(self) -> float:
        """Return the longest wait since the last call, when what it waits for now is there."""
        ends = self._rounds.value + 2
        deadline_s = time.monotonic() + _ANSWER_S
        while self._rounds.value < ends:
            if time.monotonic() > deadline_s:
                raise Failed("the bystander gets no answer")
            time.sleep(_PAUSE_S)
        with self._longest.get_lock():
            longest, self._longest.value = self._longest.value, 0.0
        return longest * 1000


@contextlib.contextmanager
def _bystander(port: int, broker_pid: int) -> Iterator[_Bystander]:
    spawn = multiprocessing.get_context("spawn")
    longest, rounds, ends = spawn.Value("d", 0.0), spawn.Value("l", 0), spawn.Event()
    process = spawn.Process(target=_stand_by, args=(port, broker_pid, longest, rounds, ends), daemon=True)
    process.start()
    try:
        yield _Bystander(longest, rounds)
    finally:
        ends.set()
        process.join(5)
        process.kill()


def _stand_by(port: int, broker_pid: int, longest: Synchronized[float], rounds: Synchronized[int], ends: Event) -> None:
    record = _small_batch()
    produce = b"\xff\xff" + struct.pack(">hii", 1, 1000, 1) + _text(TOPIC) + struct.pack(">iii", 1, 0, len(record))
    fetch = (
        struct.pack(">iiiib", -1, 0, 0, 1, 0) + struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">iiqi", 1, 0, 0, 1)
    )
    asked = ((18, 0, b""), (0, 7, produce + record), (1, 4, fetch))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not ends.is_set():
            for key, version, body in asked:
                began_s = time.perf_counter() - _without_processor_s(broker_pid)
                _ask(connection, key, version, body)
                waited_s = time.perf_counter() - _without_processor_s(broker_pid) - began_s
                with longest.get_lock():
                    longest.value = max(longest.value, waited_s)
            rounds.value += 1
            time.sleep(_PAUSE_S)


def _without_processor_s(pid: int) -> float:
    """Return for how long the main thread of a process could run, but another had the processor."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_bytes().split()[1]) / 1e9


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _small_batch() -> bytes:
    return bytes(encode_batch([Record(b"value", b"key", int(time.time() * 1000))]))
