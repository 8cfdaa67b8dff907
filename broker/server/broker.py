"""One running broker: opens the log directory, listens, keeps house, and stops.

Order of the start: configuration, lock on the directory, metadata, logs (recovered where needed), sockets, ready line.
Order of the stop: no new connections, no new requests, answers that are under way, logs to the disk, the mark of a
clean stop.
In a cluster the start begins with ZooKeeper and ends with the registration; the stop begins with handing over what this
broker leads, and ends with the session.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import uvloop

from highwater.broker.alone.assembly import LoneNode
from highwater.broker.alone.store import FILE_NAME as EMBEDDED_METADATA
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.clock import ClockGuard, SystemClock, Timer
from highwater.broker.handlers.dispatch import Dispatcher
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import FileOperations, RealFiles
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.metrics.page import page
from highwater.broker.node import Node
from highwater.broker.quota.rate import WindowedRate
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.server.acceptor import Acceptor, ConnectionLimits, Limits, OnLost
from highwater.broker.server.cleaner import Cleaner
from highwater.broker.server.connection import Connection
from highwater.broker.server.flusher import Flusher
from highwater.broker.server.listeners import (
    BoundListener,
    Endpoint,
    ListenError,
    bind,
    endpoints_of,
    metrics_endpoint_of,
)
from highwater.broker.server.log_keeper import CheckpointDone, LogKeeper, in_slices
from highwater.broker.server.log_mover import LogMover
from highwater.broker.server.metrics_endpoint import MetricsEndpoint, endpoint_url
from highwater.broker.server.process_metrics import ProcessMetrics
from highwater.broker.server.sasl import ScramCredentials, sasl_of
from highwater.broker.server.systemd import READY, STOPPING, more_time, notify, status
from highwater.broker.settings.config import BrokerConfig, ConfigError, TopicConfig
from highwater.broker.settings.dynamic import take_up_broker_settings, usable_topic_settings
from highwater.broker.settings.store import MetadataError, SettingsStore
from highwater.broker.topics.log_settings import log_config_of, log_configs_of
from highwater.broker.topics.storage import Storage

if TYPE_CHECKING:
    from highwater.broker.security.sasl import SaslSettings
    from highwater.broker.server.membership import Membership
    from highwater.broker.server.tls import Tls

_logger = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

SETUP_ERRORS: Final = (ConfigError, LogDirectoryError, MetadataError, ListenError)
"""What a person can mend: one line each."""

HOUSEKEEPING_MS: Final = 250
LAG_INTERVAL_MS: Final = 250
FINISH_TIMEOUT_MS: Final = 10_000
"""How long a stopping broker waits for clients to take answers that are under way."""
SAME_SIGNAL_MS: Final = 1000
"""Wrappers and process groups pass a signal on that the broker has got already."""
RECOVERY_IS_SLOW_MS: Final = 2000
RECOVERY_MAY_PAUSE_S: Final = 1800
"""How long one partition may take before a service manager takes the start for stuck."""
EXPIRE_PRODUCERS_INTERVAL_MS: Final = 600_000
FIRST_RETENTION_CHECK_MS: Final = 30_000


class LoopScheduler:
    """The event loop as the code below the server sees it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self._call_later = loop.call_later

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._call_later(delay_ms / 1000, callback)


