"""The network of a lab: a bridge that only its hosts and the machine itself are on. Nothing is forwarded anywhere."""

from __future__ import annotations

from pathlib import Path

from highwater.bench.storage.block_tools import run
from tests.lab.record import Record


def routed() -> list[str]:
    """The subnets that this machine has routes to."""
    return [line.split()[0] for line in run("ip", "-4", "route", "show", "table", "all").splitlines() if line.strip()]


def exists(record: Record) -> bool:
    return Path("/sys/class/net", record.bridge).exists()


def make(record: Record) -> None:
    if not exists(record):
        run("ip", "link", "add", "name", record.bridge, "type", "bridge")
    run("ip", "address", "replace", f"{record.gateway}/24", "dev", record.bridge)
    run("ip", "link", "set", record.bridge, "up")


def remove(record: Record) -> None:
    """With whatever is still plugged into it."""
    for port in sorted(Path("/sys/class/net", record.bridge, "brif").glob("*")):
        if Path("/sys/class/net", port.name).exists():
            run("ip", "link", "delete", port.name)
    if exists(record):
        run("ip", "link", "delete", record.bridge)
