"""The table of metrics: name, unit, direction, and place in a summary.

One table: name -> unit, title, which way is better, how it is read off a trial's summary. Units are those of the result
directory (ns, bytes, per second, ratio); a figure that a trial does not have is None and never 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from highwater.common.errors import UsageError
from highwater.common.nearest import nearest
from highwater.common.units import duration_ns_text, duration_text, percent_text, rate_text, significant, size_text
from highwater.results.analysis_file import Better
from highwater.results.lifetime import Start
from highwater.results.models import Latency, TrialSummary
from highwater.results.rebalance import KINDS, ChangeKind, MembershipChange

# Metrics that are 0 unless something went wrong, and of 0 there is no ratio: for objectives, not for comparisons.
COUNTS_OF_FATES: Final = ("delivery.", "errors")

OFFERED: Final = "produce.offered_per_s"
SAME_LOAD: Final = 1.005
"""Two loads are the same up to this ratio: random arrivals differ a little from trial to trial."""

_GIB: Final = 1 << 30
# Name -> how it is written, and the share of all samples that are above it.
_PERCENTILES: Final = {
    "p50": ("p50", 0.5),
    "p90": ("p90", 0.1),
    "p99": ("p99", 0.01),
    "p999": ("p99.9", 0.001),
    "p9999": ("p99.99", 0.0001),
    "max": ("max", None),
}

_HAPPENS: Final[dict[ChangeKind, str]] = {
    "join": "a member joins",
    "leave": "a member leaves",
    "kill": "a member is killed",
}

Read = Callable[[TrialSummary], float | None]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """What one figure is."""

    name: str
    unit: str
    """`per_s`, `bytes_per_s`, `ns`, `s`, `bytes`, `ratio`, `records` or `s_per_gib`."""
    better: Better
    meaning: str
    read: Read
    title: str = ""
    """What reports call it; empty where they show the name."""
    samples_above: Read = lambda _: None
    """The number of samples of a trial above a percentile."""
    follows_load: bool = False
    """It is as high as what is offered, while the system keeps up: of two loads, it is a verdict on neither system."""

    def better_of(self, base_offered_per_s: float | None, head_offered_per_s: float | None) -> Better:
        """Which way is better between two sides that were offered this much; None: a closed loop."""
        one, other = base_offered_per_s, head_offered_per_s
        if not self.follows_load or one == other:
            return self.better
        alike = one and other and max(one, other) <= min(one, other) * SAME_LOAD
        return self.better if alike else "none"

    @property
    def column(self) -> str:
        """The name with its unit, for files that have no other place for it: `produce.p99_ns`."""
        return self.name if re.search(rf"(^|[._]){self.unit}$", self.name) else f"{self.name}_{self.unit}"


def at(path: str) -> Callable[[TrialSummary], Any]:
    """Return a function that reads the figure at a path of attributes; it returns None if a part of it is None."""
    names = path.split(".")

    def read(summary: TrialSummary) -> Any:
        found: Any = summary
        for name in names:
            if found is None:
                return None
            found = getattr(found, name)
        return found

    return read


def _latencies(
    prefix: str, title: str, meaning: str, latency: Callable[[TrialSummary], Latency | None]
) -> list[MetricDefinition]:
    def reader(percentile: str) -> Read:
        def read(summary: TrialSummary) -> float | None:
            found = latency(summary)
            return None if found is None or not found.count else float(getattr(found, percentile))

        return read

    def counter(share_above: float | None) -> Read:
        def count(summary: TrialSummary) -> float | None:
            found = latency(summary)
            return None if found is None or share_above is None else found.count * share_above

        return count

    return [
        MetricDefinition(
            f"{prefix}.{name}",
            "ns",
            "lower",
            f"{meaning}, {name}",
            reader(name),
            title=f"{title} {written}",
            samples_above=counter(share_above),
        )
        for name, (written, share_above) in _PERCENTILES.items()
    ]


def _fate(name: str, title: str, meaning: str) -> MetricDefinition:
    """The count of records with one fate, which Delivery has by this name; not known if the log was not checked."""

    def known(summary: TrialSummary) -> float | None:
        return getattr(summary.delivery, name) if summary.delivery.checked else None

    return MetricDefinition(f"delivery.{name}", "records", "lower", meaning, known, title)


def _recovery(name: str, title: str, meaning: str) -> MetricDefinition:
    """The figure, by its name in FaultRecovery, of a trial's worst fault; none if it did not come back from each."""

    def worst(summary: TrialSummary) -> float | None:
        values = [getattr(fault, name) for fault in summary.recovery.faults] if summary.recovery else []
        known = [value for value in values if value is not None]
        return max(known) if values and len(known) == len(values) else None

    return MetricDefinition(f"recovery.{name}", "s", "lower", f"faults: {meaning}", worst, title)