def run(config: BrokerConfig) -> int:
    """Run a broker until it is told to stop; the exit code. Raises one of SETUP_ERRORS when it cannot start."""
    started_ns = time.monotonic_ns()
    _allow_many_files()
    for warning in config.warnings:
        _logger.warning("%s", warning)
    paths, endpoints, advertised, metrics_endpoint = _checked(config)
    files = RealFiles()
    bound: list[BoundListener] = []
    metrics: BoundListener | None = None
    opened = _Opened()
    try:
        # Before the recovery, which may take long, and before anything is written: a taken port should be told at once
        # and leave nothing behind.
        for endpoint in endpoints:
            listener = bind(endpoint, advertised.get(endpoint.name), config)
            bound.append(listener)
            tls, sasl = _security_of(endpoint, config, lambda: opened.store.scram_credentials())
            bound[-1] = listener._replace(tls=tls, sasl=sasl)
        if metrics_endpoint is not None:
            metrics = bind(metrics_endpoint, None, config)
            metrics.listen(config)
        if not config.is_of_a_cluster:
            for listener in bound:
                listener.listen(config)
            _open_alone(opened, config, files, paths)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Broker(config, files, paths, opened, bound, metrics, started_ns).run())
    except BaseException:
        for listener in [*bound, *([] if metrics is None else [metrics])]:
            listener.close()
        if opened.has_log_directories:
            opened.log_directories.close(clean=False)
        raise


def check(config: BrokerConfig) -> None:
    """Raises one of SETUP_ERRORS for what a start refuses of a configuration by itself; touches nothing.

    Files that it names, such as key stores, are read; log directories, ports and ZooKeeper are left to the start.
    """
    _, endpoints, _, _ = _checked(config)
    broker_id_of(config)
    if config.is_of_a_cluster:
        from highwater.broker.server.peer_security import PeerSecurity
        from highwater.broker.server.zookeeper import ZooKeeperSettings

        ZooKeeperSettings.of(config)
        PeerSecurity(config)
    for endpoint in endpoints:
        _security_of(endpoint, config, dict)


class _Checked(NamedTuple):
    paths: list[Path]
    endpoints: list[Endpoint]
    advertised: dict[str, Endpoint]
    metrics_endpoint: Endpoint | None


def _checked(config: BrokerConfig) -> _Checked:
    """What a start needs of the configuration, so that a mistake is told before anything is begun."""
    checked = _Checked(log_directory_paths(config), *endpoints_of(config), metrics_endpoint_of(config))
    Limits.of(config)
    return checked


class _Opened:
    """What a start has opened so far."""

    broker_id: int
    log_directories: LogDirectories
    store: SettingsStore
    assemble: Callable[[Runtime, Storage], Node]
    """Builds the node on what was opened."""

    @property
    def has_log_directories(self) -> bool:
        return hasattr(self, "log_directories")


def _open_alone(opened: _Opened, config: BrokerConfig, files: FileOperations, paths: list[Path]) -> None:
    opened.broker_id = max(broker_id_of(config), 0)
    opened.log_directories = _open_directories(config, files, paths, opened.broker_id)
    opened.store = store = EmbeddedMetadataStore(files, paths[0], opened.log_directories.all[0].cluster_id)
    take_up_broker_settings(config, opened.broker_id, store)
    log_configs = log_configs_of(config, store.topics())
    defaults = log_config_of(TopicConfig(config, {}))
    opened.log_directories.load(lambda topic: log_configs.get(topic, defaults), _RecoveryProgress())
    store.begin_epoch(opened.log_directories.latest_leader_epoch)
    opened.assemble = lambda runtime, storage: LoneNode(runtime, store, storage).node


async def _open_in_cluster(
    opened: _Opened, config: BrokerConfig, files: FileOperations, paths: list[Path], membership: Membership
) -> None:
    opened.store = store = await membership.connect()
    broker_id = broker_id_of(config)
    opened.broker_id = await membership.broker_id(paths) if broker_id < 0 else broker_id
    opened.log_directories = _open_directories(config, files, paths, opened.broker_id, store.cluster_id)
    _refuse_lone_directories(opened.log_directories)
    await membership.own(opened.log_directories.home)
    take_up_broker_settings(config, opened.broker_id, store)

    def log_config_of_topic(topic: str) -> LogConfig:
        return log_config_of(TopicConfig(config, usable_topic_settings(topic, store.topic_config(topic))))

    opened.log_directories.load(log_config_of_topic, _RecoveryProgress())
    opened.assemble = lambda runtime, storage: membership.assemble(runtime, store, storage)


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


