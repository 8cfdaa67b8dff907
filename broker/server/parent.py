"""Runs a broker of several processes: starts, restarts and stops them, and keeps their metadata.

Order of the start: configuration, sockets, locks, journal, processes, ready line. Order of the stop: the processes, the
controller among them last, the tree, the locks. A process that cannot start stops the first start of all; later it is
tried again, with pauses that double.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from highwater.broker.clock import SystemClock
from highwater.broker.cluster import znodes
from highwater.broker.cluster.peers import Endpoint
from highwater.broker.log.files import RealFiles
from highwater.broker.metrics.merged_page import merged
from highwater.broker.server.child import REFUSED
from highwater.broker.server.ending import Ending
from highwater.broker.server.listeners import BoundListener, bind, metrics_url
from highwater.broker.server.process_home import ProcessHome
from highwater.broker.server.process_plan import ProcessPlan
from highwater.broker.server.systemd import READY, more_time, notify, status
from highwater.broker.server.tree_server import TreeServer
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.broker.settings.store import MetadataError
from highwater.common import child_process
from highwater.common.exit_codes import EXIT_NO, EXIT_OK
from highwater.common.http_endpoint import HttpEndpoint, Page

_logger = logging.getLogger(__name__)

_PACKAGES: Final = str(Path(__file__).parents[3])
_LEAST_PAUSE_S: Final = 0.2
_MOST_PAUSE_S: Final = 10.0
_HEALTHY_S: Final = 60.0
"""A process that lived so long starts again at once when it dies."""
_STOP_WITHIN_S: Final = 60.0
_PAGE_WITHIN_S: Final = 5.0
_START_MAY_TAKE_S: Final = 1800


def run(settings: Sequence[Setting], ready_fd: int | None = None) -> int:
    """Run until stopped; returns the exit code. Raises one of SETUP_ERRORS when it cannot start.

    `ready_fd` is for `report_ready`.
    """
    started_ns = time.monotonic_ns()
    plan = ProcessPlan.of(settings)
    config = BrokerConfig(plan.settings)
    bound: list[BoundListener] = []
    metrics: BoundListener | None = None
    home: ProcessHome | None = None
    try:
        bound.extend(bind(endpoint, plan.advertised.get(endpoint.listener_name), config) for endpoint in plan.endpoints)
        if plan.metrics_endpoint is not None:
            metrics = bind(plan.metrics_endpoint, None, config)
        home = ProcessHome(RealFiles(), plan.paths, plan.base_id)
        plan = plan.counted(home.count_before)
        for index in range(plan.process_count):
            for endpoint in plan.endpoints_of(index):
                bind(endpoint, None, config).close()  # a port that is taken is reported before anything is written
        home.open_journal(plan.process_count, plan.scram_login)
        for listener in [*bound, *([] if metrics is None else [metrics])]:
            listener.listen(config)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Parent(plan, home, bound, metrics, started_ns, ready_fd).run())
    finally:
        for listener in [*bound, *([] if metrics is None else [metrics])]:
            listener.close()
        if home is not None:
            home.close()


class _Child:
    """One process, over its restarts."""

    def __init__(self, index: int, tree: str, metrics: socket.socket | None) -> None:
        self.index = index
        self.tree = tree
        """The address of the tree's socket for this process."""
        self.metrics = metrics
        """Where the process serves its metrics, for the parent alone."""
        self.process: asyncio.subprocess.Process | None = None
        self.is_ready = False
        self.cluster_id = ""
        self.partition_count = 0
        self.refusal = ""
        """Why its last start failed, in its own words."""
        self.restarts = 0
        self.pause_s = 0.0

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)


