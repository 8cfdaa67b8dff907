"""Makes the source of snapshots that the configuration names, and closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from highwater.broker.client.errors import ClientError
from highwater.broker.client.settings import settings_of
from highwater.monitor.config import MonitorConfig
from highwater.monitor.errors import SettingsError
from highwater.monitor.kafka_source.source import KafkaSource


@asynccontextmanager
async def source_of(config: MonitorConfig) -> AsyncIterator[KafkaSource]:
    """Raises SettingsError for client properties that cannot work. A cluster that does not answer is no error here."""
    properties = {"client.id": "highwater-monitor", **config.client, "bootstrap.servers": config.bootstrap_servers}
    try:
        source = KafkaSource(config.shown_name, settings_of(properties), config.tick_s)
    except ClientError as error:
        raise SettingsError(str(error)) from None
    try:
        yield source
    finally:
        await source.close()
