"""A synthetic result directory, the same bytes every time, written through the project's own writer.

Latencies follow a lognormal curve taken at fixed quantiles, with a stall here and there; nothing is random, nothing
depends on the clock. To look at the report of the sample: `python -m tests.reports.sample_run DIR`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

from highwater.results.analysis.conclusions import analyse
from highwater.results.calibration import CALIBRATION_FILE
from highwater.results.histogram import Histogram
from highwater.results.histogram_log import histogram_of
from highwater.results.host import HostSample, HostUse
from highwater.results.models import (
    LATENCY_METRICS,
    Delivery,
    EndToEnd,
    Environment,
    Generator,
    GitState,
    Latency,
    Manifest,
    Metric,
    Phase,
    Produce,
    Reason,
    RunStatus,
    Scalar,
    SystemFacts,
    TrialPlan,
    TrialSummary,
    Verdict,
    Window,
)
from highwater.results.storage import StorageTarget
from highwater.results.writer import ResultWriter
from tests.reports import sample_details as details

_QUANTILES: Final = 200
_NORMAL: Final = [NormalDist().inv_cdf((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)]


def _lognormal(sigma: float) -> list[float]:
    return [math.exp(sigma * z) for z in _NORMAL]


_WARMUP_S: Final = 3
_LIMIT: Final = 0.85
_SHAPES: Final[dict[Metric, tuple[float, list[float]]]] = {
    "produce_response": (1.0, _lognormal(0.45)),
    "produce_service": (0.93, _lognormal(0.42)),
    "send_delay": (0.05, _lognormal(0.5)),
    "e2e_response": (1.35, _lognormal(0.5)),
}

DEFAULT_AXES: Final[dict[str, list[Scalar]]] = {
    "producers.client.acks": ["all", "1"],
    "producers.client.compression.type": ["none", "lz4"],
}


@dataclass(frozen=True)
class Sample:
    """What the sample run looks like; `change` may alter any trial's summary before it is written."""

    name: str = "quickstart"
    purpose: str = "Does compression pay at 20,000 records a second, and what do acks cost?"
    axes: dict[str, list[Scalar]] = field(default_factory=lambda: dict(DEFAULT_AXES))
    trials: int = 3
    measure_s: int = 12
    rate_per_s: float = 20_000.0
    consumers: int = 1
    status: RunStatus = "done"
    for_measurement: bool = True
    unfinished: Sequence[str] = ()
    """Trial ids without a result."""
    quiet_host: bool = False
    """A host that tells nothing about CPU, disk and memory."""
    analysed: bool = False
    """With analysis.json, and an A/A twin in every block."""
    detailed: bool = False
    """With all that a trial may tell beside rates and latencies, fio's probes, a ceiling and objectives."""
    partitions: int = 4
    best: Sequence[str] = ()
    """The metrics that the workload asks the best cell of; the default ones when empty."""
    environment: Environment | None = None
    change: Callable[[TrialSummary], TrialSummary] = lambda summary: summary


def latency_scale(factors: dict[str, Scalar], rate_per_s: float) -> float:
    """How slow a cell is, in ms of median produce latency."""
    scale = 1.6
    scale *= 0.62 if factors.get("producers.client.acks") == "1" else 1.0
    scale *= {"none": 1.0, "lz4": 0.97, "zstd": 1.25, "gzip": 2.2}.get(
        str(factors.get("producers.client.compression.type")), 1.0
    )
    scale *= 3.5 if factors.get("storage.target") == "hdd" else 1.0
    return scale / max(0.02, 1 - rate_per_s / 60_000)


