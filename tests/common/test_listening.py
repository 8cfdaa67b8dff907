"""Connections of an event loop within the rules of a listener: silent ones are cut, others are served."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
import uvloop

from highwater.common.listener_rules import Limits
from highwater.common.listening import Listening, Place

Address = tuple[str, int]


class Echo(asyncio.Protocol):
    """One line is a head; its answer is the line."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\n"):
            self._place.known()
            self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._place.left()


LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


def run(
    limits: Limits,
    scenario: Callable[[Address], Awaitable[None]],
    loops: Sequence[Callable[[], asyncio.AbstractEventLoop]] = LOOPS,
) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            listening = Listening([server], limits, logging.getLogger("listening"), Echo)
            async with asyncio.timeout(60):
                await scenario(server.getsockname()[:2])
            listening.close()
            await listening.wait_closed()

    for loop_factory in loops:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def echoed(address: Address) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"hello\n")
    line = await reader.readline()
    writer.close()
    return line


def test_who_says_nothing_is_cut_and_who_says_it_all_is_not() -> None:
    async def scenario(address: Address) -> None:
        good, good_writer = await asyncio.open_connection(*address)
        good_writer.write(b"hello\n")
        assert await good.readline() == b"hello\n"
        silent, silent_writer = await asyncio.open_connection(*address)
        half, half_writer = await asyncio.open_connection(*address)
        half_writer.write(b"hel")
        assert await silent.read() == await half.read() == b""
        good_writer.write(b"again\n")
        assert await good.readline() == b"again\n"
        for writer in (good_writer, silent_writer, half_writer):
            writer.close()

    run(Limits(10, 10, head_ms=100), scenario)


def test_a_crowd_of_silent_connections_keeps_nobody_out_and_takes_no_descriptors() -> None:
    async def scenario(address: Address) -> None:
        before = open_descriptors()
        crowd = [await asyncio.open_connection(*address) for _ in range(200)]
        assert await echoed(address) == b"hello\n"
        while open_descriptors() - before - len(crowd) > 11:
            await asyncio.sleep(0.01)
        for _, writer in crowd:
            writer.close()

    run(Limits(10, 10, head_ms=3_600_000), scenario)


def test_a_failed_accept_is_few_lines_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([OSError(24, "Too many open files")] * 5)

    class Loop(asyncio.SelectorEventLoop):
        async def sock_accept(self, listening: socket.socket) -> tuple[socket.socket, Address]:
            for failure in failures:
                raise failure
            return await super().sock_accept(listening)

    async def scenario(address: Address) -> None:
        assert await echoed(address) == b"hello\n"

    monkeypatch.setattr("highwater.common.listening.PAUSE_S", 0.01)
    run(Limits(10, 10, head_ms=3_600_000), scenario, [Loop])
    assert next(failures, None) is None
    assert len([each for each in caplog.records if "Too many open files" in each.getMessage()]) == 1
