"""Opens the log directories and the metadata of a broker, and recovers the logs where that is needed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from highwater.broker.alone.assembly import LoneNode
from highwater.broker.alone.store import FILE_NAME as EMBEDDED_METADATA
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.clock import SystemClock
from highwater.broker.dynamic_settings.following import take_up_broker_settings, usable_topic_settings
from highwater.broker.log.batch_walk import is_walk_native
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError, LogDirectoryFailed
from highwater.broker.log.files import FileOperations
from highwater.broker.log.log_directories import LogDirectories, tell_of_lacking
from highwater.broker.log.log_directory import LogDirectory, known_directories
from highwater.broker.node import Node
from highwater.broker.runtime import Runtime
from highwater.broker.server.process_marker import refuse_directories_of_processes
from highwater.broker.server.start_check import broker_id_of
from highwater.broker.server.systemd import more_time, notify, status
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.settings.store import SettingsStore
from highwater.broker.topics.log_settings import log_config_of, log_configs_of
from highwater.broker.topics.storage import Storage
from highwater.common.listener_rules import descriptors

if TYPE_CHECKING:
    from highwater.broker.server.membership import Membership

_logger = logging.getLogger(__name__)

MOST_RECOVERY_THREADS: Final = 4
RECOVERY_IS_SLOW_MS: Final = 2000
RECOVERY_MAY_PAUSE_S: Final = 1800
"""How long one partition may take before a service manager takes the start for stuck."""


class Opened:
    """What a start has opened so far."""

    broker_id: int
    log_directories: LogDirectories
    store: SettingsStore
    assemble: Callable[[Runtime, Storage], Node]
    """Builds the node on what was opened."""

    @property
    def has_log_directories(self) -> bool:
        return hasattr(self, "log_directories")


def open_alone(opened: Opened, config: BrokerConfig, files: FileOperations, paths: list[Path]) -> None:
    opened.broker_id = max(broker_id_of(config), 0)
    opened.log_directories = open_directories(config, files, paths, opened.broker_id)
    opened.store = store = EmbeddedMetadataStore(files, paths[0], opened.log_directories.all[0].cluster_id)
    take_up_broker_settings(config, opened.broker_id, store)
    log_configs = log_configs_of(config, store.topics())
    defaults = log_config_of(TopicConfig(config, {}))
    opened.log_directories.load(lambda topic: log_configs.get(topic, defaults), _RecoveryProgress(), _threads())
    store.begin_epoch(opened.log_directories.latest_leader_epoch, SystemClock().now_ms())
    opened.assemble = lambda runtime, storage: LoneNode(runtime, store, storage).node


async def open_in_cluster(
    opened: Opened, config: BrokerConfig, files: FileOperations, paths: list[Path], membership: Membership
) -> None:
    opened.store = store = await membership.connect()
    broker_id = broker_id_of(config)
    opened.broker_id = await membership.broker_id(paths) if broker_id < 0 else broker_id
    opened.log_directories = open_directories(config, files, paths, opened.broker_id, store.cluster_id)
    _refuse_lone_directories(opened.log_directories)
    await membership.own(opened.log_directories.home)
    take_up_broker_settings(config, opened.broker_id, store)

    def log_config_of_topic(topic: str) -> LogConfig:
        return log_config_of(TopicConfig(config, usable_topic_settings(topic, store.topic_config(topic))))

    opened.log_directories.load(log_config_of_topic, _RecoveryProgress(), _threads())
    opened.assemble = lambda runtime, storage: membership.assemble(runtime, store, storage)


def _threads() -> int:
    """How many recover large logs. As Python several take no less time than one: each needs the interpreter's lock."""
    return min(len(os.sched_getaffinity(0)), MOST_RECOVERY_THREADS) if is_walk_native() else 1


def _refuse_lone_directories(log_directories: LogDirectories) -> None:
    """A member's directory that was started alone in between: its logs may have what no leader of the cluster wrote.

    Raises LogDirectoryError.
    """
    for directory in log_directories.all:
        if (directory.path / EMBEDDED_METADATA).exists():
            raise LogDirectoryError(
                f"{directory.path} was used by a broker that ran alone ({EMBEDDED_METADATA}), so its logs may differ "
                "from the cluster's; choose an empty directory, to have its replicas copied anew"
            )


def open_directories(
    config: BrokerConfig, files: FileOperations, paths: list[Path], broker_id: int, cluster_id: str | None = None
) -> LogDirectories:
    """Take the lock of each; all belong to this cluster, or to that of the first.

    A member of a cluster (`cluster_id`) goes without those whose disks fail, if one is left.
    """
    refuse_directories_of_processes(files, paths)
    paths = [path.absolute() for path in paths]
    known_by = known_directories(files, paths)
    opened: list[LogDirectory] = []
    lacking: dict[Path, LogDirectoryFailed] = {}
    may_lack_some = cluster_id is not None
    try:
        for path in paths:
            try:
                opened.append(
                    LogDirectory(
                        files,
                        path,
                        log_config_of(TopicConfig(config, {})),
                        broker_id=broker_id,
                        cluster_id=opened[0].cluster_id if opened else cluster_id,
                        known_by=known_by.get(path),
                        clock=SystemClock(),
                        max_open_segments=descriptors().files // len(paths),
                        producer_expiration_ms=config.integer("producer.id.expiration.ms"),
                    )
                )
            except LogDirectoryFailed as error:
                lacking[path] = error
                if not may_lack_some or len(lacking) == len(paths):
                    raise
        # Only now: a start that ended before would have left directories that are known and empty.
        for directory in opened:
            directory.remember(paths)
    except LogDirectoryError:
        for directory in opened:
            directory.close(clean=False)
        raise
    for path, failure in lacking.items():
        tell_of_lacking(path, failure)
    return LogDirectories(opened, list(lacking), may_lack_some=may_lack_some)


class _RecoveryProgress:
    """Reports how far the start is when it takes long."""

    def __init__(self) -> None:
        self._told_ms = _monotonic_ms() + RECOVERY_IS_SLOW_MS - 1000

    def __call__(self, done: int, total: int) -> None:
        now_ms = _monotonic_ms()
        if now_ms - self._told_ms >= 1000 and done < total:
            self._told_ms = now_ms
            _logger.info("loading logs: %d of %d partitions", done, total)
            notify(more_time(RECOVERY_MAY_PAUSE_S), status(f"loading logs: {done} of {total} partitions"))


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
