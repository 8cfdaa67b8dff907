"""A connection that ends is freed at once, with its buffers and those of TLS, and not by the collector."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from highwater.broker.counters import BrokerCounters
from highwater.broker.server.acceptor import Acceptor, ConnectionLimits, Limits, OnLost
from highwater.broker.server.connection import Connection
from highwater.broker.server.strangers import Strangers
from highwater.kafka.protocol.frame import Part
from tests.broker.handlers.harness import LISTENER
from tests.broker.server.certificates import Authority
from tests.waiting import until


class Silent:
    """A dispatcher that lives as long as its connection, of which there can be no weak reference."""

    def dispatch(self, *_: Any) -> list[Part]:
        return []


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("shakes_hands", [False, True])
def test_nothing_waits_for_the_collector(
    tmp_path: Path, has_tls: bool, shakes_hands: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "highwater.broker.server.acceptor")  # what it logs would keep the connection
    context = None
    if has_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Authority().certify("broker").write_pem(tmp_path / "broker.pem"))
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made: list[weakref.ref[Silent]] = []
        live: set[Connection] = set()

        def make(on_lost: OnLost) -> Connection:
            def lost(connection: Connection) -> None:
                live.discard(connection)
                on_lost(connection)

            dispatcher = Silent()
            made.append(weakref.ref(dispatcher))
            return Connection(
                dispatcher.dispatch,
                LISTENER,
                loop,
                strangers=Strangers(),
                max_frame_bytes=1000,
                on_made=live.add,
                on_lost=lost,
            )

        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(5)
            listening.setblocking(False)
            tls = None if context is None else cast(Any, SimpleNamespace(context=context))
            limits = ConnectionLimits(Limits(100, 100, {}), BrokerCounters())
            acceptor = Acceptor(loop, listening, limits, make, tls, lambda peer, error: None)
            for _ in range(3):
                _, writer = await asyncio.open_connection(
                    *listening.getsockname(), ssl=trusting if has_tls and shakes_hands else None
                )
                if shakes_hands:
                    await until(lambda: bool(live))
                    writer.write(b"\0\0\0\1a")
                    await writer.drain()
                writer.transport.abort()
                await until(lambda: not live)
            await until(lambda: len(made) == 3 and not any(each() for each in made))
            await acceptor.close()

    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    finally:
        gc.enable()