def write_sample(directory: Path, sample: Sample | None = None) -> Path:
    """Write the run into `directory` and return it."""
    sample = sample or Sample()
    writer = ResultWriter(directory)
    plans = _plans(sample)
    writer.write_manifest(_manifest(sample, plans))
    writer.write_environment(sample.environment or _environment())
    summaries = [_write_trial(writer, plan, sample) for plan in plans if plan.status == "done"]
    if sample.analysed:
        in_order = sorted((p for p in plans if p.role == "measure"), key=lambda plan: plan.trial_id)
        factors = {plan.cell: plan.factors for plan in in_order}
        writer.write_analysis(analyse(factors, summaries, seed=7, complete=sample.status == "done"))
    if sample.detailed:
        writer.write_probes(details.probes({s.storage.name: s.storage for s in summaries}))
        (directory / CALIBRATION_FILE).write_text(details.calibration().model_dump_json(by_alias=True), "utf-8")
    return directory


def _plans(sample: Sample) -> list[TrialPlan]:
    cells = [dict(zip(sample.axes, values, strict=True)) for values in product(*sample.axes.values())]
    plans = []
    for trial in range(1, sample.trials + 1):
        order = sorted(range(len(cells)), key=lambda i: (i * 7 + trial * 5) % (len(cells) + 1))
        for position, index in enumerate(order, start=1):
            trial_id = f"c{index + 1}-t{trial}"
            plans.append(
                TrialPlan(
                    trial_id=trial_id,
                    cell=",".join(f"{k.rsplit('.', 1)[-1]}={v}" for k, v in cells[index].items()) or "only",
                    factors=cells[index],
                    trial=trial,
                    block=trial,
                    order_in_block=position,
                    status="interrupted" if trial_id in sample.unfinished else "done",
                    error="stopped by Ctrl-C" if trial_id in sample.unfinished else None,
                )
            )
        if sample.analysed:
            twin = plans[-1].model_copy(update={"trial_id": f"aa-t{trial}", "role": "a_a"})
            plans.append(twin.model_copy(update={"order_in_block": twin.order_in_block + 1, "status": "done"}))
    return plans


def _manifest(sample: Sample, plans: list[TrialPlan]) -> Manifest:
    workload: dict[str, Any] = {
        "schema": "bench.workload/1",
        "name": sample.name,
        "topics": {"partitions": 4, "config": {"retention.ms": "3600000"}},
        "producers": {"count": 1, "client": {"linger.ms": 5, "batch.size": "128KiB"}},
        "consumers": {"per_group": sample.consumers},
        "records": {"size": "1KiB", "compress_ratio": 0.5},
        "load": {"rate": f"{sample.rate_per_s:g}/s"},
        "phases": {"warmup": f"{_WARMUP_S}s", "measure": f"{sample.measure_s}s", "drain": "10s"},
        "trials": {"n": sample.trials},
        "matrix": sample.axes,
    }
    if sample.best:
        workload["answer"] = {"best": list(sample.best)}
    return Manifest(
        name=sample.name,
        purpose=sample.purpose,
        for_measurement=sample.for_measurement,
        created_utc="2025-03-01T09:00:00Z",
        finished_utc="2025-03-01T09:04:10Z" if sample.status != "running" else None,
        status=sample.status,
        exit_code=0 if sample.status == "done" else None,
        workload=workload,
        workload_sha256="5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592",
        workload_file="workloads/quickstart.yaml",
        argv=["highwater", "bench", "run", "workloads/quickstart.yaml", "--out", "results/first run"],
        cwd="/home/me/highwater",
        git=GitState(commit="0123456789abcdef0123456789abcdef01234567", dirty=False),
        seed=42,
        axes=sample.axes,
        trials=plans,
        versions={"highwater": "0.1.0", "python": "3.11.7", "pyspark": "4.3.0", "librdkafka": "2.16.0"},
    )


