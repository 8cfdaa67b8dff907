"""Agents of hosts that do not exist: answers by hand, and servers that give them well and badly."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from highwater.common.host_answer import (
    BrokerProcess,
    Cpu,
    Disk,
    Drift,
    HostAnswer,
    LogDirectory,
    Memory,
    Network,
    Tuning,
)
from highwater.monitor.model import Host, Snapshot

GIB = 1 << 30
DRIFT = Drift("vm.dirty_ratio", "", "10", "20", "somebody changed it since")
TUNING = Tuning("a" * 64, "playbooks", "2026-11-01T00:00:00Z", 23, 2)


def answer(host: str = "h1", *, second: float = 0.0, broker_id: int = 0, tuning: Tuning | None = TUNING) -> HostAnswer:
    """Of a host with two CPUs, one of them busy; its broker sends 100 MB/s, and reads a tenth of that from its disk."""
    sent = int(100e6 * second)
    return HostAnswer(
        host=host,
        boot_id="boot-1",
        at_ms=1_790_000_000_000 + round(1000 * second),
        monotonic_ms=5_000_000 + round(1000 * second),
        kernel="6.1.0",
        version="0.2.0",
        cpu=Cpu(2, 1000 + second, 0.02 * second, 5000 + 2 * second),
        memory=Memory(16 * GIB, 8 * GIB, 6 * GIB, GIB, GIB // 2, 0, GIB, 2 * GIB),
        network=Network(int(50e6 * second), sent, 0),
        cpu_model="A processor",
        pressure_s={"io_some": 0.25 * second},
        disks=(Disk("sda", "hdd", int(10e6 * second), int(50e6 * second), 1, 2, round(400 * second)),),
        directories=(
            LogDirectory("/var/lib/log", broker_id, "", ("sda",), "xfs", 100 * GIB, 60 * GIB, 4 * GIB, 3 * GIB, 0),
        ),
        brokers=(
            BrokerProcess(
                broker_id,
                "",
                77,
                1_789_000_000_000,
                0.5 * second,
                GIB,
                int(10e6 * second),
                int(50e6 * second),
                {
                    "kafka_server_brokertopicmetrics_bytesin_total": 50e6 * second,
                    "kafka_server_brokertopicmetrics_bytesout_total": 60e6 * second,
                    "kafka_server_brokertopicmetrics_replicationbytesout_total": 40e6 * second,
                    "kafka_server_brokertopicmetrics_totalproducerequests_total": 1000 * second,
                },
            ),
        ),
        tuning=tuning,
    )


def with_hosts(snapshots: list[Snapshot], *names: str, tuning: Tuning | None = TUNING) -> list[Snapshot]:
    """Snapshots with a host for each name, each with the broker of its place."""
    made = []
    for each in snapshots:
        second = each.at_ms / 1000
        hosts = {
            name: Host(
                name,
                f"{number}.example.org",
                answer(f"host-{number}", second=second, broker_id=number, tuning=tuning),
                each.taken_at_ms,
                brokers=(number,),
            )
            for number, name in enumerate(names)
        }
        made.append(replace(each, hosts=hosts))
    return made


def with_hostile_host(snapshots: list[Snapshot], name: str) -> list[Snapshot]:
    """All texts that the agent of `name` sends are markup, and one turns the direction of text."""
    bad, turned = "<script>alert(1)</script>", "\u202egnirts"

    def spoilt(host: Host) -> Host:
        given = host.answer
        assert given is not None
        return replace(
            host,
            error=bad,
            answer=replace(
                given,
                host=bad,
                kernel=turned,
                cpu_model=bad,
                runs_in=bad,
                version=bad,
                problems=(bad, turned),
                disks=tuple(replace(disk, name=bad, medium=bad) for disk in given.disks),
                directories=tuple(replace(each, path=bad, file_system=turned) for each in given.directories),
                tuning=Tuning(bad, bad, bad, 1, 0, (Drift(bad, turned, bad, turned, bad),), bad),
            ),
        )

    return [replace(each, hosts={**each.hosts, name: spoilt(each.hosts[name])}) for each in snapshots]


Talk = Callable[[socket.socket], None]


@contextmanager
def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that talks with one client after the other; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                with plain, suppress(OSError):
                    talk(plain if tls is None else tls.wrap_socket(plain, server_side=True))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def says(answer: bytes) -> Talk:
    """Reads a request, and answers with these bytes."""

    def talk(client: socket.socket) -> None:
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            piece = client.recv(4096)
            if not piece:
                return
            request += piece
        client.sendall(answer)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    return talk


def silent(ended: threading.Event) -> Talk:
    """Says nothing until then."""

    def talk(_: socket.socket) -> None:
        ended.wait(60)

    return talk


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body) if length is None else length,
        body,
    )
