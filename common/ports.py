"""Ports that nobody listens on."""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path
from typing import Final

_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 20_000
"""Below, well-known services of a host have their ports."""
_HIGHEST: Final = 65_535


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return TCP ports that nobody listens on just now; somebody else may take them before the caller does.

    They are chosen outside of the range from which the kernel takes ports for outgoing connections and for port 0, so
    that only another caller who chooses by chance can take them.
    """
    candidates = _quiet_ports()
    random.SystemRandom().shuffle(candidates)
    probes: list[socket.socket] = []
    try:
        while len(probes) < count:
            port = candidates.pop() if candidates else 0
            try:
                probes.append(socket.create_server((host, port)))
            except OSError as error:
                if port == 0 or error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _quiet_ports() -> list[int]:
    """Ports outside the kernel's ephemeral range; empty if that range is unknown."""
    try:
        first, last = map(int, _EPHEMERAL.read_text("ascii").split())
    except (OSError, ValueError):
        return []
    return [*range(_LOWEST, min(first, _HIGHEST + 1)), *range(max(_LOWEST, last + 1), _HIGHEST + 1)]
