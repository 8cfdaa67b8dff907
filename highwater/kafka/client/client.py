"""A client of a cluster: one connection to each broker, made when it is needed and kept open."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from highwater.kafka.client.connection import Connection, Traffic, connect
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.request import Request
from highwater.kafka.client.security import TlsError, tls_context
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.client.tokens import credential_of
from highwater.kafka.login.credentials import Credential

Answer = TypeVar("Answer")

_SHARE_OF_A_TOKEN: Final = 0.8
"""The share of the time for a connection in which a token server must answer: then a silent one is reported."""


class Client:
    """Belongs to one event loop. Everything raises ClientError."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.traffic = Traffic()
        self._context: ssl.SSLContext | None = None
        self._credential: Credential | None = None
        self._connections: dict[Address, asyncio.Task[Connection]] = {}

    async def ask(self, address: Address, request: Request[Answer], timeout_s: float | None = None) -> Answer:
        """Ask this broker. `timeout_s` begins when it is connected, and is `request_timeout_s` by default."""
        connection = await self._connection(address)
        return await connection.ask(request, self.settings.request_timeout_s if timeout_s is None else timeout_s)

    async def ask_any(
        self, request: Request[Answer], also: Iterable[Address] = (), timeout_s: float | None = None
    ) -> Answer:
        """Return the answer of the first that answers, of the bootstrap servers and the brokers of `also`.

        A refusal of TLS or of a login ends the search: other brokers would refuse too.
        """
        reasons = []
        for address in dict.fromkeys((*self.settings.bootstrap_servers, *also)):
            try:
                return await self.ask(address, request, timeout_s)
            except ClientError as error:
                if error.is_refusal:
                    raise
                reasons.append(error)
        if len(reasons) == 1:
            raise reasons[0]
        raise ClientError("no broker answers: " + "; ".join(map(str, reasons)), api=request.name)

    async def serves(self, address: Address, request: Request[Any]) -> bool:
        """Whether this broker serves a version of the request that this client knows."""
        return (await self._connection(address)).serves(request)

    async def close(self) -> None:
        """Close every connection. The next `ask` makes new ones."""
        opened, self._connections = list(self._connections.values()), {}
        for task in opened:
            task.cancel()
        for made in await asyncio.gather(*opened, return_exceptions=True):
            if isinstance(made, Connection):
                await made.close()

    async def _connection(self, address: Address) -> Connection:
        task = self._connections.get(address)
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            connection = task.result()
            if connection.is_usable:
                return connection
            await connection.close()
            task = None if self._connections.get(address) is task else self._connections.get(address)
        elif task is not None and task.done():
            task = None
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connections[address] = task
        # The connection is for all who wait for it, so it is made even if one of them gives up.
        return await asyncio.shield(task)

    async def _connect(self, address: Address) -> Connection:
        settings = self.settings
        try:
            if settings.tls is not None and self._context is None:
                self._context = tls_context(settings.tls)
            if settings.sasl is not None and self._credential is None:
                self._credential = credential_of(settings.sasl, settings.connect_timeout_s * _SHARE_OF_A_TOKEN)
        except TlsError as error:
            raise ClientError(str(error), is_refusal=True) from None
        return await connect(address, settings, self._context, self._credential, self.traffic)
