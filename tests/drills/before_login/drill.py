"""Runs hostile cases against a broker process, beside an honest client, and judges the broker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import resource
import socket
import ssl
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from joserfc import jwk

from tests.broker.running import RunningBroker
from tests.broker.server.certificates import Authority
from tests.drills.before_login.cases import LISTENERS, SASL, SASL_TLS, USER, Case, End, case_of

MOST_GROWTH_BYTES: Final = 256 << 20
PASSWORD: Final = "of-the-honest-one-7391"  # noqa: S105
TOPIC: Final = "honest"
_AT_ONCE: Final = 8
_MOST_HELD: Final = 200
_CASE_TIMEOUT_S: Final = 5.0
_READ_S: Final = 0.25
_DEADLINE_S: Final = 30
_TOLD_EVERY_S: Final = 60.0
_SIGNS_OF_A_BUG: Final = ("Traceback", "a bug in the broker", "was never retrieved", "Fatal error")

Tell = Callable[[str], None]


class Failed(Exception):  # noqa: N818 - a verdict
    """What the broker may not do."""


@dataclass
class Result:
    cases: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    honest_rounds: int = 0
    slowest_round_s: float = 0.0
    start_bytes: int = 0
    idle_bytes: int = 0
    most_bytes: int = 0
    duration_s: float = 0.0

    def text(self) -> str:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.cases.items()))
        return (
            f"{self.cases.total():,} cases in {self.duration_s:.0f} s ({kinds}); "
            f"the broker closed {self.ends['closed']:,}, left {self.ends['open']:,} open; "
            f"{self.honest_rounds:,} honest logins, the slowest {self.slowest_round_s:.2f} s; "
            f"memory {self.start_bytes >> 20} MiB at the start, {self.idle_bytes >> 20} MiB with idle connections, "
            f"{self.most_bytes >> 20} MiB at most"
        )


def drill(
    directory: Path, seed: int, first: int, most: int | None, ends_s: float, idle: int, tell: Tell = lambda _: None
) -> Result:
    """Run cases from number `first` on until there were `most` or the time is over. Raises Failed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it warns of each connection that the broker closed
    result = Result()
    began_s = time.monotonic()
    with _running(directory) as (broker, ports, ca):
        honest = _Honest(ports, ca)
        honest.round()
        process = psutil.Process(broker.process.pid)
        watch = _Watch(broker, process, result)
        honest.start()
        try:
            asyncio.run(_Attack(ports, seed, result, watch, honest, tell).run(first, most, ends_s, idle))
        finally:
            honest.finish()
        honest.check()
        watch.look()
        result.honest_rounds, result.slowest_round_s = honest.rounds, honest.slowest_s
        if broker.stop() != 0:
            raise Failed("the broker did not stop cleanly")
        watch.look_at_log()
    result.duration_s = time.monotonic() - began_s
    return result


@contextlib.contextmanager
def _running(directory: Path) -> Iterator[tuple[RunningBroker, dict[str, int], Path]]:
    authority = Authority()
    ca = directory / "ca.pem"
    ca.write_text(authority.pem)
    names = ("PLAINTEXT", *LISTENERS)
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    keys = directory / "keys.json"
    key = jwk.ECKey.generate_key("P-256", {"kid": "key"})
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    properties = directory / "server.properties"
    properties.write_text(
        "\n".join(
            (
                "listeners=" + ",".join(f"{name}://127.0.0.1:0" for name in names),
                f"ssl.keystore.location={authority.certify('broker').write_pem(directory / 'broker.pem')}",
                "listener.name.ssl.ssl.client.auth=required",
                f"listener.name.ssl.ssl.truststore.location={ca}",
                "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                f"sasl.oauthbearer.jwks.endpoint.url=file://{keys}",
                "sasl.oauthbearer.expected.audience=brokers",
                f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
                f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}",
                "connection.failed.authentication.delay.ms=1",
            )
        )
    )
    broker = RunningBroker(directory / "log", "--config", str(properties))
    try:
        ports = {}
        for line in broker.log_text().splitlines():
            if "listener " in line and " at port " in line:
                name, _, port = line.rpartition("listener ")[2].partition(" at port ")
                ports[name] = int(port)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['PLAINTEXT']}"})
        change = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
        )
        admin.alter_user_scram_credentials([change])[USER].result(_DEADLINE_S)
        yield broker, ports, ca
    finally:
        broker.kill()


