"""Rules over several sections of a workload file, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from highwater.bench.workload.aims import Aim
from highwater.bench.workload.client_properties import to_librdkafka
from highwater.bench.workload.faults import Fault
from highwater.bench.workload.host import Host
from highwater.bench.workload.question import Question
from highwater.bench.workload.rebalance import Rebalance
from highwater.bench.workload.sections import (
    Checks,
    Consumers,
    Load,
    Producers,
    Records,
    Storage,
    Topics,
    Trials,
)
from highwater.bench.workload.system import SystemUnderTest
from highwater.bench.workload.values import NO_PROFILE, TEMPORARY_TARGET, FixedSize, KeyFaultError
from highwater.common import quantities
from highwater.results.bounds import Bound
from highwater.results.metrics import COUNTS_OF_FATES
from highwater.results.rebalance import KINDS
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.wire_settings import WireSettings

# librdkafka's default, and what it adds to the size of a value without key and headers (headers of batch and record).
DEFAULT_MESSAGE_MAX_BYTES: Final = 1_000_000
RECORD_OVERHEAD_BYTES: Final = 100
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def check_external(system: SystemUnderTest, storage: Storage, producers: Producers, host: Host) -> None:
    """Raises KeyFaultError for what this run cannot do to an external cluster."""
    cluster = system.external
    if cluster is None:
        return
    if storage.targets or storage.target != TEMPORARY_TARGET:
        raise KeyFaultError("storage", text="an external system has its own storage; remove the storage targets")
    if storage.cache_limit_bytes is not None:
        raise KeyFaultError("storage", "cache_limit", text="cannot be set for an external system; remove it")
    if cluster.command_config is not None and producers.driver == "wire":
        raise KeyFaultError(
            "producers",
            "driver",
            text="wire supports neither TLS nor a login (the system's command_config); use client",
        )
    hosts = [address.rpartition(":")[0] for address in cluster.bootstrap_servers.split(",")]
    if host.profile != NO_PROFILE and not all(name in _LOOPBACK for name in hosts):
        raise KeyFaultError(
            "host", "profile", text=f"would tune this host, but the external cluster is at {cluster.bootstrap_servers}"
        )


def check_at_once(trials: Trials, system: SystemUnderTest, host: Host, faults: Sequence[Fault]) -> None:
    """Raises KeyFaultError for trials that cannot share one processor of a host."""
    if not trials.at_once:
        return
    if system.kind == "external":
        raise KeyFaultError(
            "trials", "at_once", text="binds systems to one processor; this run cannot bind an external one"
        )
    if not host.is_left_alone:
        raise KeyFaultError("trials", "at_once", text="needs the same host for all trials of a block; remove host")
    if faults:
        raise KeyFaultError("trials", "at_once", text="needs systems without faults; remove faults")
    if trials.stop_when is not None:
        raise KeyFaultError(
            "trials",
            "at_once",
            text="a cell that stops leaves more processor to the others; remove trials.stop_when",
        )


def check_consumers(consumers: Consumers, topics: Topics, producers: Producers, checks: Checks) -> None:
    """Raises KeyFaultError for consumers that do not fit the rest of the workload."""
    partitions = topics.count * topics.partitions
    if consumers.groups and consumers.per_group > partitions:
        raise KeyFaultError(
            "consumers", "per_group", text=f"{consumers.per_group} consumers cannot share {partitions} partitions"
        )
    if consumers.pairing == "pairs":
        if consumers.start != "with_load":
            raise KeyFaultError("consumers", "pairing", text="pairs read during the load; they need start: with_load")
        if consumers.groups != 1 or consumers.per_group != producers.count:
            raise KeyFaultError(
                "consumers",
                "pairing",
                text=f"pairs need one group with a consumer for each producer; write groups: 1, "
                f"per_group: {producers.count}",
            )
    if consumers.start != "with_load" and not consumers.count:
        raise KeyFaultError("consumers", "start", text="needs consumers, but there are none")
    if checks.delivery == "exactly_once" and not consumers.count:
        raise KeyFaultError("checks", "delivery", text="exactly_once is checked by consumers, but there are none")


def missing_prerequisites(
    consumers: Consumers,
    producers: Producers,
    checks: Checks,
    faults: Sequence[Fault],
    restart: str | None,
    rebalance: Rebalance | None,
) -> list[tuple[str, str]]:
    """Returns the prefixes of the metrics that this workload does not measure, each with what the metric needs."""
    no_consumers = "consumers, but there are none"
    checked = consumers.count and checks.delivery != "none"
    of_tasks, timed = not producers.native, producers.driver != "rdkafka_performance"
    changes = {change.do for change in rebalance.changes} if rebalance else set()
    by_tasks = f"producers.driver: client or wire; {producers.driver} reports totals only"
    prerequisites = (
        ("produce.p", timed, "producers.driver: client, wire or wire_load; rdkafka_performance times no record"),
        ("produce.max", timed, "producers.driver: client, wire or wire_load; rdkafka_performance times no record"),
        ("produce.service.", of_tasks, by_tasks),
        ("send_delay.", of_tasks, by_tasks),
        ("e2e.", of_tasks, by_tasks),
        ("lag.", of_tasks, by_tasks),
        ("delivery.", of_tasks, by_tasks),
        ("partition.skew_ratio", of_tasks, by_tasks),
        ("steady.", of_tasks, by_tasks),
        ("backlog.", of_tasks, by_tasks),
        ("consume.cold_read_ratio", consumers.cold, "consumers.cold: true"),
        ("storage.cold_read", consumers.cold, "consumers.cold: true"),
        ("restart.", restart, "restart: kill or stop"),
        ("e2e.", consumers.count, no_consumers),
        ("consume.", consumers.count, no_consumers),
        ("lag.", consumers.count, no_consumers),
        ("delivery.", checked, "consumers that check records (checks.delivery)"),
        ("backlog.", consumers.start != "with_load", "consumers that start with a backlog (consumers.start)"),
        ("txn.", producers.transactions, "producers.transactions"),
        ("recovery.", faults, "faults"),
        *((f"rebalance.{kind}.", kind in changes, f"a change of rebalance.changes with do: {kind}") for kind in KINDS),
        ("rebalance.", rebalance, "rebalance"),
    )
    return [(prefix, needed) for prefix, found, needed in prerequisites if not found]


def check_figures(
    slo: Mapping[str, Bound],
    trials: Trials,
    aims: Sequence[Aim],
    answer: Question | None,
    missing: Sequence[tuple[str, str]],
) -> None:
    """Raises KeyFaultError for a decision that needs a figure which no trial of this workload has."""
    stop = trials.stop_when
    for name in slo:
        if (lacking := _lacking(missing, name)) is not None:
            raise KeyFaultError("slo", name, text=f"needs {lacking}")
    for number, aim in enumerate(aims):
        for name in aim.ratio:
            if (lacking := _lacking(missing, name)) is not None:
                raise KeyFaultError("aims", number, "ratio", name, text=f"needs {lacking}")
    for number, name in enumerate((answer.best if answer else None) or []):
        if (lacking := _lacking(missing, name)) is not None:
            raise KeyFaultError("answer", "best", number, text=f"{name} needs {lacking}")
    if stop is not None:
        if (lacking := _lacking(missing, stop.of)) is not None:
            raise KeyFaultError("trials", "stop_when", "of", text=f"{stop.of} needs {lacking}")
        if stop.of.startswith(COUNTS_OF_FATES):
            raise KeyFaultError(
                "trials",
                "stop_when",
                "of",
                text=f"{stop.of} is usually 0; name a rate or a latency",
            )
        if stop.min > trials.n:
            raise KeyFaultError(
                "trials",
                "stop_when",
                "min",
                text=f"{stop.min} trials before a decision, but trials.n is {trials.n}",
            )


def _lacking(missing: Sequence[tuple[str, str]], metric_name: str) -> str | None:
    return next((needed for prefix, needed in missing if metric_name.startswith(prefix)), None)


def check_restart(restart: str | None, system: SystemUnderTest, faults: Sequence[Fault]) -> None:
    """Raises KeyFaultError for a system that this run cannot start again, or that faults end before."""
    if restart is None:
        return
    if system.kind == "external" or system.kind == "bare-loop":
        raise KeyFaultError("restart", text=f"needs a broker that this run starts, not {system.kind}")
    if system.nodes > 1:
        raise KeyFaultError("restart", text="works with one broker; use faults for the brokers of a cluster")
    if faults:
        raise KeyFaultError("restart", text="needs a load without faults; remove faults")


def check_processes(
    system: SystemUnderTest, producers: Producers, restart: str | None, faults: Sequence[Fault]
) -> None:
    """Raises KeyFaultError for what is done to, or sent to, one process, where the broker has several."""
    if system.kind != "highwater" or system.processes is None:
        return
    if restart is not None or faults:
        raise KeyFaultError("system", "processes", text="does not fit restart and faults, which end one process")
    if producers.native:
        text = f"needs the driver client or wire: {producers.driver} sends to one process"
        raise KeyFaultError("system", "processes", text=text)


def check_producers(producers: Producers, records: Records, load: Load, consumers: Consumers) -> None:
    """Raises KeyFaultError for producers that do not fit the rest of the workload."""
    client = producers.client
    largest = client.get("message.max.bytes", DEFAULT_MESSAGE_MAX_BYTES)
    record_bytes = _largest_value_bytes(records)
    if record_bytes is not None and record_bytes + RECORD_OVERHEAD_BYTES > int(largest):
        raise KeyFaultError(
            "records",
            "size" if records.trace is None else "trace",
            text=f"{quantities.format_size(record_bytes)} is more than the producer can send "
            f"(message.max.bytes {largest}); raise producers.client.message.max.bytes and "
            "topics.config.max.message.bytes",
        )
    for step in load.steps:
        if step.rate_per_s < producers.count:
            rate = quantities.format_rate(step.rate_per_s)
            key = "trace" if load.trace is not None else "rate" if load.schedule is None else "schedule"
            raise KeyFaultError("load", key, text=f"{rate} is less than one record a second per producer")
    if producers.driver == "wire":
        _check_wire(producers, records)
    if producers.transactions is not None:
        if str(client.get("acks", client.get("request.required.acks", "all"))) not in ("all", "-1"):
            raise KeyFaultError("producers", "transactions", text="need producers.client.acks: all")
        reads_aborted = consumers.client.get("isolation.level") == "read_uncommitted"
        if producers.transactions.abort_ratio and consumers.count and reads_aborted:
            raise KeyFaultError(
                "consumers",
                "client",
                "isolation.level",
                text="read_uncommitted also reads aborted records (producers.transactions.abort_ratio), "
                "which the delivery check cannot distinguish from loss; remove it",
            )


def _largest_value_bytes(records: Records) -> int | None:
    if records.trace is not None:
        return records.trace.max_bytes
    return None if records.size is None else records.size.max_bytes


def _check_wire(producers: Producers, records: Records) -> None:
    """Raises KeyFaultError for what the wire driver does not support: it sends prepared batches."""
    lacking = (
        ("producers", "transactions", producers.transactions is not None),
        ("records", "trace", records.trace is not None),
        ("records", "size", records.size is None or not isinstance(records.size, FixedSize)),
        ("records", "keys", records.keys != "none"),
    )
    for section, key, is_used in lacking:
        if is_used:
            raise KeyFaultError(
                section,
                key,
                text="needs producers.driver: client; wire sends values of one size, without keys and transactions",
            )
    try:
        WireSettings.of(to_librdkafka("producer", producers.client))
    except LoadSetupError as problem:
        raise KeyFaultError("producers", "client", text=str(problem)) from None
