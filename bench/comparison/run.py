"""The comparison itself: which cell on which system when; checked, and told as it goes.

Within each repeat all systems run side by side, freshly started and warmed up; the cells follow one another in random
order, and within a cell the systems. Cells that start systems of their own come after that, with no other running.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import KafkaException

from highwater.bench.comparison.cells import (
    KIB,
    MIB,
    PARTITIONS,
    Cell,
    Figures,
    Stage,
    Topic,
    WarmCell,
    librdkafka,
    prepared,
)
from highwater.bench.comparison.contenders import BARE_LOOP, Broker, Contender
from highwater.bench.comparison.results import Measure, Sample, ThrownOut
from highwater.bench.comparison.start_cells import StartCell
from highwater.bench.errors import TrialError
from highwater.bench.native.clients import batches_of, consume, one_record_per_request
from highwater.bench.systems.highwater import HIGHWATER
from highwater.bench.units import human_duration

T = TypeVar("T")

_WARM_UP_RECORDS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is measured."""

    repeats: int
    load_s: float
    warm_up_s: float
    scale: float
    seed: int


@dataclass(slots=True)
class Measured:
    """What came of one cell."""

    samples: list[Sample]
    thrown_out: list[ThrownOut]


class Comparison:
    """Cells on contenders. `say` is told one line for every measurement."""

    def __init__(
        self, scope: Scope, contenders: Mapping[str, Contender], storage: Path, say: Callable[[str], None]
    ) -> None:
        self._scope = scope
        self._contenders = contenders
        self._storage = storage
        self._say = say
        self._random = random.Random(scope.seed)
        self._started_s = time.monotonic()
        self._steps = 0
        self._done = 0

    def measure(
        self,
        warm_cells: Sequence[WarmCell],
        start_cells: Sequence[StartCell],
        keep: Callable[[Cell, Measured], None],
    ) -> None:
        """`keep` is called with every cell that has had all its repeats."""
        self._steps = self._scope.repeats * sum(len(self._systems_of(cell)) for cell in (*warm_cells, *start_cells))
        self._measure_warm(warm_cells, keep)
        for cell in start_cells:
            self._measure_starts(cell, keep)

    def _systems_of(self, cell: Cell) -> list[str]:
        return [name for name in cell.systems if name in self._contenders]

    def _measure_warm(self, cells: Sequence[WarmCell], keep: Callable[[Cell, Measured], None]) -> None:
        if not cells:
            return
        measured = [Measured([], []) for _ in cells]
        names = {name for cell in cells for name in self._systems_of(cell)}
        for repeat in range(1, self._scope.repeats + 1):
            try:
                with self._stage() as stage, self._running(stage, names) as brokers:
                    for index in self._shuffled(range(len(cells))):
                        self._measure_on(stage, brokers, cells[index], measured[index], repeat)
            except (TrialError, KafkaException) as error:  # while starting or warming up
                for cell, result in zip(cells, measured, strict=True):
                    for system in self._systems_of(cell):
                        self._throw_out(result, repeat, cell, system, error)
        for cell, result in zip(cells, measured, strict=True):
            keep(cell, result)

    def _measure_on(
        self, stage: Stage, brokers: Mapping[str, Broker], cell: WarmCell, measured: Measured, repeat: int
    ) -> None:
        systems = self._shuffled(self._systems_of(cell))
        try:
            cell.prepare(stage, brokers)
        except (TrialError, KafkaException) as error:
            for system in systems:
                self._throw_out(measured, repeat, cell, system, error)
        else:
            self._measure_systems(measured, repeat, cell, systems, lambda name: cell.measure(stage, brokers[name]))

    def _measure_starts(self, cell: StartCell, keep: Callable[[Cell, Measured], None]) -> None:
        measured = Measured([], [])
        with self._stage() as stage:
            for repeat in range(1, self._scope.repeats + 1):
                systems = self._shuffled(self._systems_of(cell))
                self._measure_systems(
                    measured, repeat, cell, systems, lambda system: cell.measure(stage, self._contenders[system])
                )
        keep(cell, measured)

    def _measure_systems(
        self,
        measured: Measured,
        repeat: int,
        cell: Cell,
        systems: Sequence[str],
        measure: Callable[[str], Figures],
    ) -> None:
        figures: dict[str, Figures] = {}
        for system in systems:
            try:
                figures[system] = measure(system)
            except (TrialError, KafkaException) as error:
                self._throw_out(measured, repeat, cell, system, error)
            else:
                self._tell(repeat, cell, system, in_words(cell.measures, figures[system]))
        if figures:
            measured.samples.append(Sample(repeat=repeat, figures=figures))

    def _throw_out(self, measured: Measured, repeat: int, cell: Cell, system: str, error: Exception) -> None:
        reason = str(error)
        measured.thrown_out.append(ThrownOut(repeat=repeat, system=system, reason=reason))
        self._tell(repeat, cell, system, f"THROWN OUT: {reason}")

    def _tell(self, repeat: int, cell: Cell, system: str, text: str) -> None:
        self._done += 1
        elapsed_s = time.monotonic() - self._started_s
        left = human_duration(elapsed_s / self._done * (self._steps - self._done))
        progress = f"{self._done}/{self._steps}, {human_duration(elapsed_s)}, about {left} to go"
        self._say(f"[{progress}] repeat {repeat}, {cell.name}, {system}: {text}")

    def _shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    @contextmanager
    def _stage(self) -> Iterator[Stage]:
        directory = Path(tempfile.mkdtemp(prefix="highwater-comparison-", dir=self._storage))
        try:
            yield Stage(directory, self._scope.load_s, self._scope.scale)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def _running(self, stage: Stage, names: set[str]) -> Iterator[dict[str, Broker]]:
        """Every system, in random order, each warmed up after all of them have started."""
        with ExitStack() as stack:
            brokers: dict[str, Broker] = {}
            for name in self._shuffled(sorted(names)):
                # The bare loop asks how many partitions every topic has; brokers are told with each topic.
                properties = {"num.partitions": str(PARTITIONS)}
                brokers[name] = stack.enter_context(self._contenders[name].start(stage.directory / name, properties))
            for name, broker in brokers.items():
                # Only Java compiles as it runs.
                warm_up(stage, broker, 0.0 if name in (HIGHWATER, BARE_LOOP) else self._scope.warm_up_s)
            yield brokers


def warm_up(stage: Stage, broker: Broker, seconds: float) -> None:
    """A little of everything that will be measured, again and again for so long."""
    deadline = time.monotonic() + seconds
    while True:
        with Topic(stage, broker, PARTITIONS, {}) as topic:
            for production in (batches_of(16 * KIB, KIB), batches_of(MIB, KIB), one_record_per_request(KIB)):
                librdkafka(production)(stage, topic)(_WARM_UP_RECORDS)
            prepared(acks=-1, connections=8, in_flight=16)(stage, topic)(_WARM_UP_RECORDS)
            if broker.name != BARE_LOOP:
                consume(broker.address, topic.name, PARTITIONS, KIB, 4 * _WARM_UP_RECORDS)
            topic.check()
        if time.monotonic() >= deadline:
            return


def in_words(measures: Sequence[Measure], figures: Figures) -> str:
    return ", ".join(
        f"{measure.title} {in_digits(figures[measure.name])}{' ' + measure.unit if measure.unit else ''}"
        for measure in measures
        if measure.name in figures
    )


def in_digits(value: float) -> str:
    """Three digits, and all of those before the decimal point."""
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 1000 else f"{value:.3g}"
