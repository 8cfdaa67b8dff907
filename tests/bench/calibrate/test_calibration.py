"""Calibrations: whole ones are short here; what is made of them is held to what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.bench.calibrate import calibration as module
from highwater.bench.calibrate import ceiling, generator
from highwater.bench.calibrate.calibration import Wanted, by_launcher, calibrate
from highwater.bench.calibrate.loopback import measure_loopback
from highwater.bench.cli import app
from highwater.bench.gate.policy import load_policy, noise_from
from highwater.bench.trials.given_calibration import (
    ceiling_per_s,
    check_host,
    consumer_ceiling_per_s,
    host_facts,
    load_calibration,
    shape_of,
)
from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.progress import Observer
from highwater.bench.workload.specification import load_specification
from highwater.bench.workload.values import FixedSize as FixedSizeOfRecords
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.analysis_file import Noise
from highwater.spark_loadgen.errors import LoadFailed
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.tuning.facts import collect

WORKLOAD = """
schema: bench.workload/1
name: tiny
producers: {count: 1, driver: wire, client: {linger.ms: 1}}
consumers: {groups: 2, per_group: 1, client: {fetch.wait.max.ms: 50}}
records: {size: 100B}
load: {rate: 1k/s}
phases: {measure: 5s}
storage: {probe: false}
matrix: {records.size: [100B, 200B]}
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(WORKLOAD)
    return path


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "WARMUP_S", 0)
    monkeypatch.setattr(ceiling, "MEASURE_S", 1)
    monkeypatch.setattr(ceiling, "KEPT_RECORDS_MAX", 50_000)
    monkeypatch.setattr(module, "measure_loopback", lambda: measure_loopback(0.05))


def _silent(_: str) -> None:
    pass


def plan(size_bytes: int = 100, **client: str) -> LoadPlan:
    return LoadPlan(
        bootstrap_servers="nowhere:1",
        topics=("t",),
        partitions=1,
        producers=1,
        groups=0,
        consumers_per_group=0,
        schedule=OpenSchedule.constant(1000.0),
        warmup=0,
        measure_s=5,
        drain_max_s=30,
        sizes=FixedSize(size_bytes),
        payload=GeneratedPayload(0.5),
        seed=3,
        producer_config=client,
        driver="wire",
    )


