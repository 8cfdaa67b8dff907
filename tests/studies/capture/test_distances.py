"""Distances between traces, and what is within the bounds of a faithful replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.workload.trace_directory import Trace
from highwater.studies.capture.distances import Distance, distances, kolmogorov_smirnov
from tests.studies.capture.logs import batch, observed, record, trace_of


def load(directory: Path, step_ms: int = 5, late_ms: int = 0, size: int = 100, per_batch: int = 10) -> Trace:
    batches = []
    for number in range(400):
        records = [
            record(late_ms + number * 10 * step_ms + at, b"key-%d" % (number % 7), b"v" * (size + number % 50))
            for at in range(per_batch)
        ]
        batches.append(batch(number * per_batch, records))
    return trace_of(directory, observed(*batches))


def outside(found: list[Distance]) -> list[str]:
    return [distance.name for distance in found if not distance.within]


def test_a_load_is_no_distance_from_itself_shifted(tmp_path: Path) -> None:
    before, after = load(tmp_path / "a"), load(tmp_path / "b", late_ms=437)
    found = distances(before, after)
    assert outside(found) == []
    assert max(distance.distance for distance in found) < 0.001


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"step_ms": 6}, ["records each second"]),
        ({"size": 130}, ["bytes of a batch, mean", "sizes of values"]),
        ({"per_batch": 11}, ["records each second", "bytes of a batch, mean"]),
    ],
)
def test_other_loads_are_outside(tmp_path: Path, changes: dict[str, int], names: list[str]) -> None:
    found = distances(load(tmp_path / "a"), load(tmp_path / "b", **changes))
    assert [name for name in outside(found) if not name.startswith("compressed")] == names


def test_a_replay_at_twice_the_speed(tmp_path: Path) -> None:
    before, after = load(tmp_path / "a", step_ms=6), load(tmp_path / "b", step_ms=3)
    assert "records each second" in outside(distances(before, after))
    assert outside(distances(before, after, speed=2.0)) == []


def test_kolmogorov_smirnov() -> None:
    assert kolmogorov_smirnov([(1, 5), (2, 5)], [(1, 50), (2, 50)]) == 0
    assert kolmogorov_smirnov([(1, 5), (2, 5)], [(2, 1)]) == 0.5
    assert kolmogorov_smirnov([(1, 1)], []) == 1
    assert kolmogorov_smirnov([], []) == 0
    # The same value twice, as stamps of values that were shorter.
    assert kolmogorov_smirnov([(24, 1), (24, 1), (30, 2)], [(24, 2), (30, 2)]) == 0
