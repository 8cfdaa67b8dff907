"""The addresses that a broker listens on and advertises: parsing, and bound sockets."""

from __future__ import annotations

import errno
import re
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.cluster.peers import SECURITY_PROTOCOLS, Endpoint
from highwater.broker.handlers.shared.reply import Listener
from highwater.broker.settings.config import BrokerConfig, ConfigError

if TYPE_CHECKING:
    from highwater.broker.security.sasl import SaslSettings
    from highwater.broker.server.tls import Tls

_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_]+)://(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*):(-?\d+)")
_WILDCARDS: Final = ("", "0.0.0.0", "::")


class BoundListener(NamedTuple):
    """A listener with its sockets, one for each address the host name stands for."""

    listener: Listener
    sockets: list[socket.socket]
    tls: Tls | None = None
    sasl: SaslSettings | None = None

    def listen(self, config: BrokerConfig) -> None:
        """Listen: from now on clients that connect wait; until then they are refused. Raises ListenError."""
        for bound in self.sockets:
            try:
                bound.listen(config.integer("socket.listen.backlog.size"))
            except OSError as error:
                host, port = bound.getsockname()[:2]
                raise ListenError(_explain(error, Endpoint(self.listener.name, "", host, port), port)) from None

    def close(self) -> None:
        for bound in self.sockets:
            bound.close()


class ListenError(Exception):
    """An address that cannot be listened on; the text names it and the way out."""


def endpoints_of(config: BrokerConfig) -> tuple[list[Endpoint], dict[str, Endpoint]]:
    """What to listen on, and what to advertise to clients by listener name. Raises ConfigError."""
    endpoints = _parse("listeners", config.string("listeners") or "")
    protocols = _parse_protocol_map(config)
    for position, endpoint in enumerate(endpoints):
        protocol = protocols.get(endpoint.listener_name)
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listeners: {endpoint.listener_name} is "
                + (f"a listener of {protocol}" if protocol else "not in listener.security.protocol.map")
                + f"; the protocols are {', '.join(SECURITY_PROTOCOLS)}"
            )
        endpoints[position] = endpoint._replace(security_protocol=protocol)
    if len({endpoint.listener_name for endpoint in endpoints}) != len(endpoints):
        raise ConfigError("listeners: two listeners have the same name; give each its own")
    told = config.string("advertised.listeners") or ""
    advertised = {entry.listener_name: entry for entry in _parse("advertised.listeners", told)}
    for name, entry in advertised.items():
        if name not in {endpoint.listener_name for endpoint in endpoints}:
            raise ConfigError(f"advertised.listeners: {name} is not one of the listeners")
        if entry.host in _WILDCARDS:
            raise ConfigError("advertised.listeners: name a host that clients can connect to, not every interface")
    return endpoints, advertised


def metrics_url(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"http://{host}:{listener.port}/metrics"


def metrics_endpoint_of(config: BrokerConfig) -> Endpoint | None:
    """Where to serve the metrics, if anywhere. Raises ConfigError."""
    text = config.string("metrics.listener")
    if not text:
        return None
    endpoints = _parse("metrics.listener", text)
    if len(endpoints) != 1 or endpoints[0].listener_name != "HTTP":
        raise ConfigError(f"metrics.listener: {text!r} is not one HTTP endpoint; write it as HTTP://127.0.0.1:9404")
    return endpoints[0]


def _parse(name: str, text: str) -> list[Endpoint]:
    scheme = "HTTP" if name == "metrics.listener" else "PLAINTEXT"
    endpoints = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = _ENDPOINT.fullmatch(item)
        if found is None or not 0 <= int(found[3]) <= 65535:
            raise ConfigError(f"{name}: {item!r} is not an endpoint; write it as {scheme}://host:port")
        endpoints.append(Endpoint(found[1].upper(), "PLAINTEXT", found[2].strip("[]"), int(found[3])))
    if name == "listeners" and not endpoints:
        raise ConfigError("listeners: name at least one, such as PLAINTEXT://127.0.0.1:9092")
    return endpoints


def _parse_protocol_map(config: BrokerConfig) -> dict[str, str]:
    protocols = {}
    for item in (config.string("listener.security.protocol.map") or "").split(","):
        name, separator, protocol = item.partition(":")
        if not separator:
            raise ConfigError(f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def bind(endpoint: Endpoint, advertised: Endpoint | None, config: BrokerConfig) -> BoundListener:
    """Sockets for an endpoint, which do not listen yet. Port 0 takes a free one, the same for every address.

    Raises ListenError, also when somebody else listens there.
    """
    addresses = _resolve(endpoint)
    port = endpoint.port
    sockets: list[socket.socket] = []
    try:
        for family, host in addresses:
            sockets.append(_bind(family, host, port, config))
            port = sockets[0].getsockname()[1]
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise ListenError(_explain(error, endpoint, port)) from None
    if advertised is None:
        host = socket.getfqdn() if endpoint.host in _WILDCARDS else endpoint.host
        advertised = Endpoint(endpoint.listener_name, "", host, port)
    return BoundListener(Listener(endpoint.listener_name, advertised.host, advertised.port or port), sockets)


def _resolve(endpoint: Endpoint) -> list[tuple[socket.AddressFamily, str]]:
    """Every address of the host: clients of `localhost` may try ::1 before 127.0.0.1, or know only one of them."""
    if endpoint.host == "":
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    try:
        # As bytes: for text Python imports what names of other alphabets need.
        host = endpoint.host.encode() if endpoint.host.isascii() else endpoint.host
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ListenError(f"cannot listen on {endpoint.host}: {error.strerror}; name an address of this host") from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _bind(family: socket.AddressFamily, host: str, port: int, config: BrokerConfig) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        # Accepted sockets inherit the buffer sizes; -1 leaves them to the kernel's tuning.
        for name, option in (
            ("socket.receive.buffer.bytes", socket.SO_RCVBUF),
            ("socket.send.buffer.bytes", socket.SO_SNDBUF),
        ):
            if config.integer(name) != -1:
                listener.setsockopt(socket.SOL_SOCKET, option, config.integer(name))
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _explain(error: OSError, endpoint: Endpoint, port: int) -> str:
    where = f"{endpoint.host or '*'}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken ({where}): stop what listens there, or name another with --port (0: a free one)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"not allowed to listen on {where}: choose a port from 1024 on with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {where}: {endpoint.host} is not an address of this host; name one with --host"
    return f"cannot listen on {where}: {error.strerror}"
