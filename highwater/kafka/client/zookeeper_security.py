"""TLS, login and ACLs of a ZooKeeper client, from the properties that Kafka has for it.

`zookeeper.ssl.*` is Kafka's. Kafka has the login in a JAAS file that is an option of its JVM; here two properties hold
the content of such a file, or name it: `zookeeper.sasl.jaas.config` and `zookeeper.sasl.jaas.config.file`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.kafka.client.key_stores import KeyStoreError, KeyStores, choose_versions, load_key, load_trusted
from highwater.kafka.login.jaas import parse_login_text

_PREFIX: Final = "zookeeper."
_SECTION: Final = "Client"
_MODULE: Final = "DigestLoginModule"
_EXAMPLE: Final = f'org.apache.zookeeper.server.auth.{_MODULE} required username="NAME" password="PASSWORD";'
_JAAS: Final = "zookeeper.sasl.jaas.config"
_SOCKETS: Final = {
    "org.apache.zookeeper.ClientCnxnSocketNetty": True,
    "org.apache.zookeeper.ClientCnxnSocketNIO": False,
}
"""ZooKeeper's two clients, and whether each can have TLS. The client here is neither."""
_ONLY_IN_FILES: Final = ("ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.truststore.certificates")
"""Properties that hold PEM text for a listener; ZooKeeper knows stores in files alone."""


PROPERTIES: Final = (
    _JAAS,
    f"{_JAAS}.file",
    "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
)
"""What a client that makes no nodes may set."""


class ZooKeeperSecurityError(ValueError):
    """Settings that cannot be used; the text names the property and the way out."""


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    tls: ssl.SSLContext | None = None
    login: ZooKeeperLogin | None = None
    sets_acls: bool = False
    """Whether nodes are made with Kafka's ACLs, and else open to everybody."""


def security_of(value_of: Callable[[str], Any]) -> ZooKeeperSecurity:
    """Read the properties; `value_of` takes a full name, and returns None if not set. Raises ZooKeeperSecurityError."""
    login = _login_of(value_of)
    has_tls = _is_true(value_of("zookeeper.ssl.client.enable"))
    socket = value_of("zookeeper.clientCnxnSocket")
    if socket and socket not in _SOCKETS:
        raise ZooKeeperSecurityError(
            f"zookeeper.clientCnxnSocket: {socket} is not one of {', '.join(_SOCKETS)}; remove it"
        )
    if has_tls and socket and not _SOCKETS[socket]:
        raise ZooKeeperSecurityError(
            f"zookeeper.clientCnxnSocket: {socket} has no TLS; set org.apache.zookeeper.ClientCnxnSocketNetty"
        )
    sets_acls = _is_true(value_of("zookeeper.set.acl"))
    if sets_acls and login is None and not (has_tls and value_of("zookeeper.ssl.keystore.location")):
        raise ZooKeeperSecurityError(
            "zookeeper.set.acl=true needs to be somebody in ZooKeeper: log in with "
            f"{_JAAS} or {_JAAS}.file, or have a certificate "
            "(zookeeper.ssl.client.enable=true and zookeeper.ssl.keystore.location)"
        )
    return ZooKeeperSecurity(_context_of(value_of) if has_tls else None, login, sets_acls)


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() == "true"


def _context_of(value_of: Callable[[str], Any]) -> ssl.SSLContext:
    def stored(name: str) -> Any:
        if name == "ssl.key.password":  # ZooKeeper has one password for store and key
            name = "ssl.keystore.password"
        if name == "ssl.enabled.protocols":
            enabled = value_of(_PREFIX + name) or value_of(f"{_PREFIX}ssl.protocol") or "TLSv1.2"
            return enabled if isinstance(enabled, list) else [part.strip() for part in str(enabled).split(",")]
        return None if name in _ONLY_IN_FILES else value_of(_PREFIX + name)

    stores = KeyStores(stored, _PREFIX)
    algorithm = value_of(f"{_PREFIX}ssl.endpoint.identification.algorithm")
    checks_host_name = algorithm is None or str(algorithm).strip().upper() == "HTTPS"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host_name
    try:
        choose_versions(context, stores)
        if stores.text("ssl.keystore.location"):
            load_key(context, stores)
        load_trusted(context, stores, ssl.Purpose.SERVER_AUTH)
    except KeyStoreError as error:
        raise ZooKeeperSecurityError(str(error)) from None
    return context


def _login_of(value_of: Callable[[str], Any]) -> ZooKeeperLogin | None:
    text, file = value_of(_JAAS), value_of(f"{_JAAS}.file")
    name = _JAAS
    if text and file:
        raise ZooKeeperSecurityError(f"{_JAAS} and {_JAAS}.file are the same thing; set one of them")
    if file:
        name = f"{_JAAS}.file"
        try:
            text = Path(str(file)).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ZooKeeperSecurityError(f"{name}: cannot read {file}: {reason}") from None
        name = f"{name}: {file}"
    if not text:
        return None
    try:
        entry = parse_login_text(str(text), _SECTION)
    except ValueError as error:
        raise ZooKeeperSecurityError(f"{name}: {error}") from None
    if entry.module != _MODULE:
        raise ZooKeeperSecurityError(f"{name}: {entry.module} is not {_MODULE}: write {_EXAMPLE}")
    user, password = entry.options.get("username"), entry.options.get("password")
    if not user or not password:
        missing = "username" if not user else "password"
        raise ZooKeeperSecurityError(f"{name}: the login has no {missing}: write {_EXAMPLE}")
    return ZooKeeperLogin(user, password)
