"""Which rounds count: those whose victim was there and was killed. Without Spark; real kills are in test_drill.py."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.pipeline.crash_points import ARMED, REACHED, CrashPoint
from highwater.pipeline.drill import conductor
from highwater.pipeline.drill.conductor import Conductor, Setting
from highwater.pipeline.drill.drill import Asked, _victims
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import PlannedStop, RoundPlan, SinkSpec, Victim
from highwater.pipeline.drill.stops import Stops
from highwater.pipeline.drill.track import RECORDS_OF_A_ROUND, Track, TrackSetting
from tests.waiting import wait_until


class Copied:
    """A cluster and an output that has each record at once."""

    spec = SinkSpec("sqlite", {})
    resume_from = ""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def produce(self, topic: str, partitions: int, keys: Sequence[str]) -> None:
        self.keys += keys

    def rows(self) -> list[Row]:
        return [Row(key) for key in self.keys]


class RunningDriver:
    """kills: whether it has a process of the kind that is to be killed; one answer for each query."""

    has_ended = jvm_has_ended = False

    def __init__(self, *kills: bool) -> None:
        self._kills = list(kills)

    def next_event(self) -> None:
        return None

    def start_query(self, query: object) -> None: ...

    def kill_worker(self, *_: object) -> bool:
        return self._kills.pop(0)

    kill_executors = kill_worker


class Killed:
    """A server that counts how often it was killed."""

    def __init__(self) -> None:
        self.times = 0

    def kill(self) -> None:
        self.times += 1

    def start(self) -> None: ...


def track(folder: Path, name: str, **changed: Any) -> Track:
    copied: Any = Copied()
    (folder / name).mkdir()
    setting = TrackSetting(
        name=name,
        folder=folder / name,
        cluster=copied,
        source={},
        output=copied,
        victims=frozenset(Victim),
        servers={},
        whole_batches=False,
    )
    return Track(replace(setting, **changed), Stops(folder / "stops", name))


def conductor_of(folder: Path, tracks: Sequence[Track], driver: RunningDriver, said: list[str]) -> Conductor:
    setting = Setting(folder, needs_standby=False, launches=[], environment={}, stops=folder / "stops")
    made = Conductor(setting, tracks, random.Random(1), said.append)
    vars(made)["_driver"] = driver
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_RANDOM_WITHIN_S", "_OUTAGE_S", "_OTHERS_DEADLINE_S"):
        monkeypatch.setattr(conductor, name, 0.0)


@pytest.mark.parametrize("victim", [Victim.EXECUTOR, Victim.WORKER])
@pytest.mark.parametrize("kills", [True, False])
def test_a_round_that_killed_nothing_does_not_count(tmp_path: Path, victim: Victim, kills: bool) -> None:
    said: list[str] = []
    rounds = conductor_of(tmp_path, [track(tmp_path, "one")], RunningDriver(kills), said)
    (result,) = rounds.round(1, RoundPlan(PlannedStop(None, victim), begins_query=False))
    assert (result.reached, result.lost, result.twice) == (kills, 0, 0)
    assert said == ([] if kills else [f"round 1: one has no {victim.value} to kill"])


def test_each_query_has_its_own_word_on_whether_a_worker_died(tmp_path: Path) -> None:
    tracks = [track(tmp_path, name) for name in ("one", "two", "three")]
    rounds = conductor_of(tmp_path, tracks, RunningDriver(True, False, True), [])
    results = rounds.round(1, RoundPlan(PlannedStop(None, Victim.WORKER), begins_query=False))
    assert [each.reached for each in results] == [True, False, True]


def test_a_query_that_does_not_come_to_its_moment_has_no_round(tmp_path: Path) -> None:
    """The others wait for it, are struck, and count."""
    tracks = [track(tmp_path, name) for name in ("comes", "does-not")]
    rounds = conductor_of(tmp_path, tracks, RunningDriver(True), [])
    plan = RoundPlan(PlannedStop(CrashPoint.SINK_WRITTEN, Victim.WORKER), begins_query=False)
    waiting = threading.Thread(target=come_to, args=[tmp_path / "stops" / "comes", CrashPoint.SINK_WRITTEN])
    waiting.start()
    results = rounds.round(1, plan)
    waiting.join()
    assert [each.reached for each in results] == [True, False]
    assert [each.records for each in results] == [RECORDS_OF_A_ROUND] * 2


def test_a_new_query_has_more_time_to_find_its_first_offsets(tmp_path: Path) -> None:
    """Without all of them there is no round, so that the first ones do not hurry the others."""
    servers: dict[Victim, Any] = {Victim.BROKER: Killed()}
    tracks = [track(tmp_path, name, servers=servers) for name in ("first", "second")]
    rounds = conductor_of(tmp_path, tracks, RunningDriver(), [])

    def come_one_after_the_other() -> None:
        come_to(tmp_path / "stops" / "first", CrashPoint.SOURCE_FIRST_OFFSETS)
        # Longer than the conductor looks twice.
        threading.Event().wait(6 * conductor._POLL_S)
        come_to(tmp_path / "stops" / "second", CrashPoint.SOURCE_FIRST_OFFSETS)

    waiting = threading.Thread(target=come_one_after_the_other)
    waiting.start()
    results = rounds.round(1, RoundPlan(PlannedStop(CrashPoint.SOURCE_FIRST_OFFSETS, Victim.BROKER), begins_query=True))
    waiting.join()
    assert [each.reached for each in results] == [True, True]


def come_to(folder: Path, point: CrashPoint) -> None:
    armed = folder / f"{point.value}{ARMED}"
    wait_until(armed.exists, "the point is armed")
    armed.rename(folder / f"{point.value}{REACHED}1")


def test_what_has_no_database_loses_its_broker_meanwhile(tmp_path: Path) -> None:
    broker, database = Killed(), Killed()
    tracks = [
        track(tmp_path, "has", servers={Victim.BROKER: broker, Victim.DATABASE: database}),
        track(tmp_path, "has-not", servers={Victim.BROKER: broker}, victims=frozenset(Victim) - {Victim.DATABASE}),
        track(tmp_path, "not-either", servers={Victim.BROKER: broker}, victims=frozenset({Victim.BROKER})),
    ]
    rounds = conductor_of(tmp_path, tracks, RunningDriver(), [])
    results = rounds.round(1, RoundPlan(PlannedStop(None, Victim.DATABASE), begins_query=False))
    assert [(each.victim, each.reached) for each in results] == [("database", True), ("broker", True), ("broker", True)]
    assert (broker.times, database.times) == (1, 1)


@pytest.mark.parametrize("master", ["", "local[2]", "spark://a:7077", "yarn"])
def test_executors_that_no_drill_finds_are_no_victims(tmp_path: Path, master: str) -> None:
    """Another daemon starts them, on any host."""
    never: Any = None
    asked = Asked("sqlite", 1, 1, tmp_path, never, master=master)
    assert Victim.EXECUTOR not in _victims(asked, KINDS["sqlite"], {})
    with pytest.raises(DrillSetupError, match=r"the victim executor cannot be killed: give --master local-cluster"):
        _victims(replace(asked, victims=(Victim.EXECUTOR,)), KINDS["sqlite"], {})
    found = _victims(replace(asked, master="local-cluster[2,1,1024]"), KINDS["sqlite"], {})
    assert Victim.EXECUTOR in found
