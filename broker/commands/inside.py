"""How the brokers of a cluster on this host reach each other, for commands that come as they do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.broker.server.listeners import endpoints_of
from highwater.broker.server.peer_security import PeerSecurity, inter_broker_listener
from highwater.broker.settings.config import BrokerConfig
from highwater.common.child_process import READY

UNREACHABLE_LINE: Final = re.compile(r"broker (\d+) cannot be reached at (\S+):(\d+) \(listener (\w+)\)")
"""The message of broker/controller/channels.py."""
LOGIN_REFUSED_LINE: Final = re.compile(r"cannot log in to .+")
"""The message of broker/server/peer_refusals.py."""
_LISTENER_LINE: Final = re.compile(r"listener (\w+) at port (\d+)")


@dataclass(frozen=True, slots=True)
class Inside:
    """The inter-broker listener of each running broker, and what a client needs to come in."""

    addresses: Mapping[int, str]
    """host:port by broker id."""
    properties: Mapping[str, str] = field(repr=False)
    """Under librdkafka's names."""

    @property
    def servers(self) -> str:
        return ",".join(self.addresses.values())


def inside_properties(config: BrokerConfig) -> dict[str, str]:
    """Return the trust store, the certificate and the login of the broker. Raises ConfigError."""
    return PeerSecurity(config).client_properties


def inside_address(config: BrokerConfig, log: str) -> str | None:
    """Return host:port of the inter-broker listener; None if `log`, the broker's output, does not say it.

    Raises ConfigError.
    """
    name, _ = inter_broker_listener(config)
    endpoints, advertised = endpoints_of(config)
    ready = [found["address"] for found in READY.finditer(log)]
    if endpoints[0].listener_name == name:
        return ready[-1] if ready else None
    (endpoint,) = (each for each in endpoints if each.listener_name == name)
    told = advertised.get(name, endpoint)
    bound = [port for listener, port in _LISTENER_LINE.findall(log) if listener == name]
    if not bound:
        return None
    host = f"[{told.host}]" if ":" in told.host else told.host
    return f"{host or '127.0.0.1'}:{told.port or bound[-1]}"
