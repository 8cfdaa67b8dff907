"""How code below the server sends requests to other brokers (sockets are in broker/server/peers.py)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import api_of
from highwater.kafka.protocol.frame import Parts
from highwater.kafka.protocol.primitives import Decoder

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The names, each at its number (org.apache.kafka.common.security.auth.SecurityProtocol)."""


class Endpoint(NamedTuple):
    """The address of one listener of a broker."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")


class PeerFailure(Enum):
    """Why there is no answer. Except for REFUSED, the request may have been executed."""

    REFUSED = "nothing listens there, or a firewall rejects"
    """No proof of a death: firewalls and wrong addresses refuse in the same way."""
    CLOSED = "the other end closed the connection"
    """An orderly end (FIN), made by the kernel when a process ends. Firewalls reset connections, and close none."""
    DISCONNECTED = "the connection broke or could not be made"
    TIMED_OUT = "no answer in time"


OnBreak = Callable[[PeerFailure], None]


class Peer(Protocol):
    """A connection to one endpoint, opened by the first request and again after a failure; answers come in order."""

    def send(
        self,
        api_key: int,
        version: int,
        body: Parts,
        then: Callable[[memoryview | PeerFailure], None],
        *,
        timeout_ms: int,
    ) -> None:
        """Send a request and call back (never before this returns) with the body of its answer.

        The view is valid until the callback returns. A failure is passed to every pending request.
        """

    def close(self) -> None:
        """Requests under way are called back no more."""


class Peers(Protocol):
    def connect(
        self, endpoint: Endpoint, client_id: str, *, name: str = "a broker", on_break: OnBreak | None = None
    ) -> Peer:
        """A connection of its own, whoever else is connected there. The broker itself is a peer like others.

        The log says `name` of the broker.

        `on_break` is called with the failure (never from within `send` or `close`) when a connection that stood has
        broken, after the requests under way were given it: also while none was, so that a broker whose process ended
        is noticed at once.
        """


def ask(
    peer: Peer,
    api_key: int,
    version: int,
    request: cold.Answer | bytes,
    then: Callable[[Any | PeerFailure], None],
    *,
    timeout_ms: int,
) -> None:
    """Send a request, given by kio's field names or encoded, and call back with the answer, decoded as a cold one."""
    api = api_of(api_key)

    def decode(body: memoryview | PeerFailure) -> None:
        if isinstance(body, PeerFailure):
            then(body)
            return
        decoder = Decoder(body, 0, flexible=api.is_flexible(version))
        then(cold.decode_response(api.name, version, decoder))

    body = request if isinstance(request, bytes) else cold.encode_request(api.name, version, request)
    peer.send(api_key, version, [body], decode, timeout_ms=timeout_ms)
