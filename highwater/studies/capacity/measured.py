"""What result directories say of a class of hosts: costs of work, and ceilings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import VARIANT, recorded_workloads
from highwater.common.errors import UsageError
from highwater.common.quantities import SIZE
from highwater.results.ceilings import host_class_of, stored_ratio
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from highwater.studies.capacity.ceilings import Cell, DiskSamples, Measured
from highwater.studies.capacity.costs import MANY_PARTITIONS, MeasuredWork, Work, looked_at, traffic

WORKLOAD: Final = "workloads/ceilings.yaml"
HELD_OUT: Final = "held-out"
"""Variants whose names begin with this are predicted, and no cost is fitted to them."""

# message.max.bytes of the wire driver, and what a batch and a record have beside the value.
_LARGEST_BATCH_BYTES: Final = 1_000_000
_BATCH_HEADER_BYTES: Final = 61
_RECORD_HEADER_BYTES: Final = 10
# With more of the host's CPUs taken by other work, a broker could not show what it can use.
MOST_OTHER_WORK_RATIO: Final = 0.1
_HEAP: Final = re.compile(r"-Xmx(\d+)([kKmMgG]?)")
_HEAP_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class _Used(NamedTuple):
    """A trial that says what work costs."""

    summary: TrialSummary
    workload: Workload
    seen: MeasuredWork

    @property
    def is_closed(self) -> bool:
        """Whether the load was as fast as the broker took it."""
        return self.workload.load.model == "closed"

    @property
    def others_cpus(self) -> float:
        """CPUs that work beside the broker and its load took."""
        return self.summary.host.other_cpu_ratio or 0.0

    def had_the_host(self, cpus: int) -> bool:
        return self.others_cpus <= MOST_OTHER_WORK_RATIO * cpus

    @property
    def alone(self) -> bool:
        """Whether one broker did all."""
        return self.summary.system.copies == 1 and len(self.summary.system.commands) <= 1


def measured_of(results: Sequence[RunResult]) -> Measured:
    """All that the results say. Raises UsageError for what is no measurement of ceilings."""
    host = host_class_of(results)
    systems: set[str] = set()
    cells: list[Cell] = []
    held_out: list[Cell] = []
    alone: list[list[_Used]] = []
    used = others = 0
    for result in results:
        if not result.manifest.for_measurement:
            raise UsageError(
                f"{result.directory} is of a workload that is not for measurement: its figures are no ceilings"
            )
        by_cell: dict[str, list[_Used]] = {}
        trials = [trial.summary for trial in result.trials if trial.summary.role == "measure"]
        for one in _used(result, trials):
            by_cell.setdefault(one.summary.cell, []).append(one)
        for name, found in by_cell.items():
            variant = str(found[0].summary.factors.get(VARIANT, name))
            is_held_out, is_closed = variant.startswith(HELD_OUT), found[0].is_closed
            # Beside other work, a broker is slower than the load and is neither idle nor busy by itself.
            fair = [one for one in found if not is_closed or one.had_the_host(host.cpu_count)]
            if fair:
                cell = Cell(variant, tuple(one.seen for one in fair), is_closed)
                (held_out if is_held_out else cells).append(cell)
            if found[0].alone and not is_held_out:
                alone.append(found)
            systems |= {f"{one.summary.system.kind} {one.summary.system.version}" for one in found}
            used += len(found)
        others += len(trials) - sum(map(len, by_cell.values()))
    directories = ", ".join(str(result.directory) for result in results)
    if not alone:
        raise UsageError(
            f"{directories}: no usable trial of one broker and the wire driver, which the costs of a broker come from; "
            f"measure {WORKLOAD}"
        )
    if len(systems) > 1:
        raise UsageError(
            f"{directories}: measured several systems ({', '.join(sorted(systems))}); plan from results of one"
        )
    partition_bytes = tuple(_partition_bytes(alone))
    return Measured(
        host=host,
        system=systems.pop(),
        runs=tuple(str(result.directory) for result in results),
        cells=tuple(cells),
        held_out=tuple(held_out),
        busiest=_busiest(alone, host.cpu_count, directories),
        disks=tuple(_disks(results)),
        process_bytes=_process_bytes(alone, median(partition_bytes) if partition_bytes else 0.0),
        partition_bytes=partition_bytes,
        partition_bytes_per_s=_partition_bytes_per_s(alone, host.cpu_count),
        trials_used=used,
        trials_left_out=others,
    )


def _used(result: RunResult, trials: Sequence[TrialSummary]) -> Iterator[_Used]:
    workloads = recorded_workloads(result.manifest.workload)
    for summary in trials:
        workload, cpu_cores = workloads.get(summary.cell), summary.host.system_cpu_ratio
        if workload is None or not cpu_cores or summary.verdict.state == "invalid" or summary.at_once is not None:
            continue
        if summary.driver != "wire" or workload.faults or not summary.achieved_per_s:
            continue
        copies, stored = summary.system.copies, _log_ratio(summary)
        record_bytes = summary.achieved_bytes_per_s / summary.achieved_per_s
        batch_bytes = round(_records_of_a_batch(workload, record_bytes) * record_bytes * stored)
        produced, read = summary.achieved_bytes_per_s * stored, summary.consumed_bytes_per_s * stored
        replayed = min(read, _replayed_bytes_per_s(summary))
        topics, brokers = workload.topics, max(1, len(summary.system.commands))
        own = topics.count * topics.partitions
        is_synced = str(topics.config.get("flush.messages")) == "1"
        moved = traffic(batch_bytes, produced, read - replayed, produced * (copies - 1), workload.consumers.groups)
        work = moved + Work(
            brokers=float(brokers),
            partitions=float(own * copies),
            replayed_bytes=replayed,
            synced_batches=moved.produced_batches * copies if is_synced else 0.0,
            looked_at_for_followers=looked_at(moved.replicated_batches, own * (copies - 1), brokers * (brokers - 1)),
            looked_at_for_readers=looked_at(moved.consumed_batches, own, brokers * workload.consumers.per_group),
        )
        yield _Used(summary, workload, MeasuredWork(work, cpu_cores, batch_bytes))


def _records_of_a_batch(workload: Workload, record_bytes: float) -> int:
    """The wire driver fills its batches, so that every batch has as many."""
    client = workload.producers.client
    size = client.get("batch.size", _LARGEST_BATCH_BYTES)
    batch_bytes = min(SIZE.integer(size) if isinstance(size, str) else int(size), _LARGEST_BATCH_BYTES)
    fitting = max(1, int((batch_bytes - _BATCH_HEADER_BYTES) // (record_bytes + _RECORD_HEADER_BYTES)))
    return min(fitting, int(client.get("batch.num.messages", fitting)))


def _replayed_bytes_per_s(summary: TrialSummary) -> float:
    """What brokers read of the log from the disk in the measured phase, for readers that came late."""
    cache, measure = summary.cache, next(phase for phase in summary.phases if phase.name == "measure")
    # For other readers, the kernel reads a little too: pages of indexes.
    if cache is None or summary.backlog is None or not cache.system_read_bytes or cache.end_s <= cache.start_s:
        return 0.0
    both_s = max(0.0, min(cache.end_s, measure.end_s) - max(cache.start_s, measure.start_s))
    in_measure = cache.system_read_bytes * both_s / (cache.end_s - cache.start_s)
    return in_measure / (measure.end_s - measure.start_s)


def _log_ratio(summary: TrialSummary) -> float:
    """Bytes of one copy of the log for each byte of values; 1 if nobody looked at the logs."""
    looked = summary.writeback is not None and bool(summary.writeback.appended_bytes)
    return stored_ratio(summary) / summary.system.copies if looked else 1.0


def _busiest(alone: Sequence[Sequence[_Used]], cpus: int, directories: str) -> tuple[float, ...]:
    """CPU of the busiest broker, of trials in which other work left it the host. Raises UsageError if none did."""
    others = [one.others_cpus for cell in alone for one in cell if one.is_closed]
    free = [tuple(one.seen.cpu_cores for one in cell if one.is_closed and one.had_the_host(cpus)) for cell in alone]
    if not any(free):
        why = f"other work of the host took {min(others):.2g} CPUs or more" if others else "there is no closed loop"
        raise UsageError(
            f"{directories}: how much CPU time a broker can use was not measured: {why}; measure {WORKLOAD} again on a "
            "host that does nothing else"
        )
    return max(filter(None, free), key=median)


def _disks(results: Sequence[RunResult]) -> Iterator[DiskSamples]:
    rates: dict[str, tuple[list[float], list[float], list[float]]] = {}
    many: dict[str, dict[int, list[float]]] = {}
    facts: dict[str, tuple[str, str, str]] = {}
    for result in results:
        probes = result.probes()
        for probe in probes.probes if probes is not None else ():
            write, read = probe.job("sequential_append"), probe.job("sequential_read")
            if write is None or read is None:
                continue
            target = probe.target
            writes, reads, syncs = rates.setdefault(target.name, ([], [], []))
            writes.append(write.bytes_per_s)
            reads.append(read.bytes_per_s)
            if (sync := probe.job("fsync")) is not None:
                syncs.append(sync.operations_per_s)
            for job in probe.jobs:
                if job.name == "parallel_append":
                    many.setdefault(target.name, {}).setdefault(job.files, []).append(job.bytes_per_s)
            emulation = target.emulation or "emulated" if target.emulated else ""
            own = (target.medium, target.filesystem or "", emulation)
            if facts.setdefault(target.name, own) != own:
                raise UsageError(
                    f"{result.directory}: {target.name} names another kind of disk than in an earlier result "
                    f"({target.medium}, {facts[target.name][0]}); give each its own name with --storage NAME=DIRECTORY"
                )
    for name, (writes, reads, syncs) in rates.items():
        medium, file_system, emulation = facts[name]
        many_files = tuple((files, tuple(found)) for files, found in sorted(many.get(name, {}).items()))
        yield DiskSamples(name, medium, file_system, emulation, tuple(writes), tuple(reads), tuple(syncs), many_files)


def _partition_bytes(alone: Sequence[Sequence[_Used]]) -> Iterator[float]:
    for one in (one for cell in alone for one in cell):
        start = one.summary.start
        if start is None or start.idle_rss_bytes is None or start.rss_bytes is None:
            continue
        if start.partitions >= MANY_PARTITIONS:
            yield max(0.0, (start.idle_rss_bytes - start.rss_bytes) / start.partitions)


def _process_bytes(alone: Sequence[Sequence[_Used]], partition_bytes: float) -> float:
    """The most memory of a broker without its partitions; of a JVM at least the heap that it may take."""
    most = 0.0
    for one in (one for cell in alone for one in cell):
        start = one.summary.start
        peak = max(one.summary.host.system_rss_bytes or 0, (start.peak_rss_bytes if start else None) or 0)
        most = max(most, peak - partition_bytes * (start.partitions if start else 0), _heap_bytes(one.summary))
    return most


def _heap_bytes(summary: TrialSummary) -> int:
    for word in summary.system.command:
        if found := _HEAP.fullmatch(word):
            return int(found[1]) * _HEAP_UNITS[found[2].lower()]
    return 0


def _partition_bytes_per_s(alone: Sequence[Sequence[_Used]], cpus: int) -> tuple[float, ...]:
    """Rates of the trials of the cell with one partition that took the most."""
    rates = [
        tuple(one.seen.work.produced_bytes for one in cell if one.had_the_host(cpus))
        for cell in alone
        if cell[0].workload.topics.count * cell[0].workload.topics.partitions == 1 and cell[0].is_closed
    ]
    return max(filter(None, rates), key=median, default=())
