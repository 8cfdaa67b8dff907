"""Runs the rounds of a drill: records in, a victim killed where each query waits, the outputs counted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from highwater.pipeline.crash_points import DIRECTORY_VARIABLE, CrashPoint
from highwater.pipeline.drill.driver_process import DriverProcess
from highwater.pipeline.drill.errors import DrillError, DrillSetupError
from highwater.pipeline.drill.model import Launch, PlannedStop, RoundPlan, RoundResult, Victim
from highwater.pipeline.drill.track import BATCHES_OF_A_ROUND, RECORDS_OF_A_ROUND, Track

_REACH_DEADLINE_S: Final = 240.0
_OTHERS_DEADLINE_S: Final = 60.0
"""How long those that wait at the point wait for one more."""
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

Waiting = Mapping[Track, int | None]
"""The queries that are to be struck, with the process that waits at the point if there is one."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that stays the same for the rounds of a drill."""

    folder: Path
    needs_standby: bool
    """A victim is a driver: the next one starts while the rounds go on."""
    launches: Sequence[Launch]
    """Drivers are started with them in turn."""
    environment: Mapping[str, str]
    """The environment variables of drivers."""
    stops: Path
    """The folder of all tracks' stops."""


class Conductor:
    """All queries in one driver: what kills it is a round of each. Close it, whatever happened."""

    def __init__(
        self, setting: Setting, tracks: Sequence[Track], rng: random.Random, tell: Callable[[str], None]
    ) -> None:
        self._setting = setting
        self._tracks = {track.name: track for track in tracks}
        self._rng = rng
        self._tell = tell
        self._launches = count()
        self._standby: DriverProcess | None = None
        self._driver: DriverProcess | None = None
        self._ghosts: list[DriverProcess] = []
        self._number = 0
        self._is_last = False
        self._rounds_done = 0
        self._may_act_until_s = 0.0

    @property
    def _all(self) -> Collection[Track]:
        return self._tracks.values()

    # Rounds

    def round(self, number: int, plan: RoundPlan, *, is_last: bool = False) -> list[RoundResult]:
        """A result for each track. is_last: no other driver is needed after this round.

        Raises DrillError if something else than the pipeline fails.
        """
        started_s = time.monotonic()
        self._number, self._is_last = number, is_last
        for track in self._all:
            track.begin_round(number)
        if plan.begins_query:
            self._change_queries()
        if plan.stop.victim is Victim.CHECKPOINT and not self._rounds_done:
            self._fill_outputs()
        share = RECORDS_OF_A_ROUND // (2 if plan.earlier is None else 3)
        struck: Collection[Track] = self._all
        if plan.earlier is not None:
            struck = self._stop_at(plan.earlier, struck, share)
            share = 0
        struck = self._stop_at(plan.stop, struck, share)
        for track in self._all:
            track.produce()
        self._await_through()
        self._bury()
        self._rounds_done += 1
        duration_s = time.monotonic() - started_s
        return [track.result(number, plan, reached=track in struck, duration_s=duration_s) for track in self._all]

    def _change_queries(self) -> None:
        """Begin each with a new checkpoint, at the end of what was produced before; it waits there."""
        for track in self._all:
            track.query = None
            track.stops.arm(CrashPoint.SOURCE_FIRST_OFFSETS)
        if self._driver is not None:
            for track in self._all:
                self._begin_query(track, self._driver)
        found = self._await_reached(CrashPoint.SOURCE_FIRST_OFFSETS, self._all, others_within_s=_REACH_DEADLINE_S)
        if len(found) < len(self._tracks):
            raise DrillError("a new query does not find its first offsets")

    def _fill_outputs(self) -> None:
        """A sink that has stored nothing cannot say where to go on."""
        for track in self._all:
            track.stops.let_go(CrashPoint.SOURCE_FIRST_OFFSETS)
            track.produce(RECORDS_OF_A_ROUND // BATCHES_OF_A_ROUND // 2)
        self._await_through()

    def _stop_at(self, stop: PlannedStop, tracks: Collection[Track], share: int) -> Collection[Track]:
        """Produce the first `share` records of the round, and kill the victim at its moment. Returns whom it struck."""
        point = stop.moment
        if point is not None and point is not CrashPoint.SOURCE_FIRST_OFFSETS:
            for track in tracks:
                track.stops.arm(point)
        self._keep_running()
        for track in self._all:
            track.produce(share)
        if point is not CrashPoint.SOURCE_FIRST_OFFSETS:
            # A query that has just begun finds records already: an empty first batch would prove little.
            for track in self._all:
                track.stops.let_go(CrashPoint.SOURCE_FIRST_OFFSETS)
        waiting: Waiting = dict.fromkeys(tracks)
        if point is None:
            self._watch(self._rng.uniform(0, _RANDOM_WITHIN_S))
        else:
            waiting = self._await_reached(point, tracks)
        if not waiting:
            return ()
        for track in self._all:
            track.look()
        struck = self._strike(stop, waiting)
        for track in waiting.keys() - struck:
            self._tell(f"round {self._number}: {track.name} has no {track.victim(stop.victim).value} to kill")
        return struck

    # Waiting

    def _await_reached(
        self, point: CrashPoint, tracks: Collection[Track], others_within_s: float | None = None
    ) -> dict[Track, int | None]:
        """Who waits at the point, without those that went through without it.

        `others_within_s`: how long those that wait there wait for one more; _OTHERS_DEADLINE_S by default.
        """
        others_s = _OTHERS_DEADLINE_S if others_within_s is None else others_within_s
        there: dict[Track, int | None] = {}
        last_s = deadline_s = time.monotonic() + _REACH_DEADLINE_S
        while len(there) < len(tracks) and time.monotonic() < deadline_s:
            for track in tracks:
                if track not in there and (process_id := track.stops.who_waits(point)) is not None:
                    there[track] = process_id
                    deadline_s = min(last_s, time.monotonic() + others_s)
            self._keep_running()
            time.sleep(_POLL_S)
        for track in tracks:
            if track not in there and not track.stops.disarm(point):
                there[track] = track.stops.who_waits(point)
        return there

    def _watch(self, for_s: float) -> None:
        deadline_s = time.monotonic() + for_s
        while time.monotonic() < deadline_s:
            self._keep_running()
            time.sleep(_POLL_S)

    def _await_through(self) -> None:
        """Until all records are there or no more come."""
        left = list(self._all)
        while True:
            self._keep_running()
            left = [track for track in left if not track.is_through()]
            if not left:
                return
            time.sleep(_LOOK_S)

    # Victims

    def _strike(self, stop: PlannedStop, waiting: Waiting) -> Collection[Track]:
        """Kill, and let all go on. Returns those whose victim was there: without one, a round proves nothing."""
        driver = self._driver
        assert driver is not None
        struck: Collection[Track] = waiting.keys()
        match stop.victim:
            case Victim.DRIVER | Victim.CHECKPOINT:
                self._replace_driver(driver.kill)
                for track in waiting:
                    if track.victim(stop.victim) is Victim.CHECKPOINT:
                        track.lose_checkpoint()
            case Victim.JVM:
                self._replace_driver(driver.kill_jvm)
            case Victim.WORKER:
                struck = {
                    track
                    for track, process_id in waiting.items()
                    if driver.kill_worker(process_id, track.process_ids(), self._rng)
                }
            case Victim.EXECUTOR:
                if not driver.kill_executors(waiting.values(), self._rng):
                    struck = ()
            case Victim.BROKER | Victim.DATABASE:
                named = [track.servers[track.victim(stop.victim)] for track in waiting]
                servers = {id(server): server for server in named}.values()
                for server in servers:
                    server.kill()
                self._release()
                time.sleep(self._rng.uniform(0, _OUTAGE_S))
                for server in servers:
                    server.start()
            case Victim.SUCCESSOR:
                self._replace_driver(None)
                struck = self._await_successors(waiting)
                self._watch(self._rng.uniform(0, _SUCCESSOR_HEAD_START_S))
                self._may_act_until_s = time.monotonic() + _LAST_DEEDS_S
        self._release()
        return struck

    def _release(self) -> None:
        for track in self._all:
            track.stops.release()

    def _await_successors(self, waiting: Waiting) -> Collection[Track]:
        """Until the sinks of the second driver have their batches, or wait for locks that the first holds.

        Returns the queries that a second driver runs.
        """
        before = {track: len(track.stops.journal()) for track in waiting}
        last_s = deadline_s = time.monotonic() + _REACH_DEADLINE_S
        begun: set[Track] = set()
        left = set(waiting)
        while left and time.monotonic() < deadline_s:
            self._keep_running()
            assert self._driver is not None
            self._driver.remember_family()
            for track in list(left):
                passed = track.passed_since(before[track], self._driver.process_ids)
                if passed and track not in begun:
                    begun.add(track)
                    within_s = _OTHERS_DEADLINE_S if len(begun) < len(waiting) else _SUCCESSOR_LOCKED_OUT_S
                    deadline_s = min(last_s, time.monotonic() + within_s)
                if any(point.name.startswith("SINK") for point in passed):
                    left.remove(track)
            time.sleep(_LOOK_S)
        return begun

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

    def _keep_running(self) -> None:
        """See that a driver runs the queries, and start what has ended again."""
        if self._driver is not None and (self._driver.has_ended or self._driver.jvm_has_ended):
            self._replace_driver(None)
        if self._driver is None:
            self._driver = self._standby or self._start_driver()
            self._standby = None
            self._driver.ready()
            is_first = not self._rounds_done and not self._ghosts
            for track in self._all:
                self._begin_query(track, self._driver)
                track.restarts += 1
            if self._setting.needs_standby and (is_first or not self._is_last):
                self._standby = self._start_driver()
        while event := self._driver.next_event():
            if event["event"] == "ended":
                track = self._tracks[event["query"]]
                self._tell(f"round {self._number}: the query of {track.name} ended: {event['error']}")
                if not self._rounds_done and track.restarts > _STARTS_OF_FIRST_ROUND:
                    raise DrillSetupError(f"the query does not run: {event['error']}")
                time.sleep(_RETRY_S)
                self._begin_query(track, self._driver)
                track.restarts += 1

    def _begin_query(self, track: Track, driver: DriverProcess) -> None:
        if track.query is None:
            track.begin_anew()
        assert track.query is not None
        driver.start_query(track.query)

    def _start_driver(self) -> DriverProcess:
        number = next(self._launches)
        launch = self._setting.launches[number % len(self._setting.launches)]
        folder = self._setting.folder / "drivers"
        folder.mkdir(exist_ok=True)
        environment = {**self._setting.environment, DIRECTORY_VARIABLE: str(self._setting.stops)}
        return DriverProcess(launch, environment, folder / f"driver-{number}.log")

    def close(self) -> None:
        """End all processes."""
        self._release()
        for driver in (self._driver, self._standby, *self._ghosts):
            if driver is not None:
                driver.end()
