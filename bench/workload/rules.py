"""Rules over several sections of a workload: what cannot be done together is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from highwater.bench import units
from highwater.bench.metrics import COUNTS_OF_FATES
from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.values import NO_PROFILE, TEMPORARY_TARGET, FixedSize, KeyFaultError
from highwater.spark_loadgen import LoadSetupError
from highwater.spark_loadgen.wire.settings import WireSettings

if TYPE_CHECKING:
    from highwater.bench.workload.model import Producers, Records, Workload

# librdkafka's default, and what it counts beside a value without key and headers (a batch's header and a record's).
DEFAULT_MESSAGE_MAX_BYTES: Final = 1_000_000
RECORD_OVERHEAD_BYTES: Final = 100
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def check_external(workload: Workload) -> None:
    """Raises KeyFaultError for what this run cannot do to a cluster that somebody else runs."""
    storage, cluster = workload.storage, workload.system.external
    if cluster is None:
        return
    if storage.targets or storage.target != TEMPORARY_TARGET:
        raise KeyFaultError("storage", text="an external system writes where it writes; leave the storage targets out")
    if storage.cache_limit_bytes is not None:
        raise KeyFaultError("storage", "cache_limit", text="cannot be set for an external system; leave it out")
    if cluster.command_config is not None and workload.producers.driver == "wire":
        raise KeyFaultError(
            "producers", "driver", text="wire has neither TLS nor a login (the system's command_config); use client"
        )
    hosts = [address.rpartition(":")[0] for address in cluster.bootstrap_servers.split(",")]
    if workload.host.profile != NO_PROFILE and not all(host in _LOOPBACK for host in hosts):
        raise KeyFaultError(
            "host", "profile", text=f"would tune this host, and the external cluster is at {cluster.bootstrap_servers}"
        )


def check_at_once(workload: Workload) -> None:
    """Raises KeyFaultError for trials that cannot share a host, or not one processor of it."""
    if not workload.trials.at_once:
        return
    if workload.system.kind == "external":
        raise KeyFaultError("trials", "at_once", text="binds systems to one processor, and an external one is not ours")
    if not workload.host.is_left_alone:
        raise KeyFaultError("trials", "at_once", text="needs one host for all trials of a block; leave host out")
    if workload.faults:
        raise KeyFaultError("trials", "at_once", text="needs systems that stay as they are; leave faults out")
    if workload.trials.stop_when is not None:
        raise KeyFaultError(
            "trials", "at_once", text="a cell that stops would leave the others alone; leave trials.stop_when out"
        )


def check_consumers(workload: Workload) -> None:
    """Raises KeyFaultError for consumers that could not do what is asked."""
    consumers, partitions = workload.consumers, workload.topics.count * workload.topics.partitions
    if consumers.groups and consumers.per_group > partitions:
        raise KeyFaultError(
            "consumers", "per_group", text=f"{consumers.per_group} consumers cannot share {partitions} partitions"
        )
    if consumers.pairing == "pairs":
        if consumers.start != "with_load":
            raise KeyFaultError("consumers", "pairing", text="pairs read while they send; they need start: with_load")
        if consumers.groups != 1 or consumers.per_group != workload.producers.count:
            raise KeyFaultError(
                "consumers",
                "pairing",
                text=f"pairs need one group with a consumer for each producer; write groups: 1, "
                f"per_group: {workload.producers.count}",
            )
    if consumers.start != "with_load" and not consumers.count:
        raise KeyFaultError("consumers", "start", text="needs consumers, and there are none")
    if workload.checks.delivery == "exactly_once" and not consumers.count:
        raise KeyFaultError("checks", "delivery", text="exactly_once is found out by consumers, and there are none")


# What only some workloads have figures of: the beginning of a metric's name, what makes the figure, how to get it.
_NEEDED: Final[tuple[tuple[str, Callable[[Workload], object], str], ...]] = (
    ("e2e.", lambda workload: workload.consumers.count, "consumers, and there are none"),
    ("consume.", lambda workload: workload.consumers.count, "consumers, and there are none"),
    ("lag.", lambda workload: workload.consumers.count, "consumers, and there are none"),
    (
        "delivery.",
        lambda workload: workload.consumers.count and workload.checks.delivery != "none",
        "consumers that check what they get (checks.delivery)",
    ),
    (
        "backlog.",
        lambda workload: workload.consumers.start != "with_load",
        "consumers that find a backlog (consumers.start)",
    ),
    ("txn.", lambda workload: workload.producers.transactions, "producers.transactions"),
    ("recovery.", lambda workload: workload.faults, "faults"),
)


def check_figures(workload: Workload) -> None:
    """Raises KeyFaultError for a decision that waits for a figure which no trial of this workload can have."""
    stop = workload.trials.stop_when
    for name in workload.slo:
        if (lacking := _lacking(workload, name)) is not None:
            raise KeyFaultError("slo", name, text=f"needs {lacking}")
    if stop is not None:
        if (lacking := _lacking(workload, stop.of)) is not None:
            raise KeyFaultError("trials", "stop_when", "of", text=f"{stop.of} needs {lacking}")
        if stop.of.startswith(COUNTS_OF_FATES):
            raise KeyFaultError(
                "trials",
                "stop_when",
                "of",
                text=f"{stop.of} is 0 as a rule; name a rate or a latency",
            )
        if stop.min > workload.trials.n:
            raise KeyFaultError(
                "trials",
                "stop_when",
                "min",
                text=f"{stop.min} trials before a decision, and trials.n is {workload.trials.n}",
            )


def _lacking(workload: Workload, metric_name: str) -> str | None:
    for prefix, found, lacking in _NEEDED:
        if metric_name.startswith(prefix) and not found(workload):
            return lacking
    return None


def check_producers(workload: Workload) -> None:
    """Raises KeyFaultError for producers that could not do what is asked."""
    producers, records, load = workload.producers, workload.records, workload.load
    client = producers.client
    largest = client.get("message.max.bytes", DEFAULT_MESSAGE_MAX_BYTES)
    if records.size is not None and records.size.max_bytes + RECORD_OVERHEAD_BYTES > int(largest):
        raise KeyFaultError(
            "records",
            "size",
            text=f"{units.format_size(records.size.max_bytes)} is more than the producer sends "
            f"(message.max.bytes {largest}); raise producers.client.message.max.bytes and "
            "topics.config.max.message.bytes",
        )
    for step in load.steps:
        if step.rate_per_s < producers.count:
            rate = units.format_rate(step.rate_per_s)
            key = "rate" if load.schedule is None else "schedule"
            raise KeyFaultError("load", key, text=f"{rate} is less than one record a second per producer")
    if producers.driver == "wire":
        _check_wire(producers, records)
    if producers.transactions is not None:
        if str(client.get("acks", client.get("request.required.acks", "all"))) not in ("all", "-1"):
            raise KeyFaultError("producers", "transactions", text="need producers.client.acks: all")
        reads_aborted = workload.consumers.client.get("isolation.level") == "read_uncommitted"
        if producers.transactions.abort_ratio and workload.consumers.count and reads_aborted:
            raise KeyFaultError(
                "consumers",
                "client",
                "isolation.level",
                text="read_uncommitted also reads what is aborted (producers.transactions.abort_ratio), "
                "which no delivery check can tell from loss; leave it out",
            )


def _check_wire(producers: Producers, records: Records) -> None:
    """Raises KeyFaultError for what the wire driver, which writes prepared batches, does not have."""
    lacking = (
        ("producers", "transactions", producers.transactions is not None),
        ("records", "size", records.size is None or not isinstance(records.size, FixedSize)),
        ("records", "keys", records.keys != "none"),
    )
    for section, key, asked in lacking:
        if asked:
            raise KeyFaultError(
                section,
                key,
                text="needs producers.driver: client; wire sends values of one size, without keys and transactions",
            )
    try:
        WireSettings.of(to_librdkafka("producer", producers.client))
    except LoadSetupError as problem:
        raise KeyFaultError("producers", "client", text=str(problem)) from None