class _Honest(threading.Thread):
    """Logs in anew for each record that it writes; reads all of them at the end."""

    def __init__(self, ports: dict[str, int], ca: Path) -> None:
        super().__init__(name="honest", daemon=True)
        common = {"sasl.username": USER, "sasl.password": PASSWORD, "log.connection.close": False}
        self._confs: list[dict[str, Any]] = [
            {
                "bootstrap.servers": f"127.0.0.1:{ports[SASL_TLS]}",
                "security.protocol": SASL_TLS,
                "sasl.mechanisms": "SCRAM-SHA-256",
                "ssl.ca.location": str(ca),
                **common,
            },
            {
                "bootstrap.servers": f"127.0.0.1:{ports[SASL]}",
                "security.protocol": SASL,
                "sasl.mechanisms": "PLAIN",
                **common,
            },
        ]
        self.rounds = 0
        self.slowest_s = 0.0
        self.failure: str | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.3):
            try:
                self.round()
            except Failed as failure:
                self.failure = str(failure)
                return

    def round(self) -> None:
        began_s = time.monotonic()
        told: list[Any] = []
        producer = Producer(self._confs[self.rounds % 2] | {"acks": "all"})
        producer.produce(TOPIC, str(self.rounds).encode(), on_delivery=lambda error, _: told.append(error))
        left = producer.flush(_DEADLINE_S)
        if left or told != [None]:
            raise Failed(f"the honest client could not write: {told or 'not in time'}")
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        self.rounds += 1

    def finish(self) -> None:
        self._ended.set()
        self.join()

    def check(self) -> None:
        if self.failure is not None:
            raise Failed(self.failure)
        consumer = Consumer(self._confs[0] | {"group.id": "honest", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            found: list[bytes] = []
            give_up_s = time.monotonic() + _DEADLINE_S
            while len(found) < self.rounds and time.monotonic() < give_up_s:
                found += [value for each in consumer.consume(1000, 1) if (value := each.value()) and not each.error()]
        finally:
            consumer.close()
        if found != [str(number).encode() for number in range(self.rounds)]:
            raise Failed(f"the honest client wrote {self.rounds} records and read {len(found)}")


class _Watch:
    def __init__(self, broker: RunningBroker, process: psutil.Process, result: Result) -> None:
        self._broker = broker
        self._process = process
        self._result = result
        self._read_bytes = 0
        result.start_bytes = self.memory_bytes()

    def memory_bytes(self) -> int:
        return int(self._process.memory_info().rss)

    def look(self) -> None:
        if (code := self._broker.process.poll()) is not None:
            raise Failed(f"the broker ended with {code}")
        size = self.memory_bytes()
        self._result.most_bytes = max(self._result.most_bytes, size)
        if size - self._result.start_bytes > MOST_GROWTH_BYTES:
            raise Failed(f"the broker's memory grew from {self._result.start_bytes >> 20} to {size >> 20} MiB")
        self.look_at_log()

    def look_at_log(self) -> None:
        with self._broker.stderr_path.open("rb") as log:
            log.seek(max(0, self._read_bytes - 200))
            data = log.read()
            self._read_bytes = log.tell()
        text = data.decode(errors="replace")
        for sign in (*_SIGNS_OF_A_BUG, PASSWORD):
            if sign in text:
                at = text.index(sign)
                raise Failed(f"the broker's log has: {text[max(0, at - 300) : at + 1500]}")


class _Attack:
    def __init__(
        self, ports: dict[str, int], seed: int, result: Result, watch: _Watch, honest: _Honest, tell: Tell
    ) -> None:
        self._ports = ports
        self._seed = seed
        self._result = result
        self._watch = watch
        self._honest = honest
        self._tell = tell
        self._held: deque[asyncio.StreamWriter] = deque()
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def run(self, first: int, most: int | None, ends_s: float, idle: int) -> None:
        if idle:
            await self._idle(idle)
        numbers = iter(itertools.count(first) if most is None else range(first, first + most))
        workers = [asyncio.create_task(self._work(numbers, ends_s)) for _ in range(_AT_ONCE)]
        told_s = time.monotonic()
        try:
            while not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=1.0)
                self._look()
                if time.monotonic() - told_s > _TOLD_EVERY_S:
                    told_s = time.monotonic()
                    self._tell(f"{self._result.cases.total():,} cases, {self._watch.memory_bytes() >> 20} MiB")
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            while self._held:
                self._held.popleft().transport.abort()

    def _look(self) -> None:
        self._watch.look()
        if self._honest.failure is not None:
            raise Failed(self._honest.failure)

    async def _idle(self, count: int) -> None:
        """Connections that say nothing, a third of them at a listener where a TLS handshake is due."""
        writers = []
        try:
            for number in range(count):
                port = self._ports[LISTENERS[number % len(LISTENERS)]]
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
            rounds = self._honest.rounds
            give_up_s = time.monotonic() + _DEADLINE_S
            while self._honest.rounds < rounds + 2 and time.monotonic() < give_up_s:
                await asyncio.sleep(0.05)
                self._look()
            if self._honest.rounds < rounds + 2:
                raise Failed(f"the honest client was not served beside {count:,} idle connections")
            self._result.idle_bytes = self._watch.memory_bytes()
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _work(self, numbers: Iterator[int], ends_s: float) -> None:
        for number in numbers:
            if time.monotonic() >= ends_s:
                return
            case = case_of(self._seed, number)
            try:
                async with asyncio.timeout(_CASE_TIMEOUT_S):
                    end = await self._play(case)
            except TimeoutError:
                end = "open"
            except (OSError, ssl.SSLError, EOFError):
                end = "closed"
            self._result.cases[case.kind] += 1
            self._result.ends[end] += 1

    async def _play(self, case: Case) -> str:
        has_tls = case.listener != SASL and case.shakes_hands
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._ports[case.listener], ssl=self._tls if has_tls else None
        )
        is_held = False
        try:
            answer = b""
            for piece in case.pieces:
                if callable(piece):
                    answer = await _some(reader) or answer
                    writer.write(piece(answer))
                else:
                    writer.write(piece)
                await writer.drain()
                if case.pause_s:
                    await asyncio.sleep(case.pause_s)
            if case.end is End.HOLD:
                is_held = True
                self._held.append(writer)
                if len(self._held) > _MOST_HELD:
                    self._held.popleft().transport.abort()
                return "held"
            if case.end is End.RESET:
                raw = writer.get_extra_info("socket")
                if raw is None or raw.fileno() < 0:
                    return "closed"
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return "left"
            if case.end is End.CLOSE:
                return "left"
            if case.end is End.HALF and writer.can_write_eof():
                writer.write_eof()
            return await _end_of(reader)
        finally:
            if not is_held:
                writer.transport.abort() if case.end is not End.CLOSE else writer.close()


async def _some(reader: asyncio.StreamReader) -> bytes:
    """The next bytes of the broker, if they come soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_S):
            return await reader.read(65536)
    return b""


async def _end_of(reader: asyncio.StreamReader) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_S):
            while await reader.read(65536):
                continue
            return "closed"
    return "open"
