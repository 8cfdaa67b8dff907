"""Checks what a start needs of the configuration, before anything is begun or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.server.acceptor import Limits
from highwater.broker.server.listeners import ListenError, endpoints_of, metrics_endpoint_of
from highwater.broker.settings.authorization import authorizer_of
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.broker.settings.store import MetadataError

if TYPE_CHECKING:
    from highwater.broker.security.sasl import SaslSettings
    from highwater.broker.server.sasl import ScramCredentials
    from highwater.broker.server.tls import Tls

AUDIT_FILE: Final = "audit.log.file"
SETUP_ERRORS: Final = (ConfigError, LogDirectoryError, MetadataError, ListenError)
"""What a person can mend: one line each."""


def check(config: BrokerConfig) -> None:
    """Raises one of SETUP_ERRORS for what a start refuses of a configuration by itself; touches nothing.

    Files that it names, such as key stores, are read; log directories, ports and ZooKeeper are left to the start.
    """
    endpoints = checked(config).endpoints
    broker_id_of(config)
    if config.is_of_a_cluster:
        from highwater.broker.server.peer_security import PeerSecurity
        from highwater.broker.server.zookeeper import ZooKeeperSettings

        ZooKeeperSettings.of(config)
        PeerSecurity(config)
    for endpoint in endpoints:
        security_of(endpoint, config, dict)


class Checked(NamedTuple):
    paths: list[Path]
    endpoints: list[Endpoint]
    advertised: dict[str, Endpoint]
    metrics_endpoint: Endpoint | None
    audit_file: Path | None


def checked(config: BrokerConfig) -> Checked:
    """What a start needs of the configuration. Raises ConfigError or ListenError."""
    found = Checked(
        log_directory_paths(config), *endpoints_of(config), metrics_endpoint_of(config), audit_file_of(config)
    )
    Limits.of(config)
    authorizer_of(config)
    return found


def security_of(
    endpoint: Endpoint, config: BrokerConfig, scram_credentials: ScramCredentials
) -> tuple[Tls | None, SaslSettings | None]:
    # Both are imported here, as most brokers never need the memory that they take.
    tls = sasl = None
    if endpoint.has_tls:
        from highwater.broker.server.tls import tls_of

        tls = tls_of(config, endpoint.listener_name)
    if endpoint.has_sasl:
        from highwater.broker.server.sasl import sasl_of

        sasl = sasl_of(config, endpoint.listener_name, scram_credentials)
    return tls, sasl


def audit_file_of(config: BrokerConfig) -> Path | None:
    """Raises ConfigError for a file that could not be made."""
    text = (config.string(AUDIT_FILE) or "").strip()
    if not text:
        return None
    path = Path(text)
    if not path.parent.is_dir():
        raise ConfigError(f"{AUDIT_FILE}={text}: there is no directory {path.parent}; make it, or name another file")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{AUDIT_FILE}={text} is not a file; name one")
    return path


def log_directory_paths(config: BrokerConfig) -> list[Path]:
    text = config.string("log.dirs") or config.string("log.dir")
    paths = [Path(part.strip()) for part in (text or "").split(",") if part.strip()]
    if not paths:
        raise ConfigError("no log directory is named: use --log-dir DIR, or log.dirs in the configuration")
    if len({path.absolute() for path in paths}) < len(paths):
        raise ConfigError(f"log.dirs={text}: a directory is named twice")
    return paths


def broker_id_of(config: BrokerConfig) -> int:
    """The id that was set, under either of its names, or −1."""
    broker_id, node_id = config.integer("broker.id"), config.integer("node.id")
    if broker_id >= 0 and node_id >= 0 and broker_id != node_id:
        raise ConfigError(f"broker.id={broker_id} and node.id={node_id} are the same thing; set one of them")
    broker_id = max(broker_id, node_id, -1)
    most = config.integer("reserved.broker.max.id")
    if config.is_of_a_cluster and config.boolean("broker.id.generation.enable") and broker_id > most:
        raise ConfigError(f"broker.id={broker_id}: ids above reserved.broker.max.id={most} are given by ZooKeeper")
    return broker_id
