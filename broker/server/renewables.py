"""What is read again when its files change: TLS of listeners, of other brokers and of ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from highwater.broker.server.listeners import BoundListener
from highwater.broker.server.peer_security import PeerSecurity
from highwater.broker.server.renewal import Renewable
from highwater.broker.server.tls import Tls, client_context_of, renewed_tls_of, stores_of
from highwater.broker.server.zookeeper import KazooZooKeeper
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.client.zookeeper_security import ZooKeeperSecurityError, security_of

_FILES_OF_ZOOKEEPER = (
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.truststore.location",
    "zookeeper.sasl.jaas.config.file",
)


def of_listeners(
    config: BrokerConfig, listeners: Iterable[BoundListener], peers: PeerSecurity | None
) -> list[Renewable]:
    """Brokers come to each other with the key of the inter-broker listener, which changes with the listener's own."""
    found = []
    for bound in listeners:
        if bound.tls is not None:
            name = bound.listener.name
            own = peers if peers is not None and peers.listener == name and peers.has_tls else None
            read = partial(_read_listener, config, name, bound.tls, own)
            found.append(Renewable(f"listener {name}", stores_of(config, name).files, read))
    return found


def _read_listener(config: BrokerConfig, name: str, tls: Tls, peers: PeerSecurity | None) -> Callable[[], str]:
    renewed = renewed_tls_of(config, name, tls)
    to_peers = None if peers is None else client_context_of(config, name)

    def put_in_force() -> str:
        if peers is not None and to_peers is not None:
            peers.take_over(to_peers)
        return tls.take_over(renewed)

    return put_in_force


def of_zookeeper(config: BrokerConfig, zookeeper: KazooZooKeeper) -> Renewable:
    files = [Path(text) for name in _FILES_OF_ZOOKEEPER if (text := config.string(name))]
    return Renewable("ZooKeeper", files, partial(_read_zookeeper, config, zookeeper))


def _read_zookeeper(config: BrokerConfig, zookeeper: KazooZooKeeper) -> Callable[[], str]:
    try:
        security = security_of(config.value)
    except ZooKeeperSecurityError as error:
        raise ConfigError(str(error)) from None

    def put_in_force() -> str:
        zookeeper.take_over(security)
        return "the next connection uses them"

    return put_in_force
