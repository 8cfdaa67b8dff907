"""Which rounds count: those whose victim was there and was killed. Without Spark; real kills are in test_drill.py."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.pipeline.drill import conductor
from highwater.pipeline.drill.conductor import Conductor, Setting
from highwater.pipeline.drill.drill import Asked, _victims
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import RoundPlan, SinkSpec, Stop, Victim


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
    """kills: whether it has a process of the kind that is to be killed."""

    has_ended = jvm_has_ended = False

    def __init__(self, *, kills: bool) -> None:
        self._kills = kills

    def next_event(self) -> None:
        return None

    def kill_executor(self, *_: object) -> bool:
        return self._kills

    kill_worker = kill_executor


@pytest.mark.parametrize("victim", [Victim.EXECUTOR, Victim.WORKER])
@pytest.mark.parametrize("kills", [True, False])
def test_a_round_that_killed_nothing_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: Victim, kills: bool
) -> None:
    monkeypatch.setattr(conductor, "_RANDOM_WITHIN_S", 0.0)
    copied: Any = Copied()
    setting = Setting("drill", tmp_path, copied, {}, copied, False, [], {}, {}, whole_batches=False)
    said: list[str] = []
    rounds = Conductor(setting, random.Random(1), said.append)
    monkeypatch.setattr(rounds, "_driver", RunningDriver(kills=kills))
    result = rounds.round(1, RoundPlan(Stop(None, victim), begins_query=False))
    assert (result.reached, result.lost, result.twice) == (kills, 0, 0)
    assert said == ([] if kills else [f"round 1: there was no {victim.value} to kill"])


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