def _rebalance(
    do: ChangeKind, name: str, unit: str, title: str, read: Callable[[MembershipChange], float | None]
) -> MetricDefinition:
    """The figure of a trial's worst change of this kind; a trial whose group did not come back has none."""
    better: Better = "higher" if unit == "ratio" else "lower"

    def worst(summary: TrialSummary) -> float | None:
        changes = summary.rebalances.changes if summary.rebalances else []
        values = [read(change) for change in changes if change.do == do]
        known = [value for value in values if value is not None]
        pick = min if better == "higher" else max
        return pick(known) if values and len(known) == len(values) else None

    happens = _HAPPENS[do]
    return MetricDefinition(
        f"rebalance.{do}.{name}", unit, better, f"{happens}: {title}", worst, f"{happens.capitalize()}: {title}"
    )


def _rebalances(do: ChangeKind) -> list[MetricDefinition]:
    return [
        _rebalance(do, "all_read_s", "s", "time until every partition was read again", lambda c: c.all_read_s),
        _rebalance(do, "longest_pause_s", "s", "longest pause of one partition", lambda c: c.longest_pause_s),
        _rebalance(do, "behind", "records", "records the group fell behind", lambda c: c.behind_records),
        _rebalance(do, "lowest_ratio", "ratio", "received over acknowledged, lowest second", lambda c: c.lowest_ratio),
        _rebalance(do, "duplicated", "records", "records read twice", lambda c: c.duplicated),
    ]


def _start(name: str, unit: str, title: str, meaning: str, read: Callable[[Start], float | None]) -> MetricDefinition:
    return MetricDefinition(
        name, unit, "lower", meaning, lambda summary: read(summary.start) if summary.start else None, title
    )


def _rss_of_a_partition(start: Start) -> float | None:
    if start.idle_rss_bytes is None or start.rss_bytes is None:
        return None
    return (start.idle_rss_bytes - start.rss_bytes) / start.partitions


def _restart_of_a_partition(summary: TrialSummary) -> float | None:
    if summary.restart is None or summary.start is None:
        return None
    return max(0.0, summary.restart.ready_s - summary.start.ready_s) / summary.start.partitions


def _cpu_s_per_gib(summary: TrialSummary) -> float | None:
    if summary.host.system_cpu_s_per_gib is not None:
        return summary.host.system_cpu_s_per_gib
    # Of an older result: from samples, which lie up to half a second beside the measured phase.
    moved_gib_per_s = (summary.achieved_bytes_per_s + summary.consumed_bytes_per_s) / _GIB
    if summary.host.system_cpu_ratio is None or not moved_gib_per_s:
        return None
    return summary.host.system_cpu_ratio / moved_gib_per_s