def _environment() -> Environment:
    return Environment(
        facts={
            "operating_system": "Debian GNU/Linux 12",
            "kernel_release": "6.1.0-18-amd64",
            "machine": "x86_64",
            "cpu_model": "Example CPU @ 2.50 GHz",
            "cpu_count": 8,
            "settings": {"cpu.governor": "performance"},
            "memory": {"total_bytes": 33_554_432_000, "available_bytes": 30_064_771_072, "swap_total_bytes": 0},
            "sysctl": {"vm.swappiness": "60", "vm.dirty_background_ratio": "10", "net.core.rmem_max": "212992"},
            "block_devices": [
                {"name": "nvme0n1", "rotational": False, "scheduler": "none", "size_bytes": 512_110_190_592},
                {"name": "sda", "rotational": True, "scheduler": "mq-deadline", "size_bytes": None},
            ],
        },
        tuning=[
            {
                "id": "vm.swappiness",
                "title": "Swappiness",
                "current": "60",
                "recommended": "1",
                "state": "differs",
                "reason": "The broker lives on page cache; swapping its heap out stalls requests.",
            },
            {
                "id": "net.core.somaxconn",
                "title": "Listen backlog",
                "current": "4096",
                "recommended": "4096",
                "state": "ok",
                "reason": "Clients that all reconnect at once must not be refused.",
            },
        ],
    )


class _Log:
    """One metric of one trial: the interval log as it grows, and the sum over the measured phase."""

    def __init__(self) -> None:
        self.lines = ["#[Histogram log format version 1.2]\n"]
        self._measured: list[Histogram] = []
        self._sum_ns = 0

    def add(self, second: int, measured: bool, values: Sequence[int], count_each: int) -> None:
        distinct = Histogram.of_values(values)
        found = Histogram(distinct.indices, distinct.counts * count_each)
        if measured:
            self._measured.append(found)
            self._sum_ns += sum(values) * count_each
        encoded = histogram_of(found.indices, found.counts).encode().decode()
        self.lines.append(f"{second:.3f},1.000,{found.max / 1e6:.3f},{encoded}\n")

    def latency(self, metric: Metric) -> Latency:
        total = Histogram.merged(self._measured)
        return Latency(
            p50=total.percentile(50),
            p90=total.percentile(90),
            p99=total.percentile(99),
            p999=total.percentile(99.9),
            p9999=total.percentile(99.99),
            max=total.max,
            mean=self._sum_ns / total.count,
            count=total.count,
            hist=f"hist/{metric}.hlog",
        )


