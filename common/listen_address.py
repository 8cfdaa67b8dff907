"""Where a part of Highwater listens: HOST:PORT as people write it, and the socket."""

from __future__ import annotations

import errno
import socket
from typing import Final, NamedTuple

from .errors import UsageError

LOOPBACK: Final = "127.0.0.1"
LAST_PORT: Final = 65_535


class ListenAddress(NamedTuple):
    host: str
    port: int
    """0 for a free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_listen_address(text: str) -> ListenAddress:
    """Parse `HOST:PORT`, `[::1]:PORT`, or `:PORT` and `PORT` on loopback. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > LAST_PORT or (":" in host and not host.startswith("[")):
        raise UsageError(f"{text!r} is not HOST:PORT")
    return ListenAddress(host.strip("[]") if colon and host else LOOPBACK, int(port))


def listening_at(address: ListenAddress, option: str) -> socket.socket:
    """Return a socket that listens. Raises UsageError that names the option."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server(address, family=family)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while ")[0]  # the rest says the address a second time
        way_out = "; name another port, or 0 for a free one" if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"{option} {address}: cannot listen there: {reason}{way_out}") from None
    # Connections inherit it. Without it the second piece of an answer waits 40 ms for the first one.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
