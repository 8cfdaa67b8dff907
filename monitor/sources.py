"""Makes the sources of snapshots that the configuration names, and closes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from highwater.common.errors import UsageError
from highwater.common.nearest import did_you_mean
from highwater.kafka.client.errors import ClientError
from highwater.kafka.client.java_names import as_librdkafka_has_it
from highwater.kafka.client.settings import ClientSettings, settings_of
from highwater.kafka.client.zookeeper_security import (
    PROPERTIES,
    ZooKeeperSecurity,
    ZooKeeperSecurityError,
    security_of,
)
from highwater.monitor.config import MonitorConfig
from highwater.monitor.host_source.source import WithHosts
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import Snapshot, SourceState, ZooKeeper
from highwater.monitor.serving import Source

if TYPE_CHECKING:
    from highwater.monitor.zookeeper.source import ZooKeeperSource


def client_of(config: MonitorConfig) -> ClientSettings:
    """Raises UsageError."""
    try:
        client = as_librdkafka_has_it(config.client)
        return settings_of({"client.id": "highwater-monitor", **client, "bootstrap.servers": config.bootstrap_servers})
    except ClientError as error:
        raise UsageError(str(error)) from None


@asynccontextmanager
async def source_of(config: MonitorConfig) -> AsyncIterator[Source]:
    """Raises UsageError for client properties that cannot work. A cluster that does not answer is no error here."""
    source = KafkaSource(config.shown_name, client_of(config), config.tick_s)
    hosts = WithHosts(source, config.hosts, config.tick_s)
    try:
        yield hosts if config.hosts else source
    finally:
        await hosts.close()
        await source.close()


def zookeeper_of(config: MonitorConfig, stack: ExitStack) -> ZooKeeperSource | None:
    """Started; `stack` stops it. None if the configuration names no ZooKeeper. Raises UsageError."""
    if config.zookeeper is None:
        return None
    from highwater.monitor.zookeeper.source import ZooKeeperSource  # here, as few monitors read one

    source = ZooKeeperSource(config.zookeeper, config.tick_s, _zookeeper_security(config.zookeeper_client))
    stack.callback(source.stop)
    source.start()
    return source


def _zookeeper_security(properties: Mapping[str, str]) -> ZooKeeperSecurity:
    for name in properties:
        if name not in PROPERTIES:
            raise UsageError(f"zookeeper_client: {name} is not one of its properties{did_you_mean(name, PROPERTIES)}")
    try:
        return security_of(properties.get)
    except ZooKeeperSecurityError as error:
        raise UsageError(f"zookeeper_client: {error}") from None


class WithZooKeeper:
    """Adds to each snapshot of a source what ZooKeeper says. It never waits for ZooKeeper."""

    def __init__(self, source: Source, zookeeper: ZooKeeperSource) -> None:
        self._source = source
        self._zookeeper = zookeeper

    async def snapshot(self, number: int) -> Snapshot:
        found = await self._source.snapshot(number)
        return with_zookeeper(found, *self._zookeeper.take())


def with_zookeeper(found: Snapshot, zookeeper: ZooKeeper, state: SourceState) -> Snapshot:
    """The epoch is of the controller that brokers name: while an election goes on, the two may disagree."""
    is_agreed = zookeeper.silent_since_ms is None and zookeeper.controller == found.controller is not None
    epoch = zookeeper.controller_epoch if found.controller_epoch is None and is_agreed else found.controller_epoch
    sources = {**found.sources, state.name: state}
    return replace(found, zookeeper=zookeeper, controller_epoch=epoch, sources=sources)