def _security_of(
    endpoint: Endpoint, config: BrokerConfig, scram_credentials: ScramCredentials
) -> tuple[Tls | None, SaslSettings | None]:
    tls = None
    if endpoint.has_tls:
        from highwater.broker.server.tls import tls_of  # here, as most brokers never need the memory that it takes

        tls = tls_of(config, endpoint.name)
    return tls, sasl_of(config, endpoint.name, scram_credentials) if endpoint.has_sasl else None


def _allow_many_files() -> None:
    """Each connection and each open segment takes a descriptor; shells start programs with few, and allow many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def log_directory_paths(config: BrokerConfig) -> list[Path]:
    text = config.string("log.dirs") or config.string("log.dir")
    paths = [Path(part.strip()) for part in (text or "").split(",") if part.strip()]
    if not paths:
        raise ConfigError("no log directory is named: use --log-dir DIR, or log.dirs in the configuration")
    if len({path.absolute() for path in paths}) < len(paths):
        raise ConfigError(f"log.dirs={text}: a directory is named twice")
    return paths


def _open_directories(
    config: BrokerConfig, files: FileOperations, paths: list[Path], broker_id: int, cluster_id: str | None = None
) -> LogDirectories:
    """Take the lock of each; all belong to this cluster, or to that of the first."""
    opened: list[LogDirectory] = []
    try:
        for path in paths:
            opened.append(
                LogDirectory(
                    files,
                    path,
                    log_config_of(TopicConfig(config, {})),
                    broker_id=broker_id,
                    cluster_id=opened[0].cluster_id if opened else cluster_id,
                    clock=SystemClock(),
                    producer_expiration_ms=config.integer("producer.id.expiration.ms"),
                )
            )
    except LogDirectoryError:
        for directory in opened:
            directory.close(clean=False)
        raise
    return LogDirectories(opened)


def broker_id_of(config: BrokerConfig) -> int:
    """The id that was set, under either of its names, or −1."""
    broker_id, node_id = config.integer("broker.id"), config.integer("node.id")
    if broker_id >= 0 and node_id >= 0 and broker_id != node_id:
        raise ConfigError(f"broker.id={broker_id} and node.id={node_id} are the same thing; set one of them")
    broker_id = max(broker_id, node_id, -1)
    most = config.integer("reserved.broker.max.id")
    if config.is_of_a_cluster and config.boolean("broker.id.generation.enable") and broker_id > most:
        raise ConfigError(f"broker.id={broker_id}: ids above reserved.broker.max.id={most} are given by ZooKeeper")
    return broker_id


class _RecoveryProgress:
    """Tells how far the start is when it takes long."""

    def __init__(self) -> None:
        self._told_ms = _monotonic_ms() + RECOVERY_IS_SLOW_MS - 1000

    def __call__(self, done: int, total: int) -> None:
        now_ms = _monotonic_ms()
        if now_ms - self._told_ms >= 1000 and done < total:
            self._told_ms = now_ms
            _logger.info("loading logs: %d of %d partitions", done, total)
            notify(more_time(RECOVERY_MAY_PAUSE_S), status(f"loading logs: {done} of {total} partitions"))


class _Broker:
    def __init__(
        self,
        config: BrokerConfig,
        files: FileOperations,
        paths: list[Path],
        opened: _Opened,
        bound: list[BoundListener],
        metrics: BoundListener | None,
        started_ns: int,
    ) -> None:
        self._config = config
        self._files = files
        self._paths = paths
        self._opened = opened
        self._bound = bound
        self._metrics = metrics
        self._started_ns = started_ns
        self._stop_asked_ms = 0
        self._is_ready = False
        self._connections: set[Connection] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._storage_has_failed = False
        self._membership: Membership | None = None

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[int] = self._loop.create_future()
        if not self._config.is_of_a_cluster:
            return await self._serve()
        from highwater.broker.server.membership import (
            Membership,  # here, as a broker alone needs neither it nor its memory
        )

        scheduler = LoopScheduler(self._loop)
        self._membership = Membership(self._config, self._loop, scheduler, SystemClock(), self._on_membership_failure)
        try:
            await _open_in_cluster(self._opened, self._config, self._files, self._paths, self._membership)
            return await self._serve()
        finally:
            self._membership.stop_asking()
            await self._membership.leave()

    async def _serve(self) -> int:
        loop = self._loop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._log_directories = self._opened.log_directories
        self._node = self._assembled()
        self._flusher = Flusher(loop, self._on_partition_failure, self._node.counters.log_flush)
        self._log_keeper = LogKeeper(self._node, RealFiles(), self._flusher.run_in_thread, self._on_directory_failure)
        self._clock_guard = ClockGuard(self._node.clock)
        dispatcher = Dispatcher(self._node)
        # What a crash left unflushed is below no high watermark yet: readers must not find less than was acknowledged.
        await self._flush_what_is_due()
        await self._flusher.idle()
        windows = self._config.integer("quota.window.num"), self._config.integer("quota.window.size.seconds") * 1000
        limits = ConnectionLimits(Limits.of(self._config), self._node.counters, WindowedRate(*windows))
        self._config.when_changed.append(lambda: limits.change(Limits.of(self._config)))
        acceptors: list[Acceptor] = []

        def accept() -> None:
            for bound in self._bound:
                make, tls = self._connection_factory(dispatcher, bound), bound.tls and bound.tls.context
                acceptors.extend(Acceptor(loop, listening, limits, make, tls) for listening in bound.sockets)

        metrics = await self._serve_metrics()
        self._start_housekeeping()
        # What exists now lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        exit_code = await self._until_stopped(accept)
        for acceptor in acceptors:
            await acceptor.close()
        for bound in self._bound:
            bound.close()
        if metrics is not None:
            metrics.close()
        if self._storage_has_failed:
            return EXIT_FAILED
        return max(exit_code, await self._stop_cleanly())

    def _assembled(self) -> Node:
        runtime = Runtime(
            broker_id=self._opened.broker_id,
            config=self._config,
            clock=SystemClock(),
            scheduler=LoopScheduler(self._loop),
        )
        storage = Storage(
            log_directories=self._log_directories,
            request_flush=lambda partition: self._flusher.request(partition),
            storage_failed=self._on_partition_failure,
            request_checkpoint=self._request_checkpoint,
        )
        return self._opened.assemble(runtime, storage)

    async def _until_stopped(self, accept: Callable[[], None]) -> int:
        """Come back when the broker is to stop, with its exit code. Connections are taken with `accept`.

        In a cluster that is after the broker has registered, and until then they are refused, as Kafka's are: whoever
        knows it from before goes elsewhere, as it leads nothing yet and knows of nobody.
        """
        if self._membership is None:
            accept()
            self._tell_ready()
            return await self._stop

        def listen() -> None:
            for bound in self._bound:
                bound.listen(self._config)
            accept()

        joining = self._loop.create_task(self._membership.join(self._bound, listen))
        await asyncio.wait((joining, self._stop), return_when=asyncio.FIRST_COMPLETED)
        if joining.done():
            joining.result()
            self._tell_ready()
        joining.cancel()
        exit_code = await self._stop
        if exit_code == EXIT_OK:
            await self._membership.hand_over()
        self._membership.stop_asking()
        return exit_code

    def _connection_factory(self, dispatcher: Dispatcher, bound: BoundListener) -> Callable[[OnLost], Connection]:
        max_frame_bytes = self._config.integer("socket.request.max.bytes")
        # Where there is SASL too, that says who the client is.
        principal_of_certificate = bound.tls.principal_of_certificate if bound.tls and not bound.sasl else None

        def make(on_lost: OnLost) -> Connection:
            def lost(connection: Connection) -> None:
                self._connections.discard(connection)
                on_lost(connection)

            return Connection(
                dispatcher,
                bound.listener,
                self._loop,
                max_frame_bytes=max_frame_bytes,
                sasl=bound.sasl,
                principal_of_certificate=principal_of_certificate,
                on_made=self._connections.add,
                on_lost=lost,
            )

        return make

    async def _serve_metrics(self) -> MetricsEndpoint | None:
        if self._metrics is None:
            return None
        process = ProcessMetrics()

        def render() -> Iterator[str]:
            yield from page(self._node)
            if self._membership is not None:
                yield self._membership.metrics()
            yield process.render()

        endpoint = MetricsEndpoint(render)
        await endpoint.start(self._metrics)
        _logger.info("metrics at %s", endpoint_url(self._metrics.listener))
        return endpoint

    def _tell_ready(self) -> None:
        self._is_ready = True
        for bound in self._bound:
            _logger.info("listener %s at port %d", bound.listener.name, bound.sockets[0].getsockname()[1])
        listener = self._bound[0].listener
        partition_count = sum(1 for _ in self._node.partitions.live())
        duration_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        sys.stdout.write(
            f"ready: listening on {host}:{listener.port} "
            f"(cluster {self._opened.store.cluster_id}, {partition_count} partitions, {duration_ms} ms)\n"
        )
        sys.stdout.flush()
        notify(READY, status(f"{partition_count} partitions, listening on {host}:{listener.port}"))

    # Signals and failures

    def _on_signal(self) -> None:
        now_ms = _monotonic_ms()
        if not self._stop.done():
            _logger.info("stopping")
            notify(STOPPING)
            self._stop_asked_ms = now_ms
            self._stop.set_result(EXIT_OK)
        elif now_ms - self._stop_asked_ms >= SAME_SIGNAL_MS:
            _logger.warning("stopping at once; the next start will recover the logs")
            os._exit(EXIT_FAILED)

    def _on_partition_failure(self, error: OSError, partition: Partition) -> None:
        self._on_directory_failure(error, self._log_directories.of(partition.log))

    def _on_directory_failure(self, error: OSError, directory: LogDirectory) -> None:
        """After a failed sync the page cache may claim what the disk does not have: only a recovery can tell."""
        if directory not in self._log_directories.live:
            return
        count = self._node.partitions.fail_directory(directory)
        if self._membership is not None:
            self._membership.log_directory_failed()
        if self._log_directories.live:
            _logger.critical(
                "the log directory %s failed: %s; its %d partitions are offline until it is mended and the broker "
                "started again",
                directory.path,
                error,
                count,
            )
        else:
            self._on_storage_failure(error)

    def _on_storage_failure(self, error: OSError) -> None:
        paths = ", ".join(str(directory.path) for directory in self._log_directories.all)
        _logger.critical("the log directory %s failed: %s; stopping", paths, error)
        self._storage_has_failed = True
        if not self._stop.done():
            self._stop.set_result(EXIT_FAILED)

    def _on_membership_failure(self, reason: str) -> None:
        _logger.critical("%s; stopping", reason)
        if not self._stop.done():
            self._stop.set_result(EXIT_FAILED if self._is_ready else EXIT_USAGE)

    async def _stop_cleanly(self) -> int:
        for task in self._background:
            task.cancel()
        for connection in self._connections:
            connection.stop_reading()
        self._node.groups.close()
        self._node.transactions.close()
        for partition in self._node.partitions.live():
            for waiter in tuple(partition.fetch_waiters):
                waiter.wake()
        give_up_ms = _monotonic_ms() + FINISH_TIMEOUT_MS
        while any(connection.is_waiting for connection in self._connections) and _monotonic_ms() < give_up_ms:
            await asyncio.sleep(0.01)
        for connection in tuple(self._connections):
            connection.close()
        await self._flusher.close()
        try:
            high_watermarks = None if self._membership is None else self._node.partitions.high_watermarks()
            self._log_directories.close(clean=True, high_watermarks=high_watermarks)
        except OSError as error:
            _logger.critical("cannot bring the logs to the disk: %s; the next start will recover them", error)
            return EXIT_FAILED
        _logger.info("stopped cleanly")
        return EXIT_OK

    # Housekeeping

    def _start_housekeeping(self) -> None:
        config = self._config
        self._every(HOUSEKEEPING_MS, self._flush_what_is_due)
        self._measure_lag(time.monotonic_ns())
        checkpoint_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
            config.integer("replica.high.watermark.checkpoint.interval.ms"),
        )
        self._every(max(checkpoint_ms, HOUSEKEEPING_MS), self._log_keeper.checkpoint)
        retention_ms = config.integer("log.retention.check.interval.ms")
        self._every(retention_ms, self._log_keeper.delete_expired, first_ms=FIRST_RETENTION_CHECK_MS)
        self._every(HOUSEKEEPING_MS, self._log_keeper.remove_deleted)
        mover = LogMover(self._node, self._flusher.run_in_thread, self._on_directory_failure)
        self._every(HOUSEKEEPING_MS, mover.move_what_is_due)
        if config.boolean("log.cleaner.enable"):
            backoff_ms = max(config.integer("log.cleaner.backoff.ms"), HOUSEKEEPING_MS)
            for _ in range(config.integer("log.cleaner.threads")):
                cleaner = Cleaner(self._node, self._flusher.run_in_thread, self._on_directory_failure)
                self._every(backoff_ms, cleaner.clean_what_is_due)
        self._every(EXPIRE_PRODUCERS_INTERVAL_MS, self._expire_producers)
        max_idle_ms = config.integer("connections.max.idle.ms")
        self._every(
            min(max(max_idle_ms // 4, HOUSEKEEPING_MS), 10_000), functools.partial(self._sweep_connections, max_idle_ms)
        )

    def _every(
        self, interval_ms: int, work: Callable[[], Coroutine[None, None, None]], *, first_ms: int | None = None
    ) -> None:
        async def repeat() -> None:
            delay_ms = interval_ms if first_ms is None else min(first_ms, interval_ms)
            while True:
                await asyncio.sleep(delay_ms / 1000)
                delay_ms = interval_ms
                try:
                    await work()
                except OSError as error:
                    self._on_storage_failure(error)
                except Exception:
                    _logger.exception("housekeeping failed for a fault of ours; going on")

        self._background.add(self._loop.create_task(repeat()))

    def _measure_lag(self, due_ns: int) -> None:
        """See how late the loop comes to a timer, and set the next."""
        now_ns = time.monotonic_ns()
        self._node.counters.event_loop_lag.observe(max(now_ns - due_ns, 0))
        due_ns = now_ns + LAG_INTERVAL_MS * 1_000_000
        self._loop.call_later(LAG_INTERVAL_MS / 1000, self._measure_lag, due_ns)

    async def _flush_what_is_due(self) -> None:
        now_ms = self._node.clock.now_ms()
        async for partition in in_slices(self._node.partitions.live()):
            if partition.log.flush_is_due(now_ms):
                self._flusher.request(partition)
        if self._node.partitions.take_purge():
            for directory in self._log_directories.live:
                try:
                    await self._flusher.run_in_thread(directory.purge_deleted)
                except OSError as error:
                    self._on_directory_failure(error, directory)

    def _request_checkpoint(self, done: CheckpointDone) -> None:
        self._log_keeper.request_checkpoint(done)

    async def _expire_producers(self) -> None:
        if self._clock_guard.now_ms() is not None:
            self._log_directories.expire_producers()

    async def _sweep_connections(self, max_idle_ms: int) -> None:
        now_ms = _monotonic_ms()
        for connection in tuple(self._connections):
            connection.sweep(now_ms, max_idle_ms)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
