"""Notifies the service manager that started this process (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

_logger = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_SOCKET: Final = "NOTIFY_SOCKET"


def status(text: str) -> str:
    """What `systemctl status` shows."""
    return f"STATUS={text}"


def more_time(seconds: int) -> str:
    """A start or stop that goes on may take so much longer from now, whatever the unit allows."""
    return f"EXTEND_TIMEOUT_USEC={seconds * 1_000_000}"


def notify(*states: str) -> None:
    """Report to the service manager. One that is not there, or does not listen, is no reason to stop."""
    address = os.environ.get(_SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1)
            sender.sendto("\n".join(states).encode(), address)
    except OSError as error:
        _logger.warning("cannot report %s to the service manager at %s: %s", " ".join(states), address, error)