class _Parent:
    def __init__(
        self,
        plan: ProcessPlan,
        home: ProcessHome,
        bound: Sequence[BoundListener],
        metrics: BoundListener | None,
        started_ns: int,
        ready_fd: int | None,
    ) -> None:
        self._plan = plan
        self._home = home
        self._bound = bound
        self._metrics = metrics
        self._started_ns = started_ns
        self._ready_fd = ready_fd
        self._children: list[_Child] = []
        self._is_ready = False
        self._first_refusal = ""

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._ending = Ending(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.on_signal)
        self._tree = TreeServer(loop, self._home.journal, SystemClock(), self._on_tree_failure)
        self._tree.serving.end_all_sessions()  # their processes ended with the last parent
        self._tree.start()
        for index in range(self._plan.process_count):
            self._children.append(_Child(index, await self._tree.listen(index), self._metrics_socket()))
        notify(more_time(_START_MAY_TAKE_S))
        keeping = [loop.create_task(self._keep(child)) for child in self._children]
        endpoint = await self._serve_metrics()
        exit_code = await self._ending.decided
        if endpoint is not None:
            endpoint.close()
        exit_code = max(exit_code, await self._stop(keeping))
        await self._tree.stop()
        for child in self._children:
            if child.metrics is not None:
                child.metrics.close()
        if self._first_refusal and not self._is_ready:
            raise MetadataError(self._first_refusal)
        if exit_code == EXIT_OK:
            _logger.info("stopped cleanly")
        return exit_code

    def _on_tree_failure(self, reason: str) -> None:
        self._ending.on_membership_failure(reason, is_ready=True)

    # Processes

    async def _keep(self, child: _Child) -> None:
        """Have it run until the end."""
        while not self._ending.decided.done():
            began_s = time.monotonic()
            exit_code = await self._run_once(child)
            self._tree.serving.end_sessions_of(child.index)
            if self._ending.decided.done():
                return
            if not self._is_ready:
                self._first_refusal = self._refusal(child, exit_code)
                self._ending.decided.set_result(EXIT_NO)
                return
            is_healthy = time.monotonic() - began_s >= _HEALTHY_S
            child.pause_s = 0.0 if is_healthy else min(max(2 * child.pause_s, _LEAST_PAUSE_S), _MOST_PAUSE_S)
            _logger.error("%s; starting it again in %.1f s", self._refusal(child, exit_code), child.pause_s)
            child.restarts += 1
            await asyncio.sleep(child.pause_s)

    def _refusal(self, child: _Child, exit_code: int) -> str:
        if child.refusal:
            return f"process {child.index} cannot start: {child.refusal}"
        return f"process {child.index} {child_process.how_it_ended(exit_code)}"

    async def _run_once(self, child: _Child) -> int:
        child.is_ready, child.refusal = False, ""
        shared = {entry.listener.name: [each.fileno() for each in entry.sockets] for entry in self._bound}
        metrics = None if child.metrics is None else child.metrics.fileno()
        descriptors = [descriptor for each in shared.values() for descriptor in each]
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        child.process = process = await asyncio.create_subprocess_exec(
            *child_process.program("highwater.broker.server.child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[*descriptors, *([] if metrics is None else [metrics])],
            # Ctrl-C is for the parent alone, which stops the processes in their order.
            start_new_session=True,
            env={**environment, "PYTHONPATH": _PACKAGES},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        order = {
            "index": child.index,
            "parent": os.getpid(),
            "log_level": logging.getLogger().getEffectiveLevel(),
            "settings": self._plan.settings_of(child.index, child.tree),
            "shared": shared,
            "metrics": metrics,
        }
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        if self._ending.decided.done():
            child.send(signal.SIGTERM)
        while line := await process.stdout.readline():
            self._on_line(child, line.decode(errors="replace").rstrip("\n"))
        child.is_ready = False
        return await process.wait()

    def _on_line(self, child: _Child, line: str) -> None:
        if line.startswith(REFUSED):
            child.refusal = line.removeprefix(REFUSED)
        elif (ready := child_process.READY.fullmatch(line)) is not None:
            _logger.info("process %d is ready at %s", child.index, ready["address"])
            child.is_ready, child.cluster_id = True, ready["cluster_id"]
            child.partition_count = int(ready["partitions"])
            if not self._is_ready and all(each.is_ready for each in self._children):
                self._tell_ready()

    def _tell_ready(self) -> None:
        self._is_ready = True
        listener = self._bound[0].listener
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        partition_count = sum(child.partition_count for child in self._children)
        duration_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        _logger.info("%d processes are ready", len(self._children))
        cluster_id = self._children[0].cluster_id
        child_process.report_ready(
            listener.host, listener.port, cluster_id, partition_count, duration_ms, self._ready_fd
        )
        notify(READY, status(f"{len(self._children)} processes, {partition_count} partitions, {host}:{listener.port}"))

    # Stopping

    async def _stop(self, keeping: Sequence[asyncio.Task[None]]) -> int:
        """The controller stops last: until then the others can hand over what they lead."""
        controller = self._controller_index()
        tasks = dict(zip(self._children, keeping, strict=True))
        for group in (
            [child for child in self._children if child.index != controller],
            [child for child in self._children if child.index == controller],
        ):
            for child in group:
                child.send(signal.SIGTERM)
                if child.process is None or child.process.returncode is not None:
                    tasks[child].cancel()  # it waits to be started again
            if group:
                _, late = await asyncio.wait([tasks[child] for child in group], timeout=_STOP_WITHIN_S)
                for child in group:
                    if tasks[child] in late:
                        _logger.warning("process %d does not stop; killing it", child.index)
                        child.send(signal.SIGKILL)
                        await asyncio.wait([tasks[child]])
        codes = [child.process.returncode for child in self._children if child.process is not None]
        return EXIT_NO if self._is_ready and any(codes) else EXIT_OK

    def _controller_index(self) -> int:
        """Which process is the controller; −1 if none is."""
        node = self._tree.serving.tree.nodes.get(znodes.CONTROLLER)
        try:
            return -1 if node is None else znodes.parse_controller(json.loads(node.data)) - self._plan.base_id
        except (ValueError, KeyError, TypeError, AttributeError):
            return -1

    # Metrics

    def _metrics_socket(self) -> socket.socket | None:
        if self._metrics is None:
            return None
        listener = bind(Endpoint("HTTP", "PLAINTEXT", "127.0.0.1", 0), None, BrokerConfig())
        listener.listen(BrokerConfig())
        return listener.sockets[0]

    async def _serve_metrics(self) -> HttpEndpoint | None:
        if self._metrics is None:
            return None
        names = [each.listener.host for each in (self._metrics, *self._bound)]
        endpoint = HttpEndpoint({"/metrics": Page(self._page)}, "the metrics are at /metrics", host_names=names)
        await endpoint.start(self._metrics.sockets)
        _logger.info("metrics at %s", metrics_url(self._metrics.listener))
        return endpoint

    async def _page(self) -> str:
        asked = {child.index: child for child in self._children if child.is_ready and child.metrics is not None}
        pages = await asyncio.gather(*(_page_of(child) for child in asked.values()))
        return self._own_page() + merged({index: page for index, page in zip(asked, pages, strict=True) if page})

    def _own_page(self) -> str:
        lines = [
            "# HELP highwater_process_up Whether a process of this broker serves clients.",
            "# TYPE highwater_process_up gauge",
            *(f'highwater_process_up{{process="{each.index}"}} {int(each.is_ready)}' for each in self._children),
            "# HELP highwater_process_restarts_total How often a process of this broker was started again.",
            "# TYPE highwater_process_restarts_total counter",
            *(f'highwater_process_restarts_total{{process="{each.index}"}} {each.restarts}' for each in self._children),
        ]
        return "".join(f"{line}\n" for line in lines)


async def _page_of(child: _Child) -> str:
    """The metrics of one process; nothing if it does not answer."""
    assert child.metrics is not None
    host, port = child.metrics.getsockname()
    try:
        async with asyncio.timeout(_PAGE_WITHIN_S):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
    except (OSError, TimeoutError) as error:
        _logger.warning("process %d does not tell its metrics: %s", child.index, error or type(error).__name__)
        return ""
    head, _, body = answer.partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else ""
