"""The name of a Spark master, and a mistake in it found early: Spark says it late, in thirty lines."""

from __future__ import annotations

import re
from typing import Final

from .command_errors import fail

_MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+|spark://[^,]+:\d+(,[^,]+:\d+)*"
)
_STANDALONE: Final = "spark://"
_CONNECT_TIMEOUT_S: Final = 5


def is_in_one_process(master: str) -> bool:
    """Whether the executor is the driver, so that nothing has to be sent to it."""
    return master == "local" or master.startswith("local[")


def standalone_addresses(master: str) -> list[str]:
    """HOST:PORT of each standalone master that it names; none for another kind of master."""
    return master.removeprefix(_STANDALONE).split(",") if master.startswith(_STANDALONE) else []


def checked_master(master: str | None) -> str | None:
    """Callback of an option --master: end the command with one line if this names no Spark master."""
    if master and (fault := _fault_of_name(master)):
        fail(fault)
    return master


def _fault_of_name(master: str) -> str | None:
    if _MASTER.fullmatch(master):
        return None
    return f"{master!r} is not a Spark master: use local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"


def master_fault(master: str) -> str | None:
    """One line if this is no master, or a standalone master of which no address answers; None otherwise."""
    # Imported here: each command with an option --master imports this module, also to print its help.
    import socket

    if fault := _fault_of_name(master):
        return fault
    faults = []
    for address in standalone_addresses(master):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:  # UnicodeError: an empty or too long part of the host's name
            faults.append(getattr(error, "strerror", None) or str(error))
        else:
            return None
    return f"the Spark master {master} does not answer: {faults[0]}" if faults else None
