"""Ports that nobody listens on."""

from __future__ import annotations

import socket


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return TCP ports that nobody listens on just now; somebody else may take them before the caller does."""
    probes = [socket.create_server((host, 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
