"""Which ceilings of the load generator a calibration measures, and which it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from highwater.bench.calibrate.ceiling import (
    ConsumerTrial,
    ProducerTrial,
    at_full_speed,
    ceiling_of,
    consumer_ceiling_of,
    reading_at_full_speed,
)
from highwater.bench.trials.given_calibration import consumer_shape_of, shape_of
from highwater.bench.trials.load_plan import load_plan_of
from highwater.bench.trials.trial import Launcher
from highwater.bench.workload.specification import Cell, Specification
from highwater.results.calibration import ConsumerCeiling, GeneratorCeiling
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule

_SIZES_WITHOUT_A_WORKLOAD: Final = (100, 1024)
_SEED: Final = 1
_Result = TypeVar("_Result", ProducerTrial, ConsumerTrial)


@dataclass(slots=True)
class Ceilings:
    """The measured ceilings, and notes on those that could not be measured."""

    producers: list[GeneratorCeiling]
    consumers: list[ConsumerCeiling]
    notes: list[str]


@dataclass(slots=True)
class _Attempts:
    """Runs trials of several kinds and reports each one. A kind that fails is not tried again."""

    tell: Callable[[str], None]
    notes: list[str] = field(default_factory=list)
    _refused: set[str] = field(default_factory=set)

    def add(self, name: str, round_text: str, taken: list[_Result], run: Callable[[], _Result]) -> _Result | None:
        if name in self._refused:
            return None
        self.tell(f"ceiling {round_text} of {name}")
        try:
            taken.append(run())
        except (LoadSetupError, LoadFailed) as error:
            self._refused.add(name)
            taken.clear()
            self.notes.append(f"no ceiling of {name}: {error}")
            return None
        return taken[-1]


def measure_ceilings(
    specification: Specification | None, launcher: Launcher, repeats: int, tell: Callable[[str], None]
) -> Ceilings:
    """Measure in rounds; each round runs every kind of tasks once, so that drift affects all equally."""
    attempts = _Attempts(tell)
    loads = _loads(specification, attempts.notes)
    sending: list[tuple[LoadPlan, list[ProducerTrial]]] = [(plan, []) for plan in _sending(loads, specification)]
    reading: list[tuple[LoadPlan, list[ConsumerTrial]]] = [(plan, []) for plan in _reading(loads)]
    for number in range(1, repeats + 1):
        round_text = f"{number}/{repeats}"
        sent: dict[str, ProducerTrial] = {}
        for plan, taken in sending:
            trial = attempts.add(shape_of(plan).text, round_text, taken, partial(at_full_speed, plan, launcher))
            if trial is not None:
                sent[_key(plan)] = trial
        for plan, read in reading:
            # If the producers have no ceiling, a note says why, and consumers have nothing to read.
            if (producers := sent.get(_key(plan))) is not None:
                run = partial(reading_at_full_speed, plan, producers, launcher)
                attempts.add(consumer_shape_of(plan).text, round_text, read, run)
    return Ceilings(
        producers=[ceiling_of(plan, taken) for plan, taken in sending if taken],
        consumers=[consumer_ceiling_of(plan, read) for plan, read in reading if read],
        notes=attempts.notes,
    )


def names_of_ceilings(specification: Specification | None) -> list[str]:
    """The names of the ceilings that `measure_ceilings` would measure in each round."""
    loads = _loads(specification, [])
    sending = [shape_of(plan).text for plan in _sending(loads, specification)]
    return sending + [consumer_shape_of(plan).text for plan in _reading(loads)]


def _key(plan: LoadPlan) -> str:
    return shape_of(plan).model_dump_json()


def _reading(loads: list[LoadPlan]) -> list[LoadPlan]:
    """One load for each consumer shape of these loads."""
    return list({consumer_shape_of(plan).model_dump_json(): plan for plan in loads if plan.consumers}.values())


def _loads(specification: Specification | None, notes: list[str]) -> list[LoadPlan]:
    """The loads of the workload's cells; without a workload, one producer and one consumer for each of some sizes."""
    if specification is None:
        return [_plain(FixedSize(size)) for size in _SIZES_WITHOUT_A_WORKLOAD]
    plans = [_plan_of(specification, cell) for cell in specification.cells]
    if any(plan.transactions is not None for plan in plans):
        notes.append("no ceiling of transactional producers: the null broker knows none")
        plans = [plan for plan in plans if plan.transactions is None] or [_plain(plans[0].sizes)]
    return plans


def _sending(loads: list[LoadPlan], specification: Specification | None) -> list[LoadPlan]:
    """One load for each producer shape of these loads, and one producer of each driver."""
    # Without consumers: pairs would need one consumer for each producer.
    alone = [replace(plan, groups=0, consumers_per_group=0, pairs=False) for plan in loads]
    plans = alone + [replace(plan, producers=1) for plan in (alone if specification is None else alone[:1])]
    plans += [wire for plan in list(plans) if (wire := _by_wire(plan)) is not None]
    return list({_key(plan): plan for plan in plans}.values())


def _plain(sizes: object) -> LoadPlan:
    return LoadPlan(
        bootstrap_servers="",
        topics=("calibration",),
        partitions=4,
        producers=1,
        groups=1,
        consumers_per_group=1,
        schedule=OpenSchedule.constant(1.0),
        warmup=0,
        measure_s=1,
        drain_max_s=10,
        sizes=sizes if isinstance(sizes, FixedSize) else FixedSize(1024),
        payload=GeneratedPayload(),
        seed=_SEED,
    )


def _plan_of(specification: Specification, cell: Cell) -> LoadPlan:
    """The load plan of a cell."""
    topics = tuple(f"calibration-{number}" for number in range(cell.workload.topics.count))
    payload_file = specification.payload_file(cell.workload)
    return load_plan_of(
        cell.workload,
        bootstrap_servers="",
        topics=topics,
        payload_file=payload_file,
        seed=_SEED,
        traces=specification.traces(cell.workload),
    )


def _by_wire(plan: LoadPlan) -> LoadPlan | None:
    """One wire producer with the same records; None when the wire driver cannot send them."""
    try:
        return replace(plan, driver="wire", producers=1, producer_config={})
    except LoadSetupError:
        return None
