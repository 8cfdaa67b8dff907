"""A real ZooKeeper for tests, alone or as an ensemble: killed, paused and started again at will, and surely stopped."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.broker.commands.zookeeper_process import (
    ZooKeeperNode,
    command,
    mode,
    plan_ensemble,
    write_files,
)
from highwater.common.ports import free_ports
from tests.waiting import wait_until

START_DEADLINE_S: Final = 60.0


class ZooKeeperServer:
    """One server of an ensemble; its log goes to zookeeper.log in its directory."""

    def __init__(self, node: ZooKeeperNode) -> None:
        self.node = node
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it run again; it serves a little later."""
        with (self.node.directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                command(self.node), stdout=log, stderr=subprocess.STDOUT, cwd=self.node.directory
            )

    def wait_until_it_serves(self) -> None:
        log = self.node.directory / "zookeeper.log"

        def serves() -> bool:
            assert self._process is not None, "not started"
            assert self._process.poll() is None, f"ZooKeeper does not start: {log.read_text()[-2000:]}"
            return mode(self.node) is not None

        wait_until(serves, lambda: f"ZooKeeper's start: {log.read_text()[-2000:]}", START_DEADLINE_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_leader(self) -> bool:
        return mode(self.node) == "leader"


class Ensemble:
    def __init__(self, servers: list[ZooKeeperServer]) -> None:
        self.servers = servers

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return ",".join(server.node.address for server in self.servers)

    def restart(self) -> None:
        """Kill every server, and come back when all serve again."""
        for server in self.servers:
            server.kill()
        self.start()

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_until_it_serves()


@contextmanager
def running_zookeeper(directory: Path, count: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[Ensemble]:
    """An ensemble of so many servers for the time of a with statement; `settings` go into its zoo.cfg."""
    nodes = plan_ensemble(directory, free_ports(3 * count))
    write_files(nodes, settings)
    ensemble = Ensemble([ZooKeeperServer(node) for node in nodes])
    try:
        ensemble.start()
        yield ensemble
    finally:
        for server in ensemble.servers:
            server.kill()
