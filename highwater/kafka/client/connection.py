"""One asyncio connection to one broker, with many requests on their way at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.exchange import Arrived, Exchange, UnservedError
from highwater.kafka.client.failures import explained, failure, text_of
from highwater.kafka.client.handshake import HandshakeError, renewal_s
from highwater.kafka.client.request import Request, UnexpectedAnswer
from highwater.kafka.client.settings import Address, ClientSettings
from highwater.kafka.login.credentials import Credential

Answer = TypeVar("Answer")

_READ_BYTES: Final = 256 << 10
_LARGE_ANSWER_BYTES: Final = 128 << 10
"""Another thread reads an answer of this size or more, so that the event loop serves others meanwhile."""


@dataclass(slots=True)
class Traffic:
    """Counters over all connections of a client, since it was made."""

    requests: int = 0
    received_bytes: int = 0
    late_answers: int = 0
    """Answers that came after their time was over; they were dropped."""


class Connection:
    """Made by `connect`. Everything raises ClientError."""

    def __init__(
        self,
        address: Address,
        exchange: Exchange,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        traffic: Traffic,
        settings: ClientSettings,
    ) -> None:
        assert exchange.session is not None
        self._address = address
        self._settings = settings
        self._has_answered = False
        self._exchange = exchange
        self._reader = reader
        self._writer = writer
        self._traffic = traffic
        self._waiting: dict[int, asyncio.Future[Arrived]] = {}
        self._failure: Exception | None = None
        self._expires_s = renewal_s(exchange.session.lifetime_ms, time.monotonic())
        self._task = asyncio.get_running_loop().create_task(self._receive())

    @property
    def is_usable(self) -> bool:
        """Whether it is open, its session does not end soon, and it owes no answer whose time was over."""
        return (
            self._failure is None
            and time.monotonic() < self._expires_s
            and len(self._exchange.pending) == len(self._waiting)
        )

    def serves(self, request: Request[Any]) -> bool:
        assert self._exchange.session is not None
        return request.version_for(self._exchange.session.versions) is not None

    async def ask(self, request: Request[Answer], timeout_s: float) -> Answer:
        """Send a request and return its answer. An answer that comes later than `timeout_s` is dropped."""
        if self._failure is not None:
            raise await self._explained(request, self._failure)
        try:
            correlation_id = self._exchange.ask(request)
        except UnservedError as error:
            raise failure(self._address, request.name, error) from None
        arrives = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = arrives
        self._traffic.requests += 1
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(self._exchange.data_to_send())
                await self._writer.drain()
                arrived = await arrives
            if len(arrived.frame) < _LARGE_ANSWER_BYTES:
                value: Answer = arrived.value()
            else:
                value = await asyncio.to_thread(arrived.value)
            return value
        except TimeoutError:
            raise ClientError(
                f"broker {text_of(self._address)} did not answer {request.name} within {timeout_s:g} s",
                broker=text_of(self._address),
                api=request.name,
            ) from None
        except (OSError, EOFError, UnexpectedAnswer) as error:
            raise await self._explained(request, error) from None
        finally:
            self._waiting.pop(correlation_id, None)

    async def _explained(self, request: Request[Any], error: Exception) -> ClientError:
        if self._has_answered or self._settings.sasl is not None:
            return failure(self._address, request.name, error)
        # A listener that wants a login answers a client without one as far as the versions, and then closes.
        return await asyncio.to_thread(explained, self._address, self._settings, request.name, error)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _receive(self) -> None:
        try:
            while data := await self._reader.read(_READ_BYTES):
                self._traffic.received_bytes += len(data)
                for arrived in self._exchange.received(data):
                    self._has_answered = True
                    arrives = self._waiting.pop(arrived.correlation_id, None)
                    if arrives is None or arrives.done():
                        self._traffic.late_answers += 1
                    else:
                        arrives.set_result(arrived)
            raise EOFError
        except (OSError, EOFError, UnexpectedAnswer) as error:
            self._failure = error
        except asyncio.CancelledError:
            self._failure = EOFError()
        finally:
            for arrives in self._waiting.values():
                if not arrives.done():
                    arrives.set_exception(self._failure or EOFError())
            self._writer.transport.abort()


async def connect(
    address: Address,
    settings: ClientSettings,
    context: ssl.SSLContext | None,
    credential: Credential | None,
    traffic: Traffic,
) -> Connection:
    """Connect and go through the handshake. Raises ClientError."""
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            reader, writer = await asyncio.open_connection(*address, ssl=context)
            try:
                exchange = await _shake_hands(settings.client_id, credential, reader, writer, traffic)
            except BaseException:
                writer.transport.abort()
                raise
    except TimeoutError:
        raise ClientError(
            f"broker {text_of(address)} did not let this client in within {settings.connect_timeout_s:g} s",
            broker=text_of(address),
        ) from None
    except (OSError, EOFError, UnexpectedAnswer, HandshakeError) as error:
        raise await asyncio.to_thread(explained, address, settings, "", error) from None
    return Connection(address, exchange, reader, writer, traffic, settings)


async def _shake_hands(
    client_id: str,
    credential: Credential | None,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    traffic: Traffic,
) -> Exchange:
    exchange = Exchange(client_id, credential)
    while exchange.session is None:
        if request := exchange.data_to_send():
            traffic.requests += 1
            writer.write(request)
            await writer.drain()
        data = await reader.read(_READ_BYTES)
        if not data:
            raise EOFError
        traffic.received_bytes += len(data)
        if credential is None:
            exchange.received(data)
        else:
            await asyncio.to_thread(exchange.received, data)  # hashes, or asks for a token
    return exchange
