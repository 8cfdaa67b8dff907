"""Where the monitor listens: HOST:PORT as people write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.common.errors import UsageError

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9644
LAST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Listen:
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    """0 for a free one."""


def listen_of(text: str) -> Listen:
    """Parse `HOST:PORT`, `[::1]:PORT`, `:PORT` or `PORT`. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > LAST_PORT or (":" in host and not host.startswith("[")):
        raise UsageError(f"{text!r} is not HOST:PORT")
    return Listen(host.strip("[]") if colon and host else LOOPBACK, int(port))
