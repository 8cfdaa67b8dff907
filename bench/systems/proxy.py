"""A proxy between clients and the one broker of a trial: each connection of a client goes through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from highwater.bench.systems.command_line import words_of
from highwater.bench.systems.process import SystemProcess, listening
from highwater.bench.workload.system import NODE_PORT
from highwater.common.ports import free_ports


class Proxy:
    """The addresses of a proxy and of the broker behind it, from before either is started."""

    def __init__(self, command_line: str) -> None:
        self._command_line = command_line
        self._port, self._node_port, self.target_port = free_ports(3)
        # A proxy with a port for the broker gives clients that port, and connects to what the broker advertises.
        speaks_kafka = NODE_PORT in command_line
        self.advertised = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.target_port if speaks_kafka else self._port}"
        }
        """The setting by which clients come to the proxy, and not past it."""

    def start(self, log_directory: Path, checkpoint: Callable[[], None], within_s: float) -> SystemProcess:
        """Raises what `SystemProcess.await_ready` raises."""
        places = {
            "{port}": str(self._port),
            NODE_PORT: str(self._node_port),
            "{target}": f"127.0.0.1:{self.target_port}",
        }
        command = words_of(self._command_line, places)
        process = SystemProcess("the proxy", command, log_directory / "proxy.log", guard=True)
        try:
            process.await_ready(listening(self._port), checkpoint, within_s)
        except BaseException:
            process.stop()
            raise
        return process
