"""The load of one trial by native clients: warm-up, the load that counts, and reading it back.

A warm-up goes into topics of its own, which are gone before the load that counts: what the trial's topic holds is that
load and nothing else. Its size follows from the rate of the warm-up, so that a trial takes about the same time with a
fast and a slow system. A native client reports totals, and some report latencies; its seconds are unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.host.usage import usage_of
from highwater.bench.native.clients import Connections, NativeWork, PreparedRequests, consume, fetch, produce
from highwater.bench.native.librdkafka import rdkafka_performance
from highwater.bench.native.programs import program
from highwater.bench.storage import page_cache
from highwater.bench.storage.log_files import segments
from highwater.bench.systems import System
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.model import Workload
from highwater.bench.workload.native import LARGEST_LOAD_BYTES, prepared_of
from highwater.bench.workload.values import FixedSize
from highwater.common.errors import TrialError

# A warm-up begins with so many records; the rate of a shorter load is inexact, and a larger one follows.
_FIRST_RECORDS: Final = 500
_LEAST_S: Final = 0.5
_GROWTH: Final = 4
# Enough to know a rate, and little enough for the disk to be done with soon.
_LARGEST_WARM_UP_BYTES: Final = 256 << 20
_LEAST_RECORDS: Final = 1000
# The controller announces a new topic to one broker after another; until then they refuse what is sent unasked.
_TOLD_WITHIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class NativeResult:
    """The outcome of a native load. Seconds count from the start of the warm-up, T0.

    measured_s: from where to where the load that is measured ran: the producers', or the consumer's where there is one.
    system_cpu_s: of the system in that time. cold_read_bytes_per_s: of values, read from the log's files by nobody's
    broker, when the page cache had none of them.
    """

    t0_monotonic_s: float
    measured_s: tuple[float, float]
    produced: NativeWork
    consumed: NativeWork | None
    system_cpu_s: float | None
    cold_read_bytes_per_s: float | None


def build_clients(workloads: Iterable[Workload]) -> None:
    """Have on this host what native loads need. Raises UsageError that says what is missing and how to get it."""
    native = [workload for workload in workloads if workload.producers.native]
    drivers = {driver for workload in native for driver in (workload.producers.driver, workload.consumers.driver)}
    for name in ("wire_load", "wire_fetch"):
        if name in drivers:
            program(name)
    if any(workload.system.kind == "bare-loop" for workload in native):
        program("bare_loop")
    if "rdkafka_performance" in drivers:
        rdkafka_performance()


def spread_evenly(system: System, partitions: int) -> list[list[int]] | None:
    """The brokers of each partition of a topic, its leader first; None where there is no choice.

    Prepared requests go to partition p at broker p modulo their number.
    """
    count = len(system.nodes)
    if count == 1:
        return None
    return [[(partition + turn) % count + 1 for turn in range(count)] for partition in range(partitions)]


class NativeLoad:
    """Loads one system with what a workload says. directory: for what clients need and leave, beside the log."""

    def __init__(
        self,
        workload: Workload,
        system: System,
        client: BrokerClient,
        topic: str,
        log_directories: Sequence[Path],
        directory: Path,
        checkpoint: Callable[[], None],
    ) -> None:
        self._workload = workload
        self._system = system
        self._client = client
        self._topic = topic
        self._log_directories = log_directories
        self._directory = directory
        self._stop_asked = checkpoint
        self._properties = to_librdkafka("producer", workload.producers.client)
        size = workload.records.size
        if not isinstance(size, FixedSize):
            raise ValueError("native clients send values of one size")
        self._record_bytes = size.size_bytes
        self._partitions = workload.topics.partitions
        self._pieces = 0
        self._ports = [int(address.rpartition(":")[2]) for address in system.bootstrap_servers.split(",")]

    def run(self) -> NativeResult:
        """Raises TrialError for a load that does not add up, StoppedError when the user asked to stop."""
        t0_s = time.monotonic()
        rate_per_s = self._warm_up(t0_s + self._workload.phases.warmup_max_s)
        producing = self._producer(self._topic)
        if len(self._system.nodes) > 1:
            time.sleep(_TOLD_WITHIN_S)
        os.sync()  # the disk is not to write for the warm-up what is left of it
        began_s, cpu_s = time.monotonic(), self._cpu_s()
        produced = producing(self._records(rate_per_s))
        cold_read_bytes_per_s, consumed = None, None
        if self._workload.consumers.count:
            if self._workload.consumers.cold:
                page_cache.evict(self._segments())
            else:
                os.sync()
            began_s, cpu_s = time.monotonic(), self._cpu_s()
            consumed = self._consume(self._topic, produced.records)
        ended_s, cpu_after_s = time.monotonic(), self._cpu_s()
        if self._workload.consumers.cold:
            cold_read_bytes_per_s = self._cold_read(produced.size_bytes)
        seconds = (consumed or produced).seconds
        return NativeResult(
            t0_monotonic_s=t0_s,
            # A client's own clock starts when it is connected, and it ends at once when it is done.
            measured_s=(max(began_s, ended_s - seconds) - t0_s, ended_s - t0_s),
            produced=produced,
            consumed=consumed,
            system_cpu_s=None if cpu_s is None or cpu_after_s is None else cpu_after_s - cpu_s,
            cold_read_bytes_per_s=cold_read_bytes_per_s,
        )

    def _warm_up(self, until_s: float) -> float:
        """Load after load, each into a topic of its own; the rate of the last one."""
        load, workload = self._workload.load, self._workload
        if load.rate_per_s is not None and until_s > time.monotonic():
            self._piece(load.rate_per_s * workload.phases.warmup_max_s)
            return load.rate_per_s
        if load.records is not None and not workload.phases.warmup_max_s:
            return 0.0
        records, largest = _FIRST_RECORDS, max(_FIRST_RECORDS, _LARGEST_WARM_UP_BYTES // self._record_bytes)
        while True:
            piece = self._piece(records)
            told = piece.seconds >= _LEAST_S or records == largest
            if told and time.monotonic() >= until_s:
                return piece.records_per_s
            if not told:
                records = min(records * _GROWTH, largest)

    def _piece(self, records: int) -> NativeWork:
        self._pieces += 1
        topic = f"{self._topic}-warm-up-{self._pieces}"  # deleting the one before may take a while
        assignment = spread_evenly(self._system, self._partitions)
        copies = None if assignment else self._workload.topics.replication
        self._client.create_topic(
            topic, self._partitions, self._workload.topics.config, assignment=assignment, replication=copies
        )
        if assignment:
            time.sleep(_TOLD_WITHIN_S)
        try:
            piece = self._producer(topic)(records)
            if self._workload.consumers.count:
                self._consume(topic, piece.records)
        finally:
            self._client.delete_topic(topic)
        return piece

    def _records(self, rate_per_s: float) -> int:
        load, measure_s = self._workload.load, self._workload.phases.measure_s
        if load.records is not None:
            return load.records
        if load.rate_per_s is not None:
            return load.rate_per_s * measure_s
        return max(_LEAST_RECORDS, min(int(rate_per_s * measure_s), LARGEST_LOAD_BYTES // self._record_bytes))

    def _producer(self, topic: str) -> Callable[[int], NativeWork]:
        producers, rate_per_s = self._workload.producers, self._workload.load.rate_per_s or 0.0
        if producers.driver == "rdkafka_performance":
            return lambda records: produce(
                self._system.bootstrap_servers,
                topic,
                self._partitions,
                records,
                self._record_bytes,
                self._properties,
                self._checkpoint,
            )
        prepared = prepared_of(self._properties)
        requests = PreparedRequests(
            self._directory,
            topic,
            acks=prepared.acks,
            records=prepared.records_per_request,
            record_bytes=self._record_bytes,
        )
        return lambda records: requests.send(
            self._ports,
            records,
            Connections(producers.count, prepared.in_flight),
            partitions=self._partitions,
            records_per_s=rate_per_s,
            checkpoint=self._checkpoint,
        )

    def _consume(self, topic: str, records: int) -> NativeWork:
        consumers = self._workload.consumers
        if consumers.driver == "wire_fetch":
            return fetch(self._ports[0], topic, records, self._record_bytes, self._checkpoint)
        properties = to_librdkafka("consumer", consumers.client)
        servers = self._system.bootstrap_servers
        return consume(servers, topic, self._partitions, records, self._record_bytes, properties, self._checkpoint)

    def _cold_read(self, value_bytes: int) -> float:
        """What the disk gives of the same files in the same state, a MiB at a time."""
        files = self._segments()
        page_cache.evict(files)
        began_s = time.monotonic()
        page_cache.warm(files)
        return value_bytes / (time.monotonic() - began_s)

    def _segments(self) -> list[Path]:
        if not (found := segments(self._log_directories, [self._topic])):
            raise TrialError("the log has no files that could be dropped from the page cache (consumers.cold)")
        return found

    def _cpu_s(self) -> float | None:
        usage = usage_of(self._system.process_ids)
        return usage.cpu_s if usage else None

    def _checkpoint(self) -> None:
        self._stop_asked()
        if (problem := self._system.problem()) is not None:
            raise TrialError(problem)
