"""The client for code without an event loop: each call runs until its answer is there."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from highwater.kafka.client.client import Client
from highwater.kafka.client.errors import ClientError, ClientSettingsError
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.client.settings import Address, ClientSettings, settings_of

Answer = TypeVar("Answer")


class BlockingClient:
    """A client for one thread without an event loop. Its connections are closed when nothing refers to it any more.

    Everything raises ClientError.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._client = Client(settings)
        self._loop = asyncio.new_event_loop()
        self.close = weakref.finalize(self, _close, self._client, self._loop)

    def ask(self, address: Address, request: Request[Answer], timeout_s: float | None = None) -> Answer:
        return self._loop.run_until_complete(self._client.ask(address, request, timeout_s))

    def ask_any(self, request: Request[Answer], also: Iterable[Address] = ()) -> Answer:
        """Return the answer of `Client.ask_any`."""
        return self._loop.run_until_complete(self._client.ask_any(request, also))


def why_refused(properties: Mapping[str, Any]) -> str:
    """Return why brokers do not let in a client of these properties of librdkafka, and the setting to change.

    Empty if TLS, the login and the protocol are not why none answers. librdkafka itself goes on trying until its time
    is over, and does not say what is the matter.
    """
    try:
        client = BlockingClient(settings_of({name: str(value) for name, value in properties.items()}))
    except ClientSettingsError:
        return ""  # a property that librdkafka alone knows: nothing can be asked
    try:
        client.ask_any(cold_request("metadata", 4, 12, {"topics": []}, lambda _: None))
    except ClientError as error:
        return str(error) if error.is_refusal else ""
    finally:
        client.close()
    return ""


def _close(client: Client, loop: asyncio.AbstractEventLoop) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _run_to_the_end(client, loop)
    else:
        # A client that is part of a cycle is collected at any time: also while another one waits for an answer.
        closing = threading.Thread(target=_run_to_the_end, args=(client, loop))
        closing.start()
        closing.join()


def _run_to_the_end(client: Client, loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(client.close())
    loop.close()
