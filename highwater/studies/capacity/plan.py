"""A plan: how many brokers, what binds, how sure it is, what changes it, what is not known. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from highwater.common.ceilings import HostClass
from highwater.common.errors import UsageError
from highwater.studies.capacity.ceilings import Ceilings, DiskSamples, Measured, Origin, Prediction
from highwater.studies.capacity.costs import SYNCED
from highwater.studies.capacity.demand import DISK_WRITE, BrokerState, least_brokers, partitions_of, worst_broker
from highwater.studies.capacity.disks import Array, array_of
from highwater.studies.capacity.draws import Draw, draws, interval, middle, predictions
from highwater.studies.capacity.load import LAYOUTS, LEAST_DISKS, Layout, Load, Retention, Topic
from highwater.studies.capacity.measured import WORKLOAD
from highwater.studies.capacity.narrowing import Narrowing, Span, narrowing
from highwater.studies.capacity.sizing import (
    MOST_BROKERS,
    GrowthForecast,
    largest_factor,
    month_reached,
    smallest_cluster,
)
from highwater.studies.capacity.unknown import Unknown, unknown_to

PLAN_SCHEMA: Final = "capacity.plan/2"
AIMED_ERROR_RATIO: Final = 0.10
REFUSED_ERROR_RATIO: Final = 0.25
"""Costs that miss a held-out cell by more than this make no plan."""
ENOUGH_TRIALS: Final = 3
"""Fewer trials of a cell do not show how far trials are apart: costs may be off by REFUSED_ERROR_RATIO."""
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    replication: int
    min_insync_replicas: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiskChoice:
    """The same number of disks in another layout, or disks of another measured target."""

    target: str
    medium: str
    emulation: str
    disk_write_bytes_per_s: float
    """The speed of one disk that appends to one file."""
    write_bytes_per_s: float
    """The speed of all disks, with the files of the plan's partitions."""
    array: Array
    copies: float
    """Bytes on disks for each byte of the topic with the most replicas."""
    lost_disk_s: float
    """How long replicas are missing after a disk failed; 0 if the array hides it."""
    brokers: int | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How many brokers it would be if one thing were different."""

    change: str
    brokers: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    fits: bool
    brokers: int | None
    """The smallest number that carries the load; None if no number does."""
    brokers_low: int | None
    brokers_high: int | None
    """Low and high: what 95 of 100 draws need; None if the load fits no number of brokers in one of them."""
    asked_brokers: int | None
    """What the question was about; None: how many are needed."""
    factor: float | None
    """How many times the load the requested brokers carry, with its interval."""
    factor_low: float | None
    factor_high: float | None
    least_brokers: int
    state: BrokerState | None
    """The state of the worst broker among the requested or the needed ones; None if none of them would be up."""
    state_brokers: int
    topics: tuple[TopicPlan, ...]
    disks: tuple[DiskChoice, ...]
    sensitivities: tuple[Sensitivity, ...]
    growth: GrowthForecast | None
    predictions: tuple[Prediction, ...]
    unknown: tuple[Unknown, ...]
    host: HostClass
    other_memory: str
    """How much the memory of the planned hosts differs from that of the measured one; empty if it is alike."""
    system: str
    runs: tuple[str, ...]
    trials_used: int
    trials_left_out: int
    made_on: str
    """The day, such as 2026-11-27."""
    origin: Origin | None = None
    """Where the ceilings come from if they are of a reference host."""
    few_trials: bool = False
    """A cell has fewer than ENOUGH_TRIALS trials."""
    narrowing: Narrowing | None = None
    schema: str = PLAN_SCHEMA


def make_plan(load: Load, measured: Measured, today: date, brokers: int | None = None) -> Plan:
    """The plan for a load; brokers: whether so many carry it. Raises UsageError for ceilings that nobody measured."""
    if measured.reference is None:
        _check_host(load, measured)
    disk = _disk(load, measured)
    ceilings = middle(measured, disk)
    _check_known(load, measured, ceilings)
    _check_syncs(load, measured, ceilings)
    found = predictions(measured, ceilings.costs)
    error_ratio = max((abs(each.error_ratio) for each in found), default=0.0)
    _check_errors(found)
    fewest_trials = min((len(cell.trials) for cell in measured.cells), default=ENOUGH_TRIALS)
    if fewest_trials < ENOUGH_TRIALS:
        error_ratio = max(error_ratio, REFUSED_ERROR_RATIO)

    array = _array(load, disk, ceilings)
    needed = smallest_cluster(load, ceilings, array)
    drawn = draws(measured, disk, load.range_ratio, error_ratio)
    arrays = [_array(load, disk, draw.ceilings) for draw in drawn]
    low, high = _brokers_interval(load, drawn, arrays, needed)
    shown = brokers if brokers is not None else needed if needed is not None else MOST_BROKERS
    least = least_brokers(load)
    state = worst_broker(load, ceilings, array, shown) if shown > load.cluster.brokers_down else None
    factor = factor_low = factor_high = None
    if brokers is not None:
        factor = largest_factor(load, ceilings, array, brokers)
        factor_low, factor_high = interval(_factors(load, drawn, arrays, brokers))

    def span_of(some: Sequence[Draw]) -> Span:
        own = [_array(load, disk, draw.ceilings) for draw in some]
        if brokers is not None:
            return interval(_factors(load, some, own, brokers))
        return _brokers_interval(load, some, own, needed)

    return Plan(
        name=load.name,
        fits=needed is not None if brokers is None else state is not None and state.fits and brokers >= least,
        brokers=needed,
        brokers_low=low,
        brokers_high=high,
        asked_brokers=brokers,
        factor=factor,
        factor_low=None if factor is None or factor_low is None else min(factor_low, factor),
        factor_high=None if factor is None or factor_high is None else max(factor_high, factor),
        least_brokers=least,
        state=state,
        state_brokers=shown,
        topics=tuple(_topic_plan(name, topic, ceilings, shown) for name, topic in load.topics.items()),
        disks=tuple(_disk_choices(load, measured, disk, shown)),
        sensitivities=tuple(_sensitivities(load, ceilings, array)),
        growth=_growth(load, ceilings, array, drawn, arrays, shown, today),
        predictions=tuple(found),
        unknown=tuple(unknown_to(load, measured, ceilings, state)),
        host=measured.host,
        other_memory="" if measured.reference is not None else _other_memory(load, measured.host),
        system=measured.system,
        runs=measured.runs,
        trials_used=measured.trials_used,
        trials_left_out=measured.trials_left_out,
        made_on=today.isoformat(),
        origin=None if measured.reference is None else measured.reference.origin,
        few_trials=fewest_trials < ENOUGH_TRIALS,
        narrowing=narrowing(drawn, ceilings, span_of),
    )


def _check_host(load: Load, measured: Measured) -> None:
    """Raises UsageError if the load file names another processor, or another number of CPUs, than was measured."""
    hosts, host = load.hosts, measured.host
    for key, wanted, found in (("cpu_model", hosts.cpu_model, host.cpu_model), ("cpus", hosts.cpus, host.cpu_count)):
        if wanted is not None and wanted != found:
            raise UsageError(
                f"hosts.{key}: {wanted} was not measured ({', '.join(measured.runs)} is of {found}): run {WORKLOAD} on "
                f"such a host, or leave {key} out to plan hosts like the measured one"
            )


def _disk(load: Load, measured: Measured) -> DiskSamples:
    """The measured target that the planned hosts have disks like; of a reference host, its first."""
    if measured.reference is not None:
        return measured.disks[0]
    names = [disk.target for disk in measured.disks]
    if not names:
        raise UsageError(f"{', '.join(measured.runs)}: no disk was measured; install fio and run {WORKLOAD} again")
    wanted = load.hosts.disks.target
    if wanted is None and len(names) > 1:
        raise UsageError(f"hosts.disks.target is missing: {', '.join(names)} were measured; name the one to plan with")
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"hosts.disks.target: {wanted} was not measured ({', '.join(names)} was); "
            f"run {WORKLOAD} with --storage {wanted}=DIRECTORY"
        )
    found = next(disk for disk in measured.disks if wanted in (None, disk.target))
    if found.medium == "memory":
        raise UsageError(
            f"{', '.join(measured.runs)}: {found.target} is in memory and no disk; "
            f"run {WORKLOAD} with --storage data=DIRECTORY on a disk"
        )
    return found


def _check_known(load: Load, measured: Measured, ceilings: Ceilings) -> None:
    """Raises UsageError if the load has a kind of work whose cost nobody measured."""
    known, topics = ceilings.costs.batch_bytes, load.topics.values()
    wanted = {
        "produced": True,
        "consumed": any(topic.groups or topic.replay_bytes_per_s for topic in topics),
        "replicated": any(topic.replication > 1 for topic in topics),
    }
    if missing := [kind for kind, is_wanted in wanted.items() if is_wanted and kind not in known]:
        raise UsageError(
            f"{', '.join(measured.runs)}: what {' and '.join(missing)} bytes cost was not measured with two sizes of "
            f"batches; highwater bench run {WORKLOAD} measures it"
        )


def _check_syncs(load: Load, measured: Measured, ceilings: Ceilings) -> None:
    """Raises UsageError if a topic has fsync and nobody measured what that costs."""
    synced = next((name for name, topic in load.topics.items() if topic.fsync), None)
    if synced is not None and not (SYNCED in ceilings.costs.known and ceilings.disk_syncs_per_s):
        raise UsageError(
            f"topics.{synced}.fsync: {', '.join(measured.runs)} has no trials with flush.messages: 1, or no fsync of "
            f"fio; highwater bench run {WORKLOAD} measures both"
        )


def _check_errors(found: Sequence[Prediction]) -> None:
    held_out = [each for each in found if not each.in_turn]
    worst = max(held_out, key=lambda each: abs(each.error_ratio), default=None)
    if worst is not None and abs(worst.error_ratio) > REFUSED_ERROR_RATIO:
        raise UsageError(
            f"the costs say {worst.predicted_cores:.2f} cores for the held-out cell {worst.cell}, and it used "
            f"{worst.measured_cores:.2f}: an error above {REFUSED_ERROR_RATIO:.0%} makes no plan. Measure again on a "
            "quiet host, with more trials"
        )


def _array(load: Load, disk: DiskSamples, ceilings: Ceilings, layout: Layout | None = None) -> Array:
    """The disks of a broker, at the rates of `ceilings`, which are those of `disk`."""
    disks = load.hosts.disks
    return array_of(
        layout or disks.layout,
        disks.count,
        disks.size_bytes,
        ceilings.disk_write_bytes_per_s,
        ceilings.disk_read_bytes_per_s,
        disks.imbalance,
    )


def _brokers_interval(
    load: Load, drawn: Sequence[Draw], arrays: Sequence[Array], needed: int | None
) -> tuple[int | None, int | None]:
    if needed is None:
        return None, None
    found = [
        smallest_cluster(load, draw.ceilings, array, draw.factor) for draw, array in zip(drawn, arrays, strict=True)
    ]
    low, high = interval([MOST_BROKERS + 1 if each is None else each for each in found])
    return min(int(low), needed), max(int(high), needed) if high <= MOST_BROKERS else None


def _factors(load: Load, drawn: Sequence[Draw], arrays: Sequence[Array], brokers: int) -> list[float]:
    """How many times the load fits, in each draw."""
    return [
        largest_factor(load, draw.ceilings, array, brokers) / draw.factor
        for draw, array in zip(drawn, arrays, strict=True)
    ]


def _topic_plan(name: str, topic: Topic, ceilings: Ceilings, brokers: int) -> TopicPlan:
    partitions = partitions_of(topic, ceilings.partition_bytes_per_s, brokers)
    hottest = topic.hottest_key_ratio * topic.peak_bytes_per_s
    notes = ["flush.messages=1: each batch is on the disk before it is acknowledged"] if topic.fsync else []
    for limit, whose in (
        (ceilings.partition_bytes_per_s, "one partition takes"),
        (topic.consumer_bytes_per_s, "one consumer reads"),
    ):
        if limit is not None and hottest > limit:
            notes.append(
                f"its hottest key has {hottest / 1e6:.3g} MB/s, and {whose} {limit / 1e6:.3g} MB/s: more partitions do "
                "not help"
            )
    if topic.hottest_key_ratio and 1 < topic.partitions < partitions:
        notes.append(
            f"it has {topic.partitions} partitions and keys: with more, keys move to other partitions, "
            "and their order across the change is lost"
        )
    return TopicPlan(name, partitions, topic.replication, topic.min_insync_replicas, tuple(notes))


def _disk_choices(load: Load, measured: Measured, planned: DiskSamples, shown: int) -> list[DiskChoice]:
    disks = load.hosts.disks
    copies = max(topic.replication for topic in load.topics.values())
    found = []
    for disk in measured.disks:
        ceilings = middle(measured, disk)
        for layout in LAYOUTS:
            if disks.count < LEAST_DISKS[layout] or (layout == "raid10" and disks.count % 2):
                continue
            array = _array(load, disk, ceilings, layout)
            needed = smallest_cluster(load, ceilings, array)
            state = worst_broker(load, ceilings, array, needed or shown)
            found.append(
                DiskChoice(
                    disk.target,
                    disk.medium,
                    disk.emulation,
                    ceilings.disk_write_bytes_per_s,
                    next(demand.ceiling for demand in state.demands if demand.resource == DISK_WRITE),
                    array,
                    copies * array.raw_bytes_of_a_byte,
                    state.recovery_s * array.lost_share if array.lost_share else 0.0,
                    needed,
                    disk is planned and layout == disks.layout,
                )
            )
    return found


def _sensitivities(load: Load, ceilings: Ceilings, array: Array) -> list[Sensitivity]:
    def with_topics(change: Callable[[Topic], dict[str, object]]) -> Load:
        topics = {name: topic.model_copy(update=change(topic)) for name, topic in load.topics.items()}
        return load.model_copy(update={"topics": topics})

    def kept(topic: Topic, factor: float) -> Retention:
        old = topic.retention
        return old.model_copy(
            update={
                "time_s": None if old.time_s is None else old.time_s * factor,
                "bytes_per_partition": None
                if old.bytes_per_partition is None
                else int(old.bytes_per_partition * factor),
            }
        )

    down = load.cluster.model_copy(update={"brokers_down": load.cluster.brokers_down + 1})
    changes = [
        ("a quarter more of all rates", with_topics(lambda topic: _faster(topic, 1.25))),
        ("batches four times as large", with_topics(lambda topic: {"batch_bytes": topic.batch_bytes * 4})),
        ("batches a quarter as large", with_topics(lambda topic: {"batch_bytes": max(1, topic.batch_bytes // 4)})),
        ("one more consumer group for each topic", with_topics(lambda topic: {"groups": topic.groups + 1})),
        ("one more copy of each partition", with_topics(lambda topic: {"replication": topic.replication + 1})),
        ("twice the retention", with_topics(lambda topic: {"retention": kept(topic, 2.0)})),
        ("half the retention", with_topics(lambda topic: {"retention": kept(topic, 0.5)})),
    ]
    if all(topic.replication - down.brokers_down >= topic.min_insync_replicas for topic in load.topics.values()):
        changes.append(("one more broker down", load.model_copy(update={"cluster": down})))
    if (
        SYNCED in ceilings.costs.known
        and ceilings.disk_syncs_per_s
        and not all(topic.fsync for topic in load.topics.values())
    ):
        changes.append(("fsync of each batch before it is acknowledged", with_topics(lambda _: {"fsync": True})))
    if "replicated" not in ceilings.costs.batch_bytes:
        changes = [change for change in changes if not change[0].startswith("one more copy")]
    if "consumed" not in ceilings.costs.batch_bytes:
        changes = [change for change in changes if "consumer group" not in change[0]]
    return [Sensitivity(text, smallest_cluster(changed, ceilings, array)) for text, changed in changes]


def _faster(topic: Topic, factor: float) -> dict[str, object]:
    mean = topic.mean_bytes_per_s
    return {
        "peak_bytes_per_s": topic.peak_bytes_per_s * factor,
        "mean_bytes_per_s": None if mean is None else mean * factor,
        "replay_bytes_per_s": topic.replay_bytes_per_s * factor,
    }


def _growth(
    load: Load,
    ceilings: Ceilings,
    array: Array,
    drawn: Sequence[Draw],
    arrays: Sequence[Array],
    brokers: int,
    today: date,
) -> GrowthForecast | None:
    if load.growth is None:
        return None
    ratio, months = load.growth.per_month_ratio, load.growth.months
    low, high = interval(_factors(load, drawn, arrays, brokers))
    factor = largest_factor(load, ceilings, array, brokers)
    return GrowthForecast(
        per_month_ratio=ratio,
        reached=month_reached(today, factor, ratio),
        earliest=month_reached(today, min(low, factor), ratio),
        latest=month_reached(today, max(high, factor), ratio),
        months=months,
        brokers_then=smallest_cluster(load, ceilings, array, (1 + ratio) ** months),
    )


def _other_memory(load: Load, host: HostClass) -> str:
    planned = load.hosts.memory_bytes
    if planned > 2 * host.memory_bytes or 2 * planned < host.memory_bytes:
        return f"{host.memory_bytes / _GIB:.3g} GiB of memory, planned {planned / _GIB:.3g} GiB"
    return ""
