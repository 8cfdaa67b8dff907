"""Runs one broker: starts it, serves its connections, and stops it.

Order of the start: configuration, lock on the directory, metadata, logs (recovered where needed), sockets, ready line.
Order of the stop: no new connections, no new requests, answers that are under way, logs to the disk, the mark of a
clean stop.
In a cluster the start begins with ZooKeeper and ends with the registration; the stop begins with handing over what this
broker leads, and ends with the session.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import uvloop

from highwater.broker.clock import SystemClock
from highwater.broker.features import TRANSACTION_VERSION
from highwater.broker.handlers.dispatch import Dispatcher
from highwater.broker.handlers.shared.reply import TakeRun
from highwater.broker.log.files import FileOperations, RealFiles
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.node import Node
from highwater.broker.quota.rate import WindowedRate
from highwater.broker.runtime import Runtime
from highwater.broker.server import garbage
from highwater.broker.server.acceptor import Acceptor, ConnectionLimits, Limits, OnLost
from highwater.broker.server.cold_reads import ColdReads
from highwater.broker.server.connection import Connection, Dispatch
from highwater.broker.server.ending import DiskFailures, Ending
from highwater.broker.server.flusher import Flusher
from highwater.broker.server.housekeeping import Housekeeping
from highwater.broker.server.listeners import BoundListener, bind, metrics_url
from highwater.broker.server.log_keeper import LogKeeper
from highwater.broker.server.loop_scheduler import LoopScheduler
from highwater.broker.server.opening import Opened, open_alone, open_in_cluster
from highwater.broker.server.renewal import Renewable, Renewal
from highwater.broker.server.start_check import checked, security_of
from highwater.broker.server.strangers import Strangers
from highwater.broker.server.systemd import READY, notify, status
from highwater.broker.server.unpacking import Unpacking
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.storage import Storage
from highwater.broker.turns import Turns
from highwater.common.child_process import report_ready
from highwater.common.compiled import which_runs
from highwater.common.exit_codes import EXIT_NO, EXIT_OK
from highwater.kafka.records.record import TRANSACTIONS_2

if TYPE_CHECKING:
    from highwater.broker.server.faults import FaultPlane
    from highwater.broker.server.membership import Membership
    from highwater.common.http_endpoint import HttpEndpoint

_logger = logging.getLogger(__name__)

IMPORT_AFTER_S: Final = 0.1
FINISH_TIMEOUT_MS: Final = 10_000
"""How long a stopping broker waits for clients to take answers that are under way."""


def run(
    config: BrokerConfig,
    shared: Mapping[str, Sequence[socket.socket]] = MappingProxyType({}),
    metrics: BoundListener | None = None,
    ready_fd: int | None = None,
    faults: FaultPlane | None = None,
) -> int:
    """Run a broker until it is stopped; returns the exit code. Raises one of SETUP_ERRORS when it cannot start.

    `shared` are sockets that other processes accept from too, by listener; `metrics` is where to serve metrics, and not
    where the configuration says; `ready_fd` is for `report_ready`; `faults` makes the broker fail on command.
    """
    started_ns = time.monotonic_ns()
    garbage.wait()
    _allow_many_files()
    for warning in config.warnings:
        _logger.warning("%s", warning)
    paths, endpoints, advertised, metrics_endpoint, audit_path = checked(config)
    files = RealFiles() if faults is None else faults.files
    bound: list[BoundListener] = []
    opened = Opened()
    try:
        # Before the recovery, which may take long, and before anything is written: a taken port should be reported at
        # once and leave nothing behind.
        for endpoint in endpoints:
            listener = bind(endpoint, advertised.get(endpoint.listener_name), config)
            listener.sockets.extend(shared.get(endpoint.listener_name, ()))
            bound.append(listener)
            tls, sasl = security_of(endpoint, config, lambda: opened.store.scram_credentials())
            bound[-1] = listener._replace(tls=tls, sasl=sasl)
        if metrics is None and metrics_endpoint is not None:
            metrics = bind(metrics_endpoint, None, config)
            metrics.listen(config)
        if not config.is_of_a_cluster:
            for listener in bound:
                listener.listen(config)
            open_alone(opened, config, files, paths)
        with _audit_log(audit_path), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            starting = _Broker(config, files, paths, opened, bound, metrics, faults, started_ns, ready_fd)
            return runner.run(starting.run())
    except BaseException:
        for listener in [*bound, *([] if metrics is None else [metrics])]:
            listener.close()
        if opened.has_log_directories:
            opened.log_directories.close(clean=False)
        raise


def _audit_log(path: Path | None) -> AbstractContextManager[None]:
    if path is None:
        return nullcontext()
    from highwater.broker.server.audit_file import written  # here, as few brokers write one

    return written(path)


def _allow_many_files() -> None:
    """Each connection and each open segment takes a descriptor; shells start programs with few, and allow many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Broker:
    def __init__(
        self,
        config: BrokerConfig,
        files: FileOperations,
        paths: list[Path],
        opened: Opened,
        bound: list[BoundListener],
        metrics: BoundListener | None,
        faults: FaultPlane | None,
        started_ns: int,
        ready_fd: int | None,
    ) -> None:
        self._config = config
        self._files = files
        self._paths = paths
        self._opened = opened
        self._bound = bound
        self._metrics = metrics
        self._faults = faults
        self._started_ns = started_ns
        self._ready_fd = ready_fd
        self._is_ready = False
        self._connections: set[Connection] = set()
        self._membership: Membership | None = None

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._ending = Ending(self._loop)
        if not self._config.is_of_a_cluster:
            return await self._serve()
        from highwater.broker.server.membership import (
            Membership,  # here, as a broker alone needs neither it nor its memory
        )

        scheduler = LoopScheduler(self._loop)
        self._membership = Membership(self._config, self._loop, scheduler, SystemClock(), self._on_membership_failure)
        try:
            await open_in_cluster(self._opened, self._config, self._files, self._paths, self._membership)
            return await self._serve()
        finally:
            self._membership.stop_asking()
            await self._membership.leave()

    async def _serve(self) -> int:
        loop = self._loop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.on_signal)
        self._failures = DiskFailures(self._opened.log_directories, self._ending, self._take_offline)
        self._cold_reads = ColdReads(loop, self._files)
        self._unpacking = Unpacking(loop)
        try:
            return await self._serve_clients()
        finally:
            self._cold_reads.close()
            self._unpacking.close()

    async def _serve_clients(self) -> int:
        loop = self._loop
        self._node = self._assembled()
        self._flusher = Flusher(loop, self._failures.of_partition, self._node.counters.log_flush)
        run_in_thread = self._flusher.run_in_thread
        self._log_keeper = LogKeeper(self._node, RealFiles(), run_in_thread, self._failures.of_directory)
        housekeeping = Housekeeping(
            loop, self._node, self._flusher, self._log_keeper, self._failures, self._connections
        )
        self._node.features.when_changed.append(self._features_changed)
        dispatcher = Dispatcher(self._node)
        # What a crash left unflushed is below no high watermark yet: readers must not find less than was acknowledged.
        await housekeeping.flush_what_is_due()
        await self._flusher.idle()
        windows = self._config.integer("quota.window.num"), self._config.integer("quota.window.size.seconds") * 1000
        counters, rate = self._node.counters, WindowedRate(*windows)
        limits = ConnectionLimits(Limits.of(self._config), counters, rate, self._node.quotas.connected)
        self._config.when_changed.append(lambda: limits.change(Limits.of(self._config)))
        acceptors: list[Acceptor] = []
        strangers = Strangers()
        for bound in self._bound:
            for begin in () if bound.sasl is None else bound.sasl.to_begin:
                await asyncio.to_thread(begin)

        def accept() -> None:
            for bound in self._bound:
                make, tls = self._connection_factory(dispatcher, bound, strangers), bound.tls
                refused = partial(strangers.handshake_failed, bound.listener, bound.sasl is not None)
                acceptors.extend(Acceptor(loop, listening, limits, make, tls, refused) for listening in bound.sockets)

        metrics = await self._serve_metrics()
        if self._faults is not None:
            await self._faults.start(self._node, LoopScheduler(loop))
        housekeeping.start()
        garbage.begin()
        renewal = self._begin_renewal()
        importing = loop.create_task(_import_handlers(dispatcher))
        exit_code = await self._until_stopped(accept)
        importing.cancel()
        await renewal.stop()
        for acceptor in acceptors:
            await acceptor.close()
        for bound in self._bound:
            bound.close()
        for endpoint in (metrics, self._faults):
            if endpoint is not None:
                endpoint.close()
        if self._ending.storage_has_failed:
            return EXIT_NO
        housekeeping.stop()
        return max(exit_code, await self._stop_cleanly())

    def _assembled(self) -> Node:
        clock = SystemClock() if self._faults is None else self._faults.clock
        scheduler = LoopScheduler(self._loop)
        runtime = Runtime(
            broker_id=self._opened.broker_id,
            config=self._config,
            clock=clock,
            scheduler=scheduler,
            turns=Turns(clock, scheduler, self._unpacking.run),
        )
        storage = Storage(
            log_directories=self._opened.log_directories,
            request_flush=lambda partition: self._flusher.request(partition),
            storage_failed=self._failures.of_partition,
            request_checkpoint=lambda done: self._log_keeper.request_checkpoint(done),
            run_aside=lambda work, then: self._flusher.run_aside(work, then),
            bring_into_cache=self._cold_reads.bring,
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
            return await self._ending.decided

        def listen() -> None:
            for bound in self._bound:
                bound.listen(self._config)
            accept()

        joining = self._loop.create_task(self._membership.join(self._bound, listen))
        await asyncio.wait((joining, self._ending.decided), return_when=asyncio.FIRST_COMPLETED)
        if joining.done():
            joining.result()
            self._tell_ready()
        joining.cancel()
        exit_code = await self._ending.decided
        if exit_code == EXIT_OK:
            await self._membership.hand_over()
        self._membership.stop_asking()
        return exit_code

    def _connection_factory(
        self, dispatcher: Dispatcher, bound: BoundListener, strangers: Strangers
    ) -> Callable[[OnLost], asyncio.BaseProtocol]:
        max_frame_bytes = self._config.integer("socket.request.max.bytes")
        # Where there is SASL too, that says who the client is.
        principal_of_certificate = bound.tls.principal_of_certificate if bound.tls and not bound.sasl else None

        def make(on_lost: OnLost, dispatch: Dispatch, take_run: TakeRun | None = None) -> Connection:
            def lost(connection: Connection) -> None:
                self._connections.discard(connection)
                on_lost(connection)

            return Connection(
                dispatch,
                bound.listener,
                self._loop,
                strangers=strangers,
                max_frame_bytes=max_frame_bytes,
                take_run=take_run,
                sasl=bound.sasl,
                principal_of_certificate=principal_of_certificate,
                on_made=self._connections.add,
                on_lost=lost,
            )

        faults = self._faults
        if faults is None:
            return lambda on_lost: make(on_lost, dispatcher.dispatch, dispatcher.take_run)
        name = bound.listener.name
        return lambda on_lost: faults.connection(dispatcher.dispatch, name, partial(make, on_lost))

    def _begin_renewal(self) -> Renewal:
        """Begin the renewal of keys and certificates, whose files change while the broker runs."""
        renewables: list[Renewable] = []
        if self._membership is not None:
            renewables = self._membership.renewables(self._bound)
        elif any(bound.tls is not None for bound in self._bound):
            from highwater.broker.server.renewables import of_listeners  # only those with TLS pay for it

            renewables = of_listeners(self._config, self._bound, None)
        renewal = Renewal(renewables)
        renewal.start()
        if renewal.has_any:
            self._config.read_stores_again = renewal.look_now
        return renewal

    async def _serve_metrics(self) -> HttpEndpoint | None:
        if self._metrics is None:
            return None
        # Here, as a broker without a page of metrics needs none of it.
        from highwater.broker.metrics.page import page
        from highwater.broker.server.process_metrics import ProcessMetrics
        from highwater.common.http_endpoint import HttpEndpoint, Page

        process = ProcessMetrics()

        async def render() -> str:
            pieces = []
            for piece in page(self._node):
                pieces.append(piece)
                await asyncio.sleep(0)  # each piece takes little time; others have their turn in between
            if self._membership is not None:
                pieces.append(self._membership.metrics())
            return "".join([*pieces, process.render()])

        names = [each.listener.host for each in (self._metrics, *self._bound)]
        endpoint = HttpEndpoint({"/metrics": Page(render)}, "the metrics are at /metrics", host_names=names)
        await endpoint.start(self._metrics.sockets)
        _logger.info("metrics at %s", metrics_url(self._metrics.listener))
        return endpoint

    def _tell_ready(self) -> None:
        self._is_ready = True
        _logger.info("%s", which_runs())
        for bound in self._bound:
            _logger.info("listener %s at port %d", bound.listener.name, bound.sockets[0].getsockname()[1])
        listener = self._bound[0].listener
        partition_count = sum(1 for _ in self._node.partitions.live())
        duration_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        cluster_id = self._opened.store.cluster_id
        report_ready(listener.host, listener.port, cluster_id, partition_count, duration_ms, self._ready_fd)
        notify(READY, status(f"{partition_count} partitions, listening on {host}:{listener.port}"))

    # Failures

    def _take_offline(self, directory: LogDirectory) -> int:
        count = self._node.partitions.fail_directory(directory)
        if self._membership is not None:
            self._membership.log_directory_failed()
        return count

    def _on_membership_failure(self, reason: str) -> None:
        self._ending.on_membership_failure(reason, is_ready=self._is_ready)

    def _features_changed(self) -> None:
        if self._node.features.level(TRANSACTION_VERSION) < TRANSACTIONS_2:
            for connection in tuple(self._connections):
                connection.end_transactions_2()

    # Stopping

    async def _stop_cleanly(self) -> int:
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
            self._opened.log_directories.close(clean=True, high_watermarks=high_watermarks)
        except OSError as error:
            _logger.critical("cannot flush the logs to the disk: %s; the next start will recover them", error)
            return EXIT_NO
        _logger.info("stopped cleanly")
        return EXIT_OK


async def _import_handlers(dispatcher: Dispatcher) -> None:
    """One at a time, after the first requests: neither a start nor who waits for it needs them."""
    await asyncio.sleep(IMPORT_AFTER_S)
    for _ in dispatcher.import_handlers():
        await asyncio.sleep(0)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
