"""Brokers whose processes can be held to shares: N processes of ours, or one of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from highwater.bench.systems.apache_kafka import Distribution, start_apache_kafka
from highwater.bench.systems.process import SystemProcess, ready_line
from highwater.common.child_process import HIGHWATER
from tests.broker.running_processes import free_ports_in_a_row

_READY_WITHIN_S: Final = 120.0
_CHILD: Final = "highwater.broker.server.child"


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker that serves. Partition p is led at port p modulo their number.

    workers: the processes that serve clients. others: what they need beside, such as the parent.
    """

    address: str
    ports: list[int]
    broker_ids: list[int]
    workers: list[int]
    others: list[int]

    def cpu_s(self, process_ids: Sequence[int]) -> float:
        times = [psutil.Process(process_id).cpu_times() for process_id in process_ids]
        return sum(each.user + each.system for each in times)

    @property
    def process_ids(self) -> list[int]:
        return [*self.workers, *self.others]

    def memory_bytes(self) -> int:
        """Of all processes: what they share is divided among them (PSS)."""
        return sum(psutil.Process(process_id).memory_full_info().pss for process_id in self.process_ids)


Start = Callable[[Path, int], AbstractContextManager[Serving]]
"""Starts a system in an empty folder, with so many processes."""


@contextmanager
def highwater(folder: Path, processes: int) -> Iterator[Serving]:
    """`highwater broker start --processes N`: a parent and N brokers."""
    port = free_ports_in_a_row(processes + 1)
    command = [*HIGHWATER, "broker", "start", "--log-dir", str(folder / "data")]
    options = ["--port", str(port), "--processes", str(processes)]
    parent = SystemProcess("the broker", [*command, *options], folder / "broker.log")
    try:
        parent.await_ready(ready_line, _go_on, _READY_WITHIN_S)
        workers = [each for each in parent.process_ids if _CHILD in _command_of(each)]
        if len(workers) != processes:
            raise RuntimeError(f"{len(workers)} processes of {processes} were found (its output: {parent.log_file})")
        others = [each for each in parent.process_ids if each not in workers]
        yield Serving(
            parent.address, [port + 1 + index for index in range(processes)], list(range(processes)), workers, others
        )
    finally:
        parent.stop()


def apache_kafka(distribution: Distribution) -> Start:
    """One broker, whatever the number of processes."""

    @contextmanager
    def start(folder: Path, processes: int) -> Iterator[Serving]:
        data = folder / "data"
        data.mkdir()
        with start_apache_kafka(distribution, 1, {}, [data], folder, _go_on, ready_within_s=_READY_WITHIN_S) as system:
            address = system.bootstrap_servers
            yield Serving(address, [int(address.rpartition(":")[2])], [1], system.process_ids, [])

    return start


def _go_on() -> None:
    """Never give up."""


def _command_of(process_id: int) -> list[str]:
    try:
        return psutil.Process(process_id).cmdline()
    except psutil.NoSuchProcess:
        return []
