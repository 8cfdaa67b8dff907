"""The drill of the consumer without Spark: its plan has every pair, and a careless consumer is found out."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from highwater.common.exit_codes import EXIT_REGRESSION
from highwater.pipeline.crash_points import CrashPoint
from highwater.pipeline.drill.kinds import SQLITE
from tests.drills.consumer import BROKER, FROZEN, KILLED, MOMENTS, drill, plan
from tests.drills.pipeline import OURS

VICTIMS = [KILLED, FROZEN, BROKER]


def seed_that_begins_with(moment: CrashPoint, victim: str) -> int:
    return next(seed for seed in count() if plan(1, VICTIMS, seed) == [(moment, victim)])


def test_each_moment_comes_equally_often_with_each_victim() -> None:
    pairs = Counter(plan(2 * len(MOMENTS) * len(VICTIMS), VICTIMS, 3))
    assert set(pairs.values()) == {2}
    assert len(pairs) == len(MOMENTS) * len(VICTIMS)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.timeout(300)
def test_a_careful_consumer_passes_and_a_careless_one_is_found_out(tmp_path: Path) -> None:
    seed = seed_that_begins_with(CrashPoint.SINK_WRITTEN, KILLED)
    assert drill(SQLITE, OURS, 1, seed, tmp_path / "careful") != EXIT_REGRESSION
    assert drill(SQLITE, OURS, 1, seed, tmp_path / "careless", careless=True) == EXIT_REGRESSION