_DEFINITIONS: Final = (
    MetricDefinition(
        "produce.achieved_per_s",
        "per_s",
        "higher",
        "records acknowledged",
        at("achieved_per_s"),
        "Throughput",
        follows_load=True,
    ),
    MetricDefinition(
        "produce.achieved_bytes_per_s",
        "bytes_per_s",
        "higher",
        "value bytes acknowledged",
        at("achieved_bytes_per_s"),
        "Throughput in bytes",
        follows_load=True,
    ),
    MetricDefinition(OFFERED, "per_s", "none", "records due by the schedule", at("offered_per_s"), "Offered load"),
    *_latencies("produce", "Produce latency", "acknowledged − due", at("produce.response_ns")),
    *_latencies("produce.service", "Service latency", "acknowledged − sent", at("produce.service_ns")),
    *_latencies("send_delay", "Lateness of sends", "sent − due", at("produce.send_delay_ns")),
    *_latencies("e2e", "End-to-end latency", "received − due", at("e2e.response_ns")),
    *_latencies("txn.commit", "Commit of a transaction", "time to commit a transaction", at("transactions.commit_ns")),
    MetricDefinition(
        "consume.per_s",
        "per_s",
        "higher",
        "records received, all groups",
        lambda summary: summary.consumed_per_s if summary.generator.consumers else None,
        "Consumed records",
        follows_load=True,
    ),
    MetricDefinition(
        "consume.bytes_per_s",
        "bytes_per_s",
        "higher",
        "value bytes received, all groups",
        lambda summary: summary.consumed_bytes_per_s if summary.generator.consumers else None,
        "Consumed bytes",
        follows_load=True,
    ),
    MetricDefinition(
        "lag.max", "records", "lower", "acknowledged and not yet received, at its worst", at("lag_max"), "Largest lag"
    ),
    MetricDefinition(
        "backlog.drain_bytes_per_s",
        "bytes_per_s",
        "higher",
        "value bytes read while catching up",
        at("backlog.drain_bytes_per_s"),
        "Catching up with the backlog",
    ),
    _recovery("no_ack_s", "Time without any acknowledgement (whole seconds)", "seconds without an acknowledgement"),
    _recovery("to_half_s", "Time until 50 % of the rate was back (to a second)", "until 50 % of the rate were back"),
    _recovery("to_ninety_s", "Time until 90 % of the rate was back (to a second)", "until 90 % of the rate were back"),
    _recovery("longest_wait_s", "Longest wait for an acknowledgement", "longest from due to acknowledged"),
    _recovery("ended_after_s", "Time that the broker took to end", "from the request to end until the process ended"),
    _recovery(
        "consumer_gap_s", "Time in which consumers received nothing (whole seconds)", "seconds consumers got nothing"
    ),
    *(definition for do in KINDS for definition in _rebalances(do)),
    MetricDefinition(
        "rebalance.skipped",
        "records",
        "lower",
        "records that no member of the group received",
        at("rebalances.skipped"),
        "Records that the group skipped",
    ),
    MetricDefinition(
        "errors", "records", "lower", "records that the client gave up", at("delivery.failed"), "Failed records"
    ),
    _fate("lost", "Lost records", "acknowledged and not received"),
    _fate("unread", "Unread records", "of those, still in the log when consumers' time was up"),
    _fate("duplicated", "Duplicated records", "received once more than needed, all groups"),
    _fate("reordered", "Reordered records", "received after a later one of their partition"),
    _fate("corrupt", "Damaged records", "received and not what was sent"),
    _fate("aborted_received", "Received records of aborted transactions", "of aborted transactions, and received"),
    MetricDefinition(
        "partition.skew_ratio", "ratio", "none", "busiest partition ÷ mean partition", at("partition_skew_ratio")
    ),
    MetricDefinition(
        "steady.at_s",
        "s",
        "lower",
        "time to steady state",
        lambda summary: summary.steady.at_s if summary.steady and summary.steady.attained else None,
        "Time to steady state",
    ),
    MetricDefinition(
        "generator.cpu_ratio",
        "ratio",
        "lower",
        "busiest load task, of a core",
        at("generator.cpu_ratio_max"),
        "Generator CPU",
    ),
    MetricDefinition(
        "host.cpu_ratio", "ratio", "lower", "all CPUs of the host", at("host.cpu_ratio"), "CPU of the host"
    ),
    MetricDefinition(
        "host.disk_write_bytes_per_s", "bytes_per_s", "none", "the target's device", at("host.disk_write_bytes_per_s")
    ),
    MetricDefinition(
        "host.disk_read_bytes_per_s", "bytes_per_s", "none", "the target's device", at("host.disk_read_bytes_per_s")
    ),
    MetricDefinition("host.disk_util_ratio", "ratio", "none", "target's device busy", at("host.disk_util_ratio")),
    MetricDefinition(
        "host.disk_read_latency",
        "ns",
        "lower",
        "target's device, mean",
        at("host.disk_read_latency_ns"),
        "Mean read latency of the disk",
    ),
    MetricDefinition(
        "host.disk_write_latency",
        "ns",
        "lower",
        "target's device, mean",
        at("host.disk_write_latency_ns"),
        "Mean write latency of the disk",
    ),
    MetricDefinition(
        "host.net_received_bytes_per_s", "bytes_per_s", "none", "host", at("host.net_received_bytes_per_s")
    ),
    MetricDefinition("host.net_sent_bytes_per_s", "bytes_per_s", "none", "host", at("host.net_sent_bytes_per_s")),
    MetricDefinition(
        "host.io_pressure_some_ratio",
        "ratio",
        "lower",
        "share of time in which something waited for storage (PSI)",
        at("host.io_pressure_some_ratio"),
        "Time in which something waited for storage",
    ),
    MetricDefinition(
        "writeback.dirty_max_bytes",
        "bytes",
        "lower",
        "memory that waits to be written, at its most: what a power cut takes",
        at("writeback.dirty_max_bytes"),
        "Most memory that waited to be written",
    ),
    MetricDefinition(
        "writeback.written_bytes",
        "bytes",
        "none",
        "by the target's device while the load ran",
        at("writeback.written_bytes"),
    ),
    MetricDefinition(
        "writeback.flush_s",
        "s",
        "lower",
        "writing out what was still in memory when the load had ended",
        at("writeback.flush_s"),
        "Time to write out the rest of the log",
    ),
    MetricDefinition(
        "host.cache_served_ratio",
        "ratio",
        "none",
        "share of fetched bytes that no device was read for",
        at("cache.served_ratio"),
        "Reads served from cache",
    ),
    MetricDefinition(
        "system.cpu_ratio", "ratio", "lower", "CPU seconds per second", at("host.system_cpu_ratio"), "Broker CPU"
    ),
    MetricDefinition(
        "system.cpu_s_per_gib",
        "s_per_gib",
        "lower",
        "CPU seconds per GiB of values in and out",
        _cpu_s_per_gib,
        "Broker CPU per GiB",
    ),
    MetricDefinition(
        "system.rss_bytes", "bytes", "lower", "resident memory", at("host.system_rss_bytes"), "Broker memory"
    ),
    MetricDefinition(
        "system.start_s", "s", "lower", "from the start of its processes until it serves", at("start.ready_s"), "Start"
    ),
    MetricDefinition(
        "system.idle_rss_bytes",
        "bytes",
        "lower",
        "resident memory before the load",
        at("start.idle_rss_bytes"),
        "Broker memory at rest",
    ),
    MetricDefinition(
        "system.peak_rss_bytes",
        "bytes",
        "lower",
        "resident memory at its most",
        at("start.peak_rss_bytes"),
        "Broker memory at its most",
    ),
    _start(
        "partition.make_s",
        "s",
        "Making a partition",
        "making the topics ÷ partitions",
        lambda start: start.make_topics_s / start.partitions,
    ),
    _start(
        "partition.rss_bytes",
        "bytes",
        "Memory of a partition",
        "what the topics added to resident memory ÷ partitions",
        _rss_of_a_partition,
    ),
    MetricDefinition(
        "restart.ready_s",
        "s",
        "lower",
        "from its start, after it was ended, until all is there and one more record was acknowledged",
        at("restart.ready_s"),
        "Start on its log",
    ),
    MetricDefinition(
        "restart.cpu_s", "s", "lower", "CPU seconds until then", at("restart.cpu_s"), "CPU of the start on its log"
    ),
    MetricDefinition(
        "restart.partition_s",
        "s",
        "lower",
        "what that took longer than the first start ÷ partitions",
        _restart_of_a_partition,
        "Start on its log, each partition",
    ),
    MetricDefinition(
        "storage.cold_read_bytes_per_s",
        "bytes_per_s",
        "higher",
        "value bytes of the log, read from the disk without a broker",
        at("cold_read_bytes_per_s"),
        "Reading the log without a broker",
    ),
    MetricDefinition(
        "consume.cold_read_ratio",
        "ratio",
        "higher",
        "bytes received ÷ what the disk gives without a broker",
        lambda summary: (
            summary.consumed_bytes_per_s / summary.cold_read_bytes_per_s if summary.cold_read_bytes_per_s else None
        ),
        "Consumed, of reading without a broker",
    ),
)