@pytest.mark.slow
def test_a_calibration_has_a_ceiling_for_every_shape_of_the_workload(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "calibration"
    told: list[str] = []
    made, exit_code = calibrate(
        load_specification(workload), out, Wanted(repeats=1, pairs=0, spark=None), Observer(), told.append
    )
    assert exit_code == 0
    assert load_calibration(out) == load_calibration(out / "calibration.json") == made
    for size_bytes in (100, 200):
        found = ceiling_per_s(made, plan(size_bytes, **{"linger.ms": "1"}))
        assert found is not None, [item.shape for item in made.ceilings]
        assert found > 10_000
    assert ceiling_per_s(made, plan(300, **{"linger.ms": "1"})) is None
    assert ceiling_per_s(made, plan(100, **{"linger.ms": "2"})) is None
    for size_bytes in (100, 200):
        reading = replace(
            plan(size_bytes, **{"linger.ms": "1"}),
            groups=2,
            consumers_per_group=1,
            consumer_config={"fetch.wait.max.ms": "50"},
        )
        found = consumer_ceiling_per_s(made, reading)
        assert found is not None, [item.shape for item in made.consumer_ceilings]
        assert found > 10_000
        assert consumer_ceiling_per_s(made, replace(reading, groups=1)) is None
    assert made.loopback.bytes_per_s > 0
    assert made.loopback.round_trip_p50_ns <= made.loopback.round_trip_p99_ns
    assert any(text.startswith("ceiling 1/1 of wire, 1 producer, 100B") for text in told)


def test_a_shape_is_of_the_producers_and_of_nothing_else() -> None:
    one = plan()
    assert shape_of(one) == shape_of(ceiling.unbounded(one, "elsewhere:2", 1))
    assert shape_of(one) != shape_of(plan(101))
    plain = replace(one, driver="client")
    secured = replace(plain, connection={"security.protocol": "SSL", "ssl.key.password": "geheim"})
    assert shape_of(plain) != shape_of(secured), "TLS costs a client what no calibration has measured"
    assert "geheim" not in repr(shape_of(secured)) + repr(secured)


@pytest.mark.slow
def test_pairs_of_producers_and_consumers_have_both_ceilings(tmp_path: Path) -> None:
    path = tmp_path / "pairs.yaml"
    path.write_text(
        WORKLOAD.replace("count: 1", "count: 2")
        .replace("groups: 2, per_group: 1", "per_group: 2, pairing: pairs")
        .replace("[100B, 200B]", "[100B]")
        + "topics: {partitions: 2}\n"
    )
    made, _ = calibrate(
        load_specification(path), tmp_path / "out", Wanted(repeats=1, pairs=0, spark=None), Observer(), _silent
    )
    assert {item.shape.producers for item in made.ceilings} == {1, 2}
    assert [item.shape.consumers_per_group for item in made.consumer_ceilings] == [2]
    assert made.notes == []


@pytest.mark.slow
def test_what_consumers_do_not_come_to_the_end_of_is_a_note(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> ceiling.ConsumerTrial:
        raise LoadFailed("they slept")

    monkeypatch.setattr(generator, "reading_at_full_speed", broken)
    made, _ = calibrate(
        load_specification(workload), tmp_path / "out", Wanted(repeats=2, pairs=0, spark=None), Observer(), _silent
    )
    assert made.consumer_ceilings == []
    assert made.ceilings
    assert made.notes[0].startswith("no ceiling of 1 consumer in each of 2 groups, fetch.wait.max.ms=50, of: wire, ")
    assert len(made.notes) == 2


def test_what_fails_against_a_sink_is_a_note(workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> ceiling.ProducerTrial:
        raise LoadFailed("it broke")

    monkeypatch.setattr(generator, "at_full_speed", broken)
    made, _ = calibrate(
        load_specification(workload), tmp_path / "out", Wanted(repeats=2, pairs=0, spark=None), Observer(), _silent
    )
    assert made.ceilings == []
    assert all(note.startswith("no ceiling of wire, ") and note.endswith("it broke") for note in made.notes)


def test_a_calibration_of_another_host_is_refused(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "measure_ceilings", lambda *_: generator.Ceilings([], [], []))
    made, _ = calibrate(
        load_specification(workload), tmp_path / "out", Wanted(repeats=1, pairs=0, spark=None), Observer(), _silent
    )
    with ProcessLauncher() as launcher:
        here = host_facts(collect(), launcher.versions())
    check_host(made, here)
    with pytest.raises(NotComparableError, match=r"processor: .* → another; calibrate anew"):
        check_host(made, here | {"cpu.model": "another"})


def test_pairs_are_blocks_of_both_launchers_and_a_twin(workload: Path) -> None:
    plan = make_plan(by_launcher(load_specification(workload), ["process", "spark"], pairs=3), 1)
    for block in (1, 2, 3):
        trials = [trial.plan for trial in plan.trials if trial.plan.block == block]
        assert sorted(trial.factors["launcher"] for trial in trials if trial.role == "measure") == ["process", "spark"]
        assert len([trial for trial in trials if trial.role == "a_a"]) == 1
    assert {trial.cell.workload.records.size for trial in plan.trials} == {FixedSizeOfRecords(size_bytes=100)}


def test_a_dry_calibration_measures_nothing(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["calibrate", str(workload), "--out", str(out), "--dry-run", "--pairs", "3", "--seed", "9"]
    told = CliRunner().invoke(app, arguments).stdout
    assert "in 5 rounds the ceiling of:\n  wire, 1 producer" in told
    assert "9 trials (3 of them A/A twins), in 3 blocks of random order (seed 9)" in " ".join(told.split())
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (len(document["ceilings"]), document["repeats"], document["pairs"]["seed"]) == (6, 5, 9)
    assert not out.exists()


def test_one_launcher_alone_is_paired_with_itself(workload: Path) -> None:
    plan = make_plan(by_launcher(load_specification(workload), ["process"], pairs=3), 1)
    assert [trial.plan.role for trial in plan.trials] == ["measure"] * 6


def test_the_gate_takes_its_noise_from_a_calibration(
    workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "measure_ceilings", lambda *_: generator.Ceilings([], [], []))
    noise = [Noise(metric="e2e.p99", n_pairs=2, ratios=[1.0, 1.1], bound95_ratio=None, method="")]
    monkeypatch.setattr(module, "_pairs", lambda *_: (noise, [], 0))
    calibrate(load_specification(workload), tmp_path / "c", Wanted(repeats=1, pairs=2, spark=None), Observer(), _silent)
    for source in ("c", "c/calibration.json"):
        policy = tmp_path / "policy.yaml"
        policy.write_text(f"schema: bench.gate/1\ngate: {{e2e.p99: {{floor: 10%}}}}\nnoise: {{from: {source}}}\n")
        assert noise_from(load_policy(policy), tmp_path) == {"e2e.p99": [("", 1.0), ("", 1.1)]}


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "make one with: highwater bench calibrate"), ("{}", "no calibration: "), ("\xff", "no calibration: ")],
)
def test_what_is_no_calibration_is_said_in_one_line(tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "calibration.json"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=text) as caught:
        load_calibration(path)
    assert "\n" not in str(caught.value)


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(app, ["calibrate", "--out", str(tmp_path), "--repeats", "1"])
    assert result.exit_code == 2
    assert "is not empty" in result.output