def _write_trial(writer: ResultWriter, plan: TrialPlan, sample: Sample) -> TrialSummary:
    rate = float(plan.factors.get("load.rate", sample.rate_per_s))
    seconds = _WARMUP_S + sample.measure_s
    median_ms = latency_scale(plan.factors, rate) * (1 + 0.04 * math.sin(plan.trial * 2.3 + plan.order_in_block))
    logs = {metric: _Log() for metric in LATENCY_METRICS if metric != "e2e_response" or sample.consumers}
    each = max(1, int(rate) // _QUANTILES)
    windows, host = [], []
    for second in range(seconds):
        measured = second >= _WARMUP_S
        slow = 1.8 if second == 0 else 1.0 + 0.12 * math.sin(second * 1.7 + plan.trial)
        if second == _WARMUP_S + sample.measure_s // 2 and plan.trial == 2:
            slow *= 2.5
        factor = median_ms * slow * 1e6
        found: dict[Metric, list[int]] = {}
        for metric, (share, curve) in _SHAPES.items():
            if metric in logs:
                found[metric] = [int(factor * share * times) for times in curve]
                logs[metric].add(second, measured, found[metric], each)
        window, host_sample = _window(second, measured, int(rate), found), _host_sample(second, sample.quiet_host)
        if sample.detailed:
            window, host_sample = details.window(window), details.host_sample(host_sample)
        windows.append(window)
        host.append(host_sample)
    summary = _summary(plan, sample, rate, logs)
    if sample.detailed:
        summary = details.summary(summary)
    summary = sample.change(summary)
    partitions = details.partitions(summary, sample.partitions) if sample.detailed else []
    events = details.events(summary) if sample.detailed else []
    writer.write_trial(summary, windows, host, partitions, events)
    folder = writer.trial_directory(plan.trial_id) / "hist"
    for metric, log in logs.items():
        (folder / f"{metric}.hlog").write_text("".join(log.lines), "utf-8")
    return summary


def _window(second: int, measured: bool, rate: int, found: dict[Metric, list[int]]) -> Window:
    produce, e2e = found["produce_response"], found.get("e2e_response")
    acked = rate - (second * 37) % 90
    return Window(
        second=second,
        phase="measure" if measured else "warmup",
        offered=rate,
        sent=rate,
        acked=acked,
        acked_bytes=acked * 1024,
        failed=0,
        received=acked if e2e else 0,
        received_bytes=acked * 1024 if e2e else 0,
        produce_p50_ns=produce[_QUANTILES // 2],
        produce_p99_ns=produce[_QUANTILES * 99 // 100],
        produce_max_ns=produce[-1],
        e2e_p50_ns=e2e[_QUANTILES // 2] if e2e else None,
        e2e_p99_ns=e2e[_QUANTILES * 99 // 100] if e2e else None,
        e2e_max_ns=e2e[-1] if e2e else None,
        generator_cpu_ratio_max=0.4,
    )


def _host_sample(second: int, quiet: bool) -> HostSample:
    flushed = second % 5 == 4
    return HostSample(
        second=second,
        cpu_ratio=0.35,
        system_cpu_ratio=None if quiet else 0.42 + 0.06 * math.sin(second),
        system_rss_bytes=None if quiet else 90_000_000,
        disk_write_bytes=None if quiet else (95_000_000 if flushed else 400_000),
        disk_read_bytes=None if quiet else 0,
        dirty_bytes=None if quiet else 20_000_000 + (second % 5) * 19_000_000,
        writeback_bytes=None if quiet else 0,
    )


def _summary(plan: TrialPlan, sample: Sample, rate: float, logs: dict[Metric, _Log]) -> TrialSummary:
    achieved = rate * (1 - 0.0004 * ((plan.trial + plan.order_in_block) % 3))
    sent = int(rate) * (_WARMUP_S + sample.measure_s)
    hdd = plan.factors.get("storage.target") == "hdd"
    cpu = 0.45 + 0.1 * (str(plan.factors.get("producers.client.compression.type")) != "none") + 0.01 * plan.trial
    return TrialSummary(
        trial_id=plan.trial_id,
        cell=plan.cell,
        factors=plan.factors,
        trial=plan.trial,
        block=plan.block,
        order_in_block=plan.order_in_block,
        role=plan.role,
        started_utc=f"2025-03-01T09:{plan.block:02d}:{plan.order_in_block:02d}Z",
        phases=[
            Phase(name="warmup", start_s=0, end_s=_WARMUP_S),
            Phase(name="measure", start_s=_WARMUP_S, end_s=_WARMUP_S + sample.measure_s),
            Phase(name="drain", start_s=_WARMUP_S + sample.measure_s, end_s=_WARMUP_S + sample.measure_s + 1),
        ],
        offered_per_s=rate,
        achieved_per_s=achieved,
        achieved_bytes_per_s=achieved * 1024,
        consumed_per_s=achieved if sample.consumers else 0.0,
        consumed_bytes_per_s=achieved * 1024 if sample.consumers else 0.0,
        produce=Produce(
            response_ns=logs["produce_response"].latency("produce_response"),
            service_ns=logs["produce_service"].latency("produce_service"),
            send_delay_ns=logs["send_delay"].latency("send_delay"),
        ),
        e2e=EndToEnd(
            response_ns=logs["e2e_response"].latency("e2e_response"), clock="same_host_monotonic", negative_samples=0
        )
        if sample.consumers
        else None,
        delivery=Delivery(
            sent=sent,
            acked=sent,
            failed=0,
            received=sent if sample.consumers else 0,
            lost=0,
            duplicated=0,
            reordered=0,
            corrupt=0,
            in_log=sent,
        ),
        generator=Generator(
            launcher="spark local[2]",
            producers=1,
            consumers=sample.consumers,
            slots=2,
            oversubscribed=False,
            cpu_ratio_max=0.4,
            producer_cpu_ns_per_record=4100.0,
            consumer_cpu_ns_per_record=1900.0,
            start_skew_ns=850_000,
            clock_spread_ns=0,
        ),
        host=HostUse(
            cpu_ratio=0.35,
            system_cpu_ratio=None if sample.quiet_host else cpu,
            system_rss_bytes=None if sample.quiet_host else 90_000_000,
            disk_write_bytes_per_s=None if sample.quiet_host else 21_000_000.0,
            disk_read_bytes_per_s=None if sample.quiet_host else 0.0,
            dirty_bytes_max=None if sample.quiet_host else 96_000_000,
        ),
        storage=StorageTarget(
            name="hdd" if hdd else "default",
            path="/mnt/hdd" if hdd else "/mnt/data",
            device="loop0" if hdd else "nvme0n1",
            medium="hdd" if hdd else "nvme",
            emulated=hdd,
            model=None if hdd else "Example NVMe 512",
            scheduler="none",
            filesystem="ext4",
            mount_options=["rw", "noatime"],
        ),
        system=SystemFacts(
            kind="highwater",
            version="0.1.0",
            command=["highwater", "broker", "start", "--port", "0"],
            effective_config={"log.segment.bytes": "1073741824", "num.partitions": "1"},
        ),
        verdict=Verdict(state="valid", reasons=[]),
    )


def saturated(summary: TrialSummary) -> TrialSummary:
    """The same trial with a load generator that could not keep up."""
    reason = Reason(
        check="generator_cpu",
        value=0.97,
        limit=_LIMIT,
        text="A load worker used 0.97 of a core and may have been slower than the broker; use more producers.",
    )
    generator = summary.generator.model_copy(update={"cpu_ratio_max": 0.97})
    return summary.model_copy(update={"generator": generator, "verdict": Verdict(state="invalid", reasons=[reason])})


def golden_sample() -> Sample:
    """The run behind the golden file: four cells, one invalid trial, an interrupted one, and all that is recorded."""
    return Sample(
        trials=6,
        analysed=True,
        detailed=True,
        status="interrupted",
        unfinished=("c3-t3",),
        best=("produce.p99", "system.cpu_ratio"),
        change=lambda summary: saturated(summary) if summary.trial_id == "c2-t2" else summary,
    )


EXAMPLES: Final[dict[str, Callable[[], Sample]]] = {
    "golden": golden_sample,
    "smoke": lambda: Sample(for_measurement=False),
    "single": lambda: Sample(axes={}, trials=1),
    "ladder": lambda: Sample(
        name="ladder",
        axes={"load.rate": [10_000, 20_000, 40_000, 55_000], "producers.client.acks": ["all", "1"]},
        change=lambda s: saturated(s) if (s.offered_per_s or 0) > 50_000 else s,
    ),
    "matrix": lambda: Sample(
        name="small-matrix",
        axes={
            "producers.client.acks": ["all", "1", "0"],
            "producers.client.compression.type": ["none", "lz4", "zstd", "gzip"],
            "storage.target": ["default", "hdd"],
        },
    ),
    "long": lambda: replace(golden_sample(), measure_s=1797),
    "full": lambda: Sample(
        name="hdd-versus-ssd",
        purpose="Are sequential writes enough to make a hard disk good enough?",
        axes={
            "storage.target": ["default", "hdd"],
            "producers.client.acks": ["all", "1"],
            "load.rate": [5_000, 10_000, 20_000, 40_000],
        },
        trials=6,
        analysed=True,
        detailed=True,
        partitions=24,
    ),
}

if __name__ == "__main__":
    directory = Path(sys.argv[1])
    for example, make in EXAMPLES.items():
        if len(sys.argv) < 3 or example in sys.argv[2:]:
            sys.stdout.write(f"{write_sample(directory / example, make())}\n")
