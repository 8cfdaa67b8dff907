"""What the sample run tells beside rates and latencies: host, storage, partitions, events, objectives.

Functions of what the plain sample has, so that the bytes stay the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from highwater.results.analysis_file import Search, SearchProbe
from highwater.results.calibration import Calibration, Loopback
from highwater.results.gate import (
    ComparedSide,
    EnvironmentDifference,
    Gate,
    GateRound,
    MetricComparison,
    SideEstimate,
)
from highwater.results.host import HostSample
from highwater.results.models import (
    Backlog,
    EventLine,
    HostProfileUse,
    PartitionLine,
    SloResult,
    SteadyState,
    Transactions,
    TrialSummary,
    Window,
)
from highwater.results.storage import CacheUse, FioProbe, StorageProbes, StorageTarget, TargetProbe, WritebackUse

_MIB = 1 << 20


def window(plain: Window) -> Window:
    return plain.model_copy(update={"lag": 200 + 150 * (plain.second % 4)})


def host_sample(plain: HostSample) -> HostSample:
    second = plain.second
    return plain.model_copy(
        update={
            "generator_cpu_ratio": 0.7 + 0.05 * math.sin(second * 0.9),
            "other_cpu_ratio": 0.08,
            "attendants_cpu_ratio": 0.0,
            "disk_util_ratio": 0.6 if second % 5 == 4 else 0.04,
            "disk_read_latency_ns": None,
            "disk_write_latency_ns": 900_000.0 + 300_000.0 * (second % 5),
            "net_received_bytes": 20_000,
            "net_sent_bytes": 24_000,
            "loopback_bytes": 43_000_000,
            "memory_available_bytes": 20_000_000_000,
            "cpu_pressure_some_ratio": 0.12,
            "io_pressure_some_ratio": 0.3 if second % 5 == 4 else 0.02,
            "io_pressure_full_ratio": 0.1 if second % 5 == 4 else 0.0,
            "memory_pressure_some_ratio": 0.0,
            "writeback_bytes": 30_000_000 if second % 5 == 4 else 0,
        }
    )


def summary(plain: TrialSummary) -> TrialSummary:
    p99_ns = plain.produce.response_ns.p99
    appended = int(plain.achieved_bytes_per_s * 15)
    storage = plain.storage
    if storage.emulated:
        storage = storage.model_copy(update={"emulation": "rotational, 120 MiB/s, 120 operations/s"})
    return plain.model_copy(
        update={
            "storage": storage,
            "steady": SteadyState(attained=True, at_s=3.0 + 0.5 * plain.trial, slope_ratio=0.003, window_s=3),
            "lag_max": 650 + 10 * plain.trial,
            "partition_skew_ratio": 1.4,
            "backlog": Backlog(
                bytes=256 * _MIB, built_at_s=2.0, caught_up_at_s=6.5 + 0.1 * plain.trial, drain_bytes_per_s=95.0 * _MIB
            ),
            "transactions": Transactions(committed=1500, aborted=15, commit_ns=plain.produce.service_ns),
            "cache": CacheUse(
                served_ratio=0.61 if storage.emulated else 0.998,
                method="system_reads",
                start_s=3.0,
                end_s=15.0,
                fetched_bytes=appended,
                system_read_bytes=int(appended * 0.39) if storage.emulated else int(appended * 0.002),
                device_read_bytes=int(appended * 0.4),
                drop="not_permitted",
            ),
            "writeback": WritebackUse(
                dirty_max_bytes=96_000_000,
                writeback_max_bytes=30_000_000,
                written_bytes=int(appended * 0.9),
                appended_bytes=appended,
                flush_s=1.2,
                flush_complete=True,
            ),
            "host_profile": HostProfileUse(
                name="throughput",
                applied={"vm.swappiness": "1"},
                before={"vm.swappiness": "60"},
                verified=True,
                rolled_back=True,
            ),
            "slo": [
                SloResult(metric="produce.p99", bound="<20ms", value=p99_ns, met=p99_ns < 20_000_000),
                SloResult(
                    metric="produce.achieved_per_s",
                    bound=">=9k/s",
                    value=plain.achieved_per_s,
                    met=plain.achieved_per_s >= 9_000,
                ),
                SloResult(metric="errors", bound="==0", value=0.0, met=True),
            ],
            "generator": plain.generator.model_copy(update={"ceiling_per_s": 310_000.0}),
        }
    )


def partitions(of: TrialSummary, count: int) -> list[PartitionLine]:
    """Uneven on purpose: the first partition has the most."""
    weights = [1.4 if i == 0 else 1.0 - 0.4 / (count - 1) for i in range(count)]
    each = of.delivery.acked / sum(weights)
    e2e = of.e2e.response_ns if of.e2e else None
    return [
        PartitionLine(
            topic="sample",
            partition=i,
            acked=int(each * weight),
            acked_bytes=int(each * weight) * 1024,
            received=int(each * weight) if e2e else 0,
            e2e_p50_ns=int(e2e.p50 * weight) if e2e else None,
            e2e_p99_ns=int(e2e.p99 * (1 + 0.2 * math.sin(i))) if e2e else None,
            e2e_max_ns=e2e.max if e2e else None,
        )
        for i, weight in enumerate(weights)
    ]


def events(of: TrialSummary) -> list[EventLine]:
    return [
        EventLine(at_s=-0.4, kind="canary", text="CPU 0.031 s, disk 4.1 ms: as in the first block"),
        EventLine(at_s=0.0, kind="phase", text="warm-up begins"),
        EventLine(at_s=8.0, kind="rebalance", text=f"group 1: 4 partitions to one member (block {of.block})"),
    ]


def probes(targets: Mapping[str, StorageTarget]) -> StorageProbes:
    return StorageProbes(
        probes=[
            TargetProbe(
                target=target,
                moment=moment,
                taken_utc="2025-03-01T09:00:00Z",
                fio_version="fio-3.33",
                jobs=[
                    _job("sequential_append", _MIB, (110 if target.emulated else 850) * _MIB * drift),
                    _job("fsync", 4096, 1.4 * _MIB * drift),
                    _job("random_read", 4096, (0.5 if target.emulated else 200) * _MIB * drift),
                ],
            )
            for target in targets.values()
            for moment, drift in (("before", 1.0), ("after", 0.97))
        ]
    )


def _job(name: str, block_bytes: int, bytes_per_s: float) -> FioProbe:
    return FioProbe.model_validate(
        {
            "name": name,
            "block_bytes": block_bytes,
            "direct": name != "fsync",
            "moved_bytes": 256 * _MIB,
            "runtime_ns": 2_000_000_000,
            "bytes_per_s": bytes_per_s,
            "operations_per_s": bytes_per_s / block_bytes,
            "latency_p50_ns": 1_100_000,
            "latency_p99_ns": 2_400_000,
            "latency_p999_ns": 8_000_000,
            "latency_max_ns": 21_000_000,
        }
    )


def calibration() -> Calibration:
    return Calibration(
        created_utc="2025-03-01T08:50:00Z",
        workload=None,
        workload_sha256=None,
        environment={},
        ceilings=[],
        loopback=Loopback(
            bytes_per_s=2_000.0 * _MIB, round_trip_p50_ns=21_000, round_trip_p99_ns=48_000, round_trip_bytes=64
        ),
        storage=[],
        noise=[],
        launchers=[],
        pairs=None,
        notes=[],
    )


def search() -> Search:
    tried = [(10_000, True), (20_000, True), (40_000, False), (28_284, True), (33_636, False), (30_844, True)]
    probes = [
        SearchProbe(
            trial_id=f"probe-{i}",
            stage="ramp" if i < 3 else "bisect",
            rate_per_s=rate,
            passed=passed,
            limit=None if passed else "e2e.p99",
            text=None if passed else "e2e.p99 was 31.2 ms, the objective is <20ms",
        )
        for i, (rate, passed) in enumerate(tried)
    ]
    return Search(
        status="answered",
        slo={"e2e.p99": "<20ms"},
        min_per_s=10_000,
        max_per_s=None,
        precision_ratio=0.1,
        last_passing_per_s=30_844,
        first_failing_per_s=33_636,
        limit="e2e.p99",
        text="e2e.p99 was 31.2 ms, the objective is <20ms",
        generator_limited=False,
        confirmed=3,
        confirmations=3,
        probes=probes,
    )


def gate() -> Gate:
    def compared(metric: str, unit: str, ratio: float, verdict: str, gated: bool) -> MetricComparison:
        return MetricComparison.model_validate(
            {
                "cell": "base",
                "metric": metric,
                "unit": unit,
                "better": "lower" if unit == "ns" else "higher",
                "gated": gated,
                "base": SideEstimate(value=5_000_000.0, ci95=(4_900_000.0, 5_100_000.0), n_trials=6),
                "head": SideEstimate(value=5_000_000.0 * ratio, ci95=None, n_trials=6),
                "paired": True,
                "n_pairs": 6,
                "ratio": ratio,
                "ci95": (ratio - 0.02, ratio + 0.02),
                "floor_ratio": 0.05,
                "noise_ratio": 0.03,
                "delta_ratio": 0.05,
                "smallest_detectable_ratio": 0.07,
                "verdict": verdict,
            }
        )

    return Gate(
        state="regression",
        exit_code=10,
        text="produce.p99 is 14 % worse, beyond the limit of 5 %; a fresh round confirms it.",
        base=ComparedSide(given="git:main", system="highwater 0.1.0", commit="0123456789ab"),
        head=ComparedSide(given="git:HEAD", system="highwater 0.1.0", commit="ba9876543210"),
        interleaved=True,
        confirmed=True,
        policy={"schema": "bench.gate/1"},
        rounds=[
            GateRound(
                stage=stage,
                directory=directory,
                seed=7,
                pairs=6,
                pairs_valid=6,
                a_a_pairs=3,
                metrics=[
                    compared("produce.p99", "ns", 1.14, "worse", gated=True),
                    compared("produce.achieved_per_s", "per_s", 1.0, "no_change", gated=True),
                    compared("system.cpu_ratio", "ratio", 1.02, "undecided", gated=False),
                ],
                text="1 of 2 metrics that decide is worse.",
            )
            for stage, directory in (("first", "."), ("confirmation", "confirmation"))
        ],
        environment=[EnvironmentDifference(fact="kernel.release", base="6.1.0", head="6.1.0-18", decides=True)],
    )
