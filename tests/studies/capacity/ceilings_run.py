"""A result directory of workloads/ceilings.yaml from a broker with the costs of `samples`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from highwater.bench.workload.specification import Cell, load_specification
from highwater.results.lifetime import Start
from highwater.results.models import Backlog, Manifest, TrialPlan, TrialSummary
from highwater.results.storage import CacheUse, FioProbe, ProbeName, StorageProbes, TargetProbe
from highwater.results.writer import ResultWriter
from tests.bench.summaries import summary
from tests.reports.sample_run import Sample, write_sample
from tests.studies.capacity.samples import closed_loop, cores, work

ROOT = Path(__file__).parent.parent.parent.parent
WORKLOAD = ROOT / "workloads/ceilings.yaml"
TRIALS = 3


def write_ceilings(
    directory: Path, change: Callable[[TrialSummary], TrialSummary] = lambda made: made, **of_manifest: Any
) -> Path:
    """change: alters each trial before it is written."""
    template = write_sample(
        directory.parent / f"{directory.name}-template", Sample(axes={"load.rate": [1000]}, trials=1)
    )
    specification = load_specification(WORKLOAD)
    plans, summaries = [], []
    for block in range(1, TRIALS + 1):
        for number, cell in enumerate(specification.cells):
            made = change(_trial(block, number, cell))
            summaries.append(made)
            plans.append(
                TrialPlan(
                    trial_id=made.trial_id,
                    cell=cell.name,
                    factors=cell.factors,
                    trial=block,
                    block=block,
                    order_in_block=number,
                    status="done",
                )
            )
    manifest = Manifest.model_validate_json((template / "manifest.json").read_text("utf-8"))
    known = {"name": "ceilings", "workload": specification.workload.as_document(), "trials": plans}
    writer = ResultWriter(directory)
    writer.write_manifest(manifest.model_copy(update=known | {"axes": specification.axes} | of_manifest))
    (directory / "env.json").write_bytes((template / "env.json").read_bytes())
    for made in summaries:
        writer.write_trial(made, [], [])
    writer.write_probes(StorageProbes(probes=[_probe(summaries[0], moment) for moment in ("before", "after")]))
    return directory


def _trial(block: int, number: int, cell: Cell) -> TrialSummary:
    workload = cell.workload
    batch = int(workload.producers.client["batch.num.messages"]) * 1024
    rate = float(workload.load.rate_per_s or closed_loop(batch) / 1024)
    copies, groups = workload.topics.replication, workload.consumers.groups
    partitions, bytes_per_s = workload.topics.partitions, rate * 1024
    # Of what a reader that comes late reads, half is on the disk alone.
    replayed = 0.0 if workload.consumers.start == "with_load" else bytes_per_s / 2
    done = work(
        bytes_per_s,
        batch,
        groups=groups - replayed / bytes_per_s,
        copies=copies - 1,
        partitions=partitions,
        replayed=replayed,
        is_synced="flush.messages" in workload.topics.config,
    )
    made = summary(block, cell.factors, achieved_per_s=rate, system_cpu_ratio=cores(done) * (1 + 0.02 * (block - 2)))
    return made.model_copy(
        update={
            "trial_id": f"{block}-{number}",
            "cell": cell.name,
            "driver": "wire",
            "consumed_bytes_per_s": rate * 1024 * groups,
            "tuning_fingerprint": "f" * 64,
            "start": Start(
                ready_s=0.5,
                cpu_s=0.4,
                rss_bytes=60_000_000,
                make_topics_s=0.1,
                partitions=partitions,
                idle_rss_bytes=60_000_000 + partitions * 20_000,
                peak_rss_bytes=90_000_000 + partitions * 20_000,
            ),
            "cache": _cache(made, bytes_per_s, replayed),
            "backlog": Backlog(bytes=1 << 28, built_at_s=2.0, caught_up_at_s=6.0, drain_bytes_per_s=None)
            if replayed
            else None,
            "system": made.system.model_copy(update={"copies": copies, "commands": [["broker"]] * copies}),
        }
    )


def _cache(of: TrialSummary, consumed: float, replayed: float) -> CacheUse:
    """Of a reader that catches up in the measured phase."""
    measure = next(phase for phase in of.phases if phase.name == "measure")
    measured_s = measure.end_s - measure.start_s
    return CacheUse(
        served_ratio=1 - replayed / consumed,
        method="system_reads",
        start_s=measure.start_s + 1,
        end_s=measure.end_s,
        fetched_bytes=round(consumed * measured_s),
        system_read_bytes=round(replayed * measured_s),
        device_read_bytes=None,
        log_bytes=None,
    )


def _probe(of: TrialSummary, moment: Any) -> TargetProbe:
    rates: dict[ProbeName, tuple[float, int]] = {
        "sequential_append": (400e6, 1),
        "sequential_read": (500e6, 1),
        "fsync": (3000 * 4096, 1),
        "parallel_append": (200e6, 64),
    }
    jobs = [
        FioProbe(
            name=name,
            files=files,
            block_bytes=4096 if name == "fsync" else 1 << 20,
            direct=True,
            moved_bytes=1 << 28,
            runtime_ns=10**9,
            bytes_per_s=rate * (1.05 if moment == "after" else 1.0),
            operations_per_s=rate / (4096 if name == "fsync" else 1 << 20),
            latency_p50_ns=None,
            latency_p99_ns=None,
            latency_p999_ns=None,
            latency_max_ns=None,
        )
        for name, (rate, files) in rates.items()
    ]
    return TargetProbe(
        target=of.storage, moment=moment, taken_utc="2026-01-01T00:00:00Z", fio_version="fio-3.33", jobs=jobs
    )
