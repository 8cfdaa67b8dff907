"""Trial summaries with chosen figures, for what reads summaries and needs no files."""

from __future__ import annotations

from typing import Any

from highwater.results.host import HostUse
from highwater.results.models import (
    Delivery,
    EndToEnd,
    Generator,
    Latency,
    Phase,
    Produce,
    Reason,
    Scalar,
    SystemFacts,
    TrialRole,
    TrialSummary,
    Verdict,
)
from highwater.results.storage import StorageTarget

LOST = Reason(check="delivery.lost", value=3, limit=0, text="3 acknowledged records were lost")
LATE = Reason(check="load.achieved_ratio", value=0.9, limit=0.995, text="of 20k/s offered, 18k/s were acked")


def summary(
    block: int,
    factors: dict[str, Scalar] | None = None,
    *,
    achieved_per_s: float = 20_000.0,
    p99_ns: int = 4_000_000,
    system_cpu_ratio: float | None = 0.5,
    role: TrialRole = "measure",
    reason: Reason | None = None,
    **changed: Any,
) -> TrialSummary:
    """One trial; `reason` makes it invalid."""
    factors = factors or {}
    latency = Latency(
        p50=p99_ns // 3,
        p90=p99_ns // 2,
        p99=p99_ns,
        p999=p99_ns * 2,
        p9999=p99_ns * 3,
        max=p99_ns * 4,
        mean=p99_ns / 2.5,
        count=100_000,
        hist="hist/produce_response.hlog",
    )
    made = TrialSummary(
        trial_id=f"{block:03d}-{'-'.join(str(value) for value in factors.values()) or 'base'}-{role}",
        cell=",".join(f"{name}={value}" for name, value in factors.items()) or "base",
        factors=factors,
        trial=block,
        block=block,
        order_in_block=1,
        role=role,
        started_utc="2026-01-01T00:00:00Z",
        phases=[Phase(name="warmup", start_s=0, end_s=1), Phase(name="measure", start_s=1, end_s=6)],
        offered_per_s=20_000.0,
        achieved_per_s=achieved_per_s,
        achieved_bytes_per_s=achieved_per_s * 1024,
        consumed_per_s=achieved_per_s,
        consumed_bytes_per_s=achieved_per_s * 1024,
        produce=Produce(response_ns=latency, service_ns=latency, send_delay_ns=latency),
        e2e=EndToEnd(response_ns=latency, clock="same_host_monotonic", negative_samples=0),
        delivery=Delivery(
            sent=100_000,
            acked=100_000,
            failed=0,
            received=100_000,
            lost=0,
            duplicated=0,
            reordered=0,
            corrupt=0,
            checked=True,
            in_log=100_000,
        ),
        generator=Generator(
            launcher="process",
            producers=1,
            consumers=1,
            slots=2,
            oversubscribed=False,
            cpu_ratio_max=0.4,
            producer_cpu_ns_per_record=4000.0,
            consumer_cpu_ns_per_record=2000.0,
            start_skew_ns=1000,
            clock_spread_ns=0,
        ),
        host=HostUse(
            cpu_ratio=0.4,
            system_cpu_ratio=system_cpu_ratio,
            system_rss_bytes=90_000_000,
            disk_write_bytes_per_s=None,
            disk_read_bytes_per_s=None,
            dirty_bytes_max=None,
        ),
        storage=StorageTarget(
            name="temporary",
            path="/tmp",
            device="sda",
            medium="ssd",
            emulated=False,
            model=None,
            scheduler="none",
            filesystem="ext4",
            mount_options=["rw"],
        ),
        system=SystemFacts(kind="highwater", version="0", command=["broker"], effective_config={}),
        verdict=Verdict(state="invalid" if reason else "valid", reasons=[reason] if reason else []),
    )
    return made.model_copy(update=changed)
