"""A proxy before the broker: every connection of clients goes through it, and it ends with the system."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from highwater.bench.systems import check_system
from highwater.bench.systems.proxy import Proxy
from highwater.bench.workload.system import HighwaterUnderTest
from highwater.common.errors import UsageError
from tests.bench.systems.test_systems import all_gone, running, serves
from tests.waiting import wait_until

# Counts what it carries, in the file that its last argument names.
PROXY = """
import asyncio, sys

async def carry(reader, writer):
    while piece := await reader.read(65536):
        counts.write(len(piece).to_bytes(4, "big"))
        writer.write(piece)
        await writer.drain()
    writer.close()

async def connected(reader, writer):
    host, port = sys.argv[2].rsplit(":", 1)
    broker_reader, broker_writer = await asyncio.open_connection(host, int(port))
    await asyncio.gather(carry(reader, broker_writer), carry(broker_reader, writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(connected, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

counts = open(sys.argv[3], "wb", buffering=0)
asyncio.run(main())
"""


def through_a_proxy(place: Path) -> dict[str, Any]:
    program = place / "proxy.py"
    program.write_text(PROXY)
    command = f"{shlex.quote(sys.executable)} {program} {{port}} {{target}} {place / 'counts'}"
    return {"through": "counting", "proxies": {"counting": command}}


def carried_bytes(place: Path) -> int:
    counts = (place / "counts").read_bytes()
    return sum(int.from_bytes(counts[at : at + 4], "big") for at in range(0, len(counts), 4))


def check(place: Path, **wanted: Any) -> None:
    with running(place, **wanted, **through_a_proxy(place)) as system:
        serves(system)
        (broker,) = system.nodes
        assert broker.address != system.bootstrap_servers
        assert carried_bytes(place) > 100 * len(b"value")
        proxies = [process.pid for process in psutil.process_iter() if str(place / "proxy.py") in _words(process)]
        assert proxies
        assert not set(proxies) & set(system.process_ids)
    assert all_gone(proxies)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.clients
def test_clients_of_our_broker_go_through_it(tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9", "4"])
def test_clients_of_apache_kafka_go_through_it(tmp_path: Path, version: str) -> None:
    check(tmp_path, kind="apache-kafka", version=version)


@pytest.mark.clients
def test_a_proxy_that_dies_is_a_problem_of_the_system(tmp_path: Path) -> None:
    with running(tmp_path, **through_a_proxy(tmp_path)) as system:
        for process in psutil.process_iter():
            if str(tmp_path / "proxy.py") in _words(process):
                process.kill()
        wait_until(lambda: "the proxy" in (system.problem() or ""), "the problem")


@pytest.mark.parametrize(
    "command", ["no-such-envoy {port} {target}", "env PORT={port} TARGET={target} no-such-envoy -db"]
)
def test_a_program_that_is_not_there_is_named_before_a_start(command: str) -> None:
    wanted = HighwaterUnderTest(through="envoy", proxies={"envoy": command})
    with pytest.raises(UsageError, match=r"system\.proxies\.envoy: no program no-such-envoy here"):
        check_system(wanted)


def test_a_proxy_that_speaks_kafka_gets_a_port_for_the_broker_which_advertises_itself(tmp_path: Path) -> None:
    """Kroxylicious connects to what the broker advertises: with the proxy's address there, it would go to itself."""
    program = tmp_path / "proxy.py"
    program.write_text(PROXY)
    command = f"{shlex.quote(sys.executable)} {program} {{port}} {{target}} {tmp_path / 'counts'} {{node_port}}"
    proxy = Proxy(command)
    assert proxy.advertised == {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.target_port}"}
    process = proxy.start(tmp_path, lambda: None, 30)
    try:
        *_, port, target, _, node_port = process.command
        assert process.address == f"127.0.0.1:{port}"
        assert target == f"127.0.0.1:{proxy.target_port}"
        assert len({int(port), int(node_port), proxy.target_port}) == 3
    finally:
        process.stop()