METRICS: Final[dict[str, MetricDefinition]] = {definition.name: definition for definition in _DEFINITIONS}


def metric(name: str) -> MetricDefinition:
    """Look a metric up; `p99.9` may be written for `p999`. Raises UsageError that names one that is near."""
    found = METRICS.get(name) or METRICS.get(name.replace("p99.99", "p9999").replace("p99.9", "p999"))
    if found is None:
        near = nearest(name, METRICS)
        hint = f'did you mean "{near}"? ' if near else ""
        raise UsageError(f"{name} is not a metric; {hint}`highwater bench metrics` lists them all")
    return found


def percentile_text(percentile: str) -> str | None:
    """How a percentile is written: `p999` -> `p99.9`; None if it is not the name of one."""
    return _PERCENTILES[percentile][0] if percentile in _PERCENTILES else None


def values_of(summary: TrialSummary) -> dict[str, float]:
    """Every figure that the trial has, by name, in the order of the table."""
    found = ((name, definition.read(summary)) for name, definition in METRICS.items())
    return {name: float(value) for name, value in found if value is not None}


def title_of(metric: str) -> str:
    """What people call it; its name if it has no title."""
    return (METRICS[metric].title if metric in METRICS else "") or metric


def title_within(metric: str) -> str:
    """Its title as it stands within a sentence: `broker CPU`, `end-to-end latency p99`; a name stays a name."""
    title = title_of(metric)
    return title[0].lower() + title[1:] if title[1:2].islower() else title


def value_text(value: float, unit: str) -> str:
    """A figure in its unit, for people to read: 4100000 ns -> `4.1 ms`. An unknown unit stands after the number."""
    match unit:
        case "ns":
            return duration_ns_text(value)
        case "s":
            return duration_text(value)
        case "bytes":
            return size_text(value)
        case "bytes_per_s":
            return f"{size_text(value)}/s"
        case "per_s":
            return rate_text(value)
        case "ratio":
            return percent_text(value)
        case "s_per_gib":
            return f"{significant(value)} s/GiB"
    return f"{significant(value)} {unit}".rstrip()
