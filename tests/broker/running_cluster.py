"""Several real broker processes around a real ZooKeeper, for tests; surely stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.common.ports import free_ports
from tests.broker.running import RunningBroker
from tests.broker.zookeeper_server import Ensemble, running_zookeeper

DEADLINE_S: Final = 60.0


class RunningCluster:
    """Brokers with the ids 1 to `count`; each keeps its port over its lives."""

    def __init__(self, directory: Path, ensemble: Ensemble, count: int, properties: tuple[str, ...]) -> None:
        self.directory = directory
        self.ensemble = ensemble
        self.ports = dict(enumerate(free_ports(count), start=1))
        self.brokers: dict[int, RunningBroker] = {}
        self._properties = properties

    @property
    def connect(self) -> str:
        return f"{self.ensemble.connect}/kafka"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, broker_id: int, *properties: str) -> RunningBroker:
        settings = (
            f"broker.id={broker_id}",
            f"zookeeper.connect={self.connect}",
            "group.initial.rebalance.delay.ms=0",
            *self._properties,
            *properties,
        )
        options = [argument for text in settings for argument in ("--property", text)]
        broker = RunningBroker(self.directory / f"broker-{broker_id}", "--port", str(self.ports[broker_id]), *options)
        self.brokers[broker_id] = broker
        return broker

    def kill(self, broker_id: int) -> None:
        self.brokers.pop(broker_id).kill()

    def log_text(self, broker_id: int) -> str:
        return (self.directory / f"broker-{broker_id}.log").read_text(errors="replace")


@contextmanager
def running_cluster(
    directory: Path, count: int = 3, *, zookeepers: int = 1, properties: tuple[str, ...] = ()
) -> Iterator[RunningCluster]:
    with running_zookeeper(directory, zookeepers) as ensemble:
        cluster = RunningCluster(directory, ensemble, count, properties)
        try:
            for broker_id in cluster.ports:
                cluster.start(broker_id)
            yield cluster
        finally:
            for broker in cluster.brokers.values():
                broker.kill()
