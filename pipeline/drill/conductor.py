"""Runs the rounds of a drill: records in, a victim killed at its moment, the output counted."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint
from highwater.pipeline.drill.cluster import Cluster
from highwater.pipeline.drill.driver_process import DriverProcess
from highwater.pipeline.drill.errors import DrillError, DrillSetupError
from highwater.pipeline.drill.ledger import Ledger, Row, partial_batches, sizes_of_batches
from highwater.pipeline.drill.model import Launch, QuerySpec, RoundPlan, RoundResult, Stop, Victim, moment_name
from highwater.pipeline.drill.outputs import Output
from highwater.pipeline.drill.servers import Server
from highwater.pipeline.drill.stops import Stops

RECORDS_OF_A_ROUND: Final = 160
PARTITIONS: Final = 3
_BATCHES_OF_A_ROUND: Final = 2
_REACH_DEADLINE_S: Final = 240.0
_STILL_DEADLINE_S: Final = 240.0
"""Records are lost if no row came for so long, whatever was started again meanwhile."""
_SUCCESSOR_HEAD_START_S: Final = 3.0
_SUCCESSOR_LOCKED_OUT_S: Final = 8.0
_LAST_DEEDS_S: Final = 3.0
_RANDOM_WITHIN_S: Final = 2.0
_OUTAGE_S: Final = 1.0
_RETRY_S: Final = 0.5
_STARTS_OF_FIRST_ROUND: Final = 8
"""A query that ends so often before it has ever gone through is wrong, and not recovering."""
_POLL_S: Final = 0.05
_LOOK_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Setting:
    """All that stays the same for the rounds of a drill. name: of the topic that is read, and of all else."""

    name: str
    folder: Path
    cluster: Cluster
    source: Mapping[str, str]
    output: Output
    needs_standby: bool
    """A victim is a driver: the next one starts while the rounds go on."""
    launches: Sequence[Launch]
    """Drivers are started with them in turn."""
    environment: Mapping[str, str]
    """Of drivers."""
    servers: Mapping[Victim, Server]
    whole_batches: bool
    """The sink promises that no reader ever sees a part of a batch."""
    without: str = ""


@dataclass(slots=True)
class _RoundState:
    number: int
    keys: list[str]
    is_last: bool = False
    """No other driver is needed after it."""
    restarts: int = 0
    reached: bool = False
    partial: set[str] = field(default_factory=set)


class Conductor:
    """One query after the other on one input and one output. Close it, whatever happened."""

    def __init__(self, setting: Setting, rng: random.Random, tell: Callable[[str], None]) -> None:
        self._setting = setting
        self._rng = rng
        self._tell = tell
        self._stops = Stops(setting.folder / "stops")
        self._ledger = Ledger()
        self._launches = count()
        self._queries = count()
        self._checkpoint = setting.folder
        self._query: QuerySpec | None = None
        self._standby: DriverProcess | None = None
        self._driver: DriverProcess | None = None
        self._ghosts: list[DriverProcess] = []
        self._rounds_done = 0
        self._may_act_until_s = 0.0
        self._views: list[Mapping[str, int]] = []

    # Rounds

    def round(self, number: int, plan: RoundPlan, *, is_last: bool = False) -> RoundResult:
        """is_last: of the drill. Raises DrillError if something else than the pipeline fails."""
        started_s = time.monotonic()
        state = _RoundState(number, [f"{number}-{sequence}" for sequence in range(RECORDS_OF_A_ROUND)], is_last)
        skipped_before = self._stops.passages()[CrashPoint.SINK_SKIPPED]
        if plan.begins_query:
            self._change_query(state)
        if plan.stop.victim is Victim.CHECKPOINT and not self._rounds_done:
            self._fill_output(state)
        share = len(state.keys) // (2 if plan.earlier is None else 3)
        if plan.earlier is not None:
            self._stop_at(plan.earlier, state, share)
            share = 0
        self._stop_at(plan.stop, state, share)
        self._produce(state, len(state.keys))
        rows = self._await_through(state)
        self._bury()
        account = self._ledger.account(rows)
        self._rounds_done += 1
        return RoundResult(
            number=number,
            moment=moment_name(plan.stop.moment),
            victim=plan.stop.victim.value,
            reached=state.reached,
            replays_skipped=self._stops.passages()[CrashPoint.SINK_SKIPPED] - skipped_before,
            restarts=state.restarts,
            records=len(self._ledger.produced),
            lost=len(account.lost),
            twice=len(account.twice) + len(account.unknown),
            partial_batches=len(state.partial),
            duration_s=round(time.monotonic() - started_s, 1),
        )

    def _change_query(self, state: _RoundState) -> None:
        """Begin a query with a new checkpoint, at the end of what was produced before; it waits there."""
        self._query = None
        self._stops.arm(CrashPoint.SOURCE_FIRST_OFFSETS)
        if self._driver is not None:
            self._begin_query(self._driver)
        if self._await_reached(CrashPoint.SOURCE_FIRST_OFFSETS, state) is None:
            raise DrillError("a new query does not find its first offsets")

    def _fill_output(self, state: _RoundState) -> None:
        """A sink that has stored nothing cannot say where to go on."""
        self._stops.let_go(CrashPoint.SOURCE_FIRST_OFFSETS)
        self._produce(state, len(state.keys) // _BATCHES_OF_A_ROUND // 2)
        self._await_through(state)

    def _stop_at(self, stop: Stop, state: _RoundState, share: int) -> None:
        """Produce the first `share` records of the round, and kill the victim at its moment."""
        point = stop.moment
        waiting = None
        if point is not None and point is not CrashPoint.SOURCE_FIRST_OFFSETS:
            self._stops.arm(point)
        self._running_driver(state)
        self._produce(state, share)
        if point is not CrashPoint.SOURCE_FIRST_OFFSETS:
            # A query that has just begun finds records already: an empty first batch would prove little.
            self._stops.let_go(CrashPoint.SOURCE_FIRST_OFFSETS)
        if point is None:
            self._watch(state, self._rng.uniform(0, _RANDOM_WITHIN_S))
        elif (waiting := self._await_reached(point, state)) is None:
            state.reached = False
            return
        self._look()
        state.reached = self._strike(stop, waiting, state)
        if not state.reached:
            self._tell(f"round {state.number}: there was no {stop.victim.value} to kill")

    def _produce(self, state: _RoundState, up_to: int) -> None:
        """Those of the round's records up to `up_to` that were not produced yet."""
        fresh = [key for key in state.keys[:up_to] if key not in self._ledger.produced]
        if fresh:
            self._setting.cluster.produce(self._setting.name, PARTITIONS, fresh)
            self._ledger.produced.update(fresh)

    # Waiting

    def _await_reached(self, point: CrashPoint, state: _RoundState) -> int | None:
        """Who waits at the point; None if everything went through without it."""
        deadline_s = time.monotonic() + _REACH_DEADLINE_S
        while time.monotonic() < deadline_s:
            if (waiting := self._stops.who_waits(point)) is not None:
                return waiting
            self._running_driver(state)
            time.sleep(_POLL_S)
        self._stops.disarm(point)
        return self._stops.who_waits(point)

    def _watch(self, state: _RoundState, for_s: float) -> None:
        deadline_s = time.monotonic() + for_s
        while time.monotonic() < deadline_s:
            self._running_driver(state)
            time.sleep(_POLL_S)

    def _await_through(self, state: _RoundState) -> list[Row]:
        """The rows of the output, once all records are there or no more come."""
        deadline_s, seen = time.monotonic() + _STILL_DEADLINE_S, -1
        while True:
            self._running_driver(state)
            rows = self._rows()
            if not self._ledger.account(rows).lost:
                break
            if len(rows) != seen:
                deadline_s, seen = time.monotonic() + _STILL_DEADLINE_S, len(rows)
            if time.monotonic() > deadline_s:
                return rows
            time.sleep(_LOOK_S)
        if self._setting.whole_batches:
            final = sizes_of_batches(rows)
            state.partial |= {batch for view in self._views for batch in partial_batches(view, final)}
            self._views.clear()
        return rows

    def _look(self) -> None:
        """Keep what a reader sees while the query waits at a point."""
        if self._setting.whole_batches:
            self._views.append(sizes_of_batches(self._rows()))

    def _rows(self) -> list[Row]:
        return self._setting.output.rows()

    # Victims

    def _strike(self, stop: Stop, waiting: int | None, state: _RoundState) -> bool:
        """Whether the victim was there: without one, the round proves nothing."""
        victim, driver = stop.victim, self._driver
        assert driver is not None
        struck = True
        match victim:
            case Victim.DRIVER:
                self._replace_driver(driver.kill)
            case Victim.JVM:
                self._replace_driver(driver.kill_jvm)
            case Victim.CHECKPOINT:
                self._replace_driver(driver.kill)
                shutil.rmtree(self._checkpoint, ignore_errors=True)
                self._query = self._new_query({"resumeFrom": self._setting.output.resume_from})
            case Victim.WORKER:
                struck = driver.kill_worker(waiting, self._rng)
            case Victim.EXECUTOR:
                struck = driver.kill_executor(waiting, self._rng)
            case Victim.BROKER | Victim.DATABASE:
                server = self._setting.servers[victim]
                server.kill()
                self._stops.release()
                time.sleep(self._rng.uniform(0, _OUTAGE_S))
                server.start()
            case Victim.SUCCESSOR:
                self._replace_driver(None)
                struck = self._await_successor(state)
                self._watch(state, self._rng.uniform(0, _SUCCESSOR_HEAD_START_S))
                self._may_act_until_s = time.monotonic() + _LAST_DEEDS_S
        self._stops.release()
        return struck

    def _await_successor(self, state: _RoundState) -> bool:
        """Until the sink of the second driver has the batch, or waits for a lock that the first holds; False if no
        second driver runs the query.
        """
        firsts = {process_id for ghost in self._ghosts for process_id in ghost.process_ids}
        before = len(self._stops.journal())
        deadline_s = time.monotonic() + _REACH_DEADLINE_S
        of_second: list[str] = []
        while time.monotonic() < deadline_s:
            self._running_driver(state)
            later = self._stops.journal()[before:]
            of_second = [point.name for point, process_id in later if process_id not in firsts]
            if any(name.startswith("SINK") for name in of_second):
                return True
            if of_second:
                deadline_s = min(deadline_s, time.monotonic() + _SUCCESSOR_LOCKED_OUT_S)
            time.sleep(_POLL_S)
        return bool(of_second)

    def _replace_driver(self, kill: Callable[[], None] | None) -> None:
        """The old one may do its last deeds until the end of the round."""
        assert self._driver is not None
        self._driver.remember_family()
        if kill is not None:
            kill()
        self._ghosts.append(self._driver)
        self._driver = None

    def _bury(self) -> None:
        while time.monotonic() < self._may_act_until_s and not all(ghost.has_ended for ghost in self._ghosts):
            time.sleep(_POLL_S)
        for ghost in self._ghosts:
            ghost.end()
        self._ghosts.clear()

    # Drivers and queries

    def _running_driver(self, state: _RoundState) -> None:
        """See that a driver runs the query, and start what has ended again."""
        if self._driver is not None and (self._driver.has_ended or self._driver.jvm_has_ended):
            self._replace_driver(None)
        if self._driver is None:
            self._driver = self._standby or self._start_driver()
            self._standby = None
            self._driver.ready()
            self._begin_query(self._driver)
            state.restarts += 1
            is_first_start = not self._rounds_done and state.restarts == 1
            if self._setting.needs_standby and (is_first_start or not state.is_last):
                self._standby = self._start_driver()
        while event := self._driver.next_event():
            if event["event"] == "ended":
                self._tell(f"round {state.number}: the query ended: {event['error']}")
                if not self._rounds_done and state.restarts > _STARTS_OF_FIRST_ROUND:
                    raise DrillSetupError(f"the query does not run: {event['error']}")
                time.sleep(_RETRY_S)
                self._begin_query(self._driver)
                state.restarts += 1

    def _begin_query(self, driver: DriverProcess) -> None:
        if self._query is None:
            self._query = self._new_query({"startingOffsets": "latest"})
        driver.start_query(self._query)

    def _new_query(self, beginning: Mapping[str, str]) -> QuerySpec:
        """With a new checkpoint, and another place than the query before for its first offsets."""
        number = next(self._queries)
        self._checkpoint = self._setting.folder / "checkpoints" / f"{self._setting.name}-{number}"
        kept_in = (
            {"commitOffsets": f"{self._setting.name}-{number}"}
            if number % 2
            else {"initialOffsetsLocation": str(self._checkpoint.with_suffix(".first"))}
        )
        limit = {"maxOffsetsPerTrigger": str(RECORDS_OF_A_ROUND // _BATCHES_OF_A_ROUND)}
        source = {**self._setting.source, **kept_in, **beginning, **limit}
        return QuerySpec(source, str(self._checkpoint), self._setting.output.spec, self._setting.without)

    def _start_driver(self) -> DriverProcess:
        number = next(self._launches)
        launch = self._setting.launches[number % len(self._setting.launches)]
        folder = self._setting.folder / "drivers"
        folder.mkdir(exist_ok=True)
        environment = {**self._setting.environment, DIRECTORY_VARIABLE: str(self._setting.folder / "stops")}
        return DriverProcess(launch, environment, folder / f"driver-{number}.log")

    def close(self) -> list[Row]:
        """End all processes; returns the last look at the output."""
        self._stops.release()
        for driver in (self._driver, self._standby, *self._ghosts):
            if driver is not None:
                driver.end()
        return self._rows()
