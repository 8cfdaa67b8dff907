"""Limits on connections: how they are counted, and a running broker that keeps them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from highwater.broker.counters import BrokerCounters
from highwater.broker.quota.rate import WindowedRate
from highwater.broker.server.acceptor import Acceptor, ConnectionLimits, Limits, parse_overrides
from highwater.broker.settings.config import ConfigError
from tests.broker.handlers.harness import request_frame
from tests.broker.running import COMMAND, RunningBroker, running_broker
from tests.broker.server.certificates import Authority
from tests.waiting import wait_until

API_VERSIONS = request_frame("api_versions", 0)


def is_served(client: socket.socket) -> bool:
    try:
        client.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        return client.recv(1) != b""
    except ConnectionError:
        return False


def connect(broker: RunningBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=60)


def test_counting_by_host() -> None:
    counters = BrokerCounters()
    limits = ConnectionLimits(Limits(100, 2, {"192.0.2.9": 0, "192.0.2.1": 3}), counters)
    assert [limits.admit("192.0.2.1") for _ in range(4)] == [True, True, True, False]
    assert [limits.admit("192.0.2.2") for _ in range(3)] == [True, True, False]
    assert not limits.admit("192.0.2.9")
    limits.release("192.0.2.2")
    assert limits.admit("192.0.2.2")
    assert (counters.connections, counters.connections_made, counters.connections_refused) == (5, 6, 3)


def test_a_full_broker_has_room_again_when_one_leaves() -> None:
    async def scenario() -> None:
        limits = ConnectionLimits(Limits(1, 10, {}), BrokerCounters())
        await limits.room()
        limits.admit("192.0.2.1")
        waiting = asyncio.ensure_future(limits.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        limits.release("192.0.2.1")
        await waiting

    asyncio.run(scenario())


def test_limits_that_change() -> None:
    async def scenario() -> None:
        counters = BrokerCounters()
        limits = ConnectionLimits(Limits(1, 1, {}), counters)
        assert limits.admit("192.0.2.1")
        waiting = asyncio.ensure_future(limits.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        limits.change(Limits(3, 2, {}))
        await waiting
        assert [limits.admit("192.0.2.1") for _ in range(2)] == [True, False]
        limits.change(Limits(1, 2, {}))
        waiting = asyncio.ensure_future(limits.room())
        await asyncio.sleep(0)
        limits.release("192.0.2.1")
        await asyncio.sleep(0)
        assert not waiting.done()
        limits.release("192.0.2.1")
        await waiting

    asyncio.run(scenario())


def test_connections_that_come_too_fast_are_taken_one_by_one() -> None:
    limits = ConnectionLimits(Limits(100, 100, {}, most_per_second=10), BrokerCounters(), WindowedRate(2, 1000))
    assert [limits.pause_ms(0) for _ in range(10)] == [0] * 10
    assert [limits.pause_ms(0) for _ in range(3)] == [100, 200, 300]
    assert limits.pause_ms(3000) == 0
    unlimited = ConnectionLimits(Limits(100, 100, {}), BrokerCounters())
    assert [unlimited.pause_ms(0) for _ in range(1000)] == [0] * 1000


def test_overrides() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides("192.0.2.1:5, [2001:db8::1]:7") == {"192.0.2.1": 5, "2001:db8::1": 7}
    assert parse_overrides("localhost:3")["127.0.0.1"] == 3
    for bad in ("192.0.2.1", "192.0.2.1:", ":5", "192.0.2.1:-1", "192.0.2.1:many"):
        with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
            parse_overrides(bad)


def test_a_handshake_of_tls_that_does_not_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.broker.server.acceptor.HANDSHAKE_TIMEOUT_S", 0.1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Authority().certify("broker").write_pem(tmp_path / "broker.pem"))
    refused: list[Exception] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            limits = ConnectionLimits(Limits(100, 100, {}), BrokerCounters())
            tls = cast(Any, SimpleNamespace(context=context))
            made = cast(Any, lambda _: asyncio.Protocol())
            acceptor = Acceptor(loop, listening, limits, made, tls, lambda _, error: refused.append(error))
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"\x16\x03\x01")  # the beginning of a handshake
            async with asyncio.timeout(60):
                assert await reader.read() == b""
                while not refused:
                    await asyncio.sleep(0.01)
            writer.close()
            await acceptor.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert [isinstance(error, OSError) for error in refused] == [True]


def test_connections_above_the_limit_of_an_address_are_closed(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log", properties=["max.connections.per.ip=3"]) as broker, ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(3)]
        assert all(map(is_served, clients))
        for _ in range(3):
            assert not is_served(stack.enter_context(connect(broker)))
        assert broker.log_text().count("its address has 3, the limit of max.connections.per.ip") == 1
        clients[0].close()
        while not is_served(stack.enter_context(connect(broker))):
            pass


def test_connections_above_the_rate_of_an_address_are_closed_unused(tmp_path: Path) -> None:
    def limit(client: socket.socket, rate: float | None) -> None:
        operation = {"key": "connection_creation_rate", "value": rate or 0.0, "remove": rate is None}
        entry = {"entity": [{"entity_type": "ip", "entity_name": "127.0.0.1"}], "ops": [operation]}
        frame = request_frame("alter_client_quotas", 1, entries=[entry], validate_only=False)
        client.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        client.recv(size, socket.MSG_WAITALL)

    with running_broker(tmp_path / "log") as broker, connect(broker) as first:
        limit(first, 0.0)
        for _ in range(3):
            with connect(broker) as other:
                assert not is_served(other)
        limit(first, None)
        with connect(broker) as other:
            assert is_served(other)


def test_connections_above_the_limit_of_the_broker_wait_their_turn(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log", properties=["max.connections=2"]) as broker, ExitStack() as stack:
        first, second, third = (stack.enter_context(connect(broker)) for _ in range(3))
        assert is_served(first)
        assert is_served(second)
        first.close()
        assert is_served(third)
        assert broker.stop() == 0


def test_more_connections_than_descriptors_leave_the_broker_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.broker.running.COMMAND", ("prlimit", "--nofile=200:200", *COMMAND))
    often = [f"{name}.checkpoint.interval.ms=250" for name in ("log.flush.offset", "replica.high.watermark")]
    checkpoint = tmp_path / "log" / "recovery-point-offset-checkpoint"
    with running_broker(tmp_path / "log", properties=often) as broker, ExitStack() as stack:
        first = stack.enter_context(connect(broker))
        assert is_served(first)
        for _ in range(300):
            with suppress(TimeoutError):  # the queue of the kernel is full for a moment, or for good
                stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=2))
            if "the limit of open files" in broker.log_text():
                break
        # Metadata of a topic that is not there make it.
        frame = request_frame("metadata", 1, topics=[{"name": "orders"}])
        first.sendall(struct.pack(">i", len(frame)) + frame)
        wait_until(lambda: checkpoint.exists() and "orders" in checkpoint.read_text(), "a checkpoint")
        assert is_served(first)
        assert broker.stop() == 0
        assert "Too many open files" not in broker.log_text()


def test_limits_set_while_the_broker_runs_hold_after_a_restart_too(tmp_path: Path) -> None:
    frame = request_frame(
        "incremental_alter_configs",
        1,
        resources=[
            {
                "resource_type": 4,
                "resource_name": "0",
                "configs": [{"name": "max.connections.per.ip", "config_operation": 0, "value": "2"}],
            }
        ],
    )
    for is_first in (True, False):
        with running_broker(tmp_path / "log") as broker, ExitStack() as stack:
            client = stack.enter_context(connect(broker))
            if is_first:
                client.sendall(struct.pack(">i", len(frame)) + frame)
                assert client.recv(1)
            assert is_served(stack.enter_context(connect(broker)))
            assert not is_served(stack.enter_context(connect(broker)))
