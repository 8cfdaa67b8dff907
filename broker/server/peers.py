"""Connections to other brokers: requests out, answers in, on the event loop; with TLS and SASL where there is that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.cluster.peers import Endpoint, Peer
from broker.config import BrokerConfig


class SocketPeers:
    """Implements broker.cluster.peers.Peers."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        """Raises ConfigError for settings of the inter-broker listener that cannot be used."""
        self._loop = loop

    def connect(self, endpoint: Endpoint, client_id: str, on_break: Callable[[], None] | None = None) -> Peer:
        raise NotImplementedError

    def close(self) -> None:
        """Break all connections; nobody is called back any more."""


def inter_broker_listener(config: BrokerConfig) -> str:
    """The name of the listener that brokers reach each other by (KafkaConfig.interBrokerListenerName).

    Raises ConfigError when it is none of the listeners.
    """
    raise NotImplementedError
