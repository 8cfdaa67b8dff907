"""A broker of several real processes for tests: its start, its processes, ports in a row."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from tests.broker.running import RunningBroker


def start(log_dir: Path, port: int, processes: int, *properties: str) -> RunningBroker:
    options = [argument for text in properties for argument in ("--property", text)]
    return RunningBroker(log_dir, "--port", str(port), "--processes", str(processes), *options)


def children_of(broker: RunningBroker) -> dict[int, int]:
    """The process ids of the running processes, by their numbers."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == broker.process.pid and fields[0] != "Z":
                pid = int(path.parent.name)
                opened = {str(each.readlink()) for each in (path.parent / "fd").iterdir()}
                found |= {index: pid for index in range(9) if str(_lock(broker.log_dir, index)) in opened}
        except OSError:
            continue
    return found


def _lock(log_dir: Path, index: int) -> Path:
    return log_dir / f"process-{index}" / ".lock"


def free_ports_in_a_row(count: int) -> int:
    """The first of so many: processes listen behind it, over restarts.

    They are below those that the kernel gives to others meanwhile (ip_local_port_range).
    """
    for _ in range(1000):
        first = random.randrange(20_000, 32_000)
        if all(_is_free(first + number) for number in range(count)):
            return first
    raise AssertionError(f"no {count} ports in a row are free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
