"""Policy files: what is accepted, and the one line for everything else."""

from __future__ import annotations

from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from highwater.bench.gate import policy
from highwater.common.errors import UsageError
from tests.reports.sample_run import Sample, write_sample

POLICIES = Path(policy.__file__).parent.parent / "policies"
HEAD = "schema: bench.gate/1\n"
GATED = "gate: {e2e.p99: {floor: 10%}}\n"


def load(directory: Path, text: str) -> policy.Policy:
    path = directory / "gate.yaml"
    path.write_text(HEAD + text)
    return policy.load_policy(path)


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    loaded = load(tmp_path, GATED)
    assert (loaded.pairs.min, loaded.pairs.max, loaded.pairs.stop_when) == (5, 15, "decided")
    assert (loaded.noise.source, loaded.confirm.reruns, loaded.on_environment_mismatch) == ("a_a", 1, "fail")
    assert loaded.gate["e2e.p99"].floor_ratio == 0.1
    assert policy.Policy.model_validate(loaded.as_document()) == loaded


def test_percentiles_may_be_written_as_people_say_them(tmp_path: Path) -> None:
    loaded = load(tmp_path, "gate: {produce.p99.9: {floor: 10%}}\ntrack: [e2e.p99.99]\n")
    assert policy.metrics_of(loaded) == ["produce.p999", "e2e.p9999"]


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("pairs: {min: 5, mx: 3}\n" + GATED, 2, 'pairs.mx: unknown key; did you mean "max"?'),
        ("pairs: {min: 9, max: 6}\n" + GATED, 2, "pairs.max: 6 is less than min, 9"),
        ("pairs: {min: 4}\n" + GATED, 2, "pairs.min: 4 is less than 5"),
        ("gate: {e2e.p98: {floor: 10%}}\n", 2, 'gate.e2e.p98: e2e.p98 is not a metric; did you mean "e2e.p99"?'),
        ("gate: {e2e.p99: {floor: 10}}\n", 2, "gate.e2e.p99.floor: 10 is not a percentage, for example 0.5%"),
        ("gate: {lag.max: {}}\n", 2, "gate.lag.max.floor is missing"),
        ("gate: {partition.skew_ratio: {floor: 5%}}\n", 2, "gate.partition.skew_ratio: needs better: higher or"),
        (GATED + "track: [e2e.p98]\n", 3, 'track: e2e.p98 is not a metric; did you mean "e2e.p99"?'),
        (GATED + "confirm: {fresh_processes: false}\n", 3, "confirm.fresh_processes: False is not True"),
        ("track: [e2e.p99]\n", None, "gate is missing"),
    ],
)
def test_each_fault_is_one_line_with_its_place(tmp_path: Path, text: str, line: int | None, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    place = f"{tmp_path / 'gate.yaml'}:{line}: " if line else f"{tmp_path / 'gate.yaml'}: "
    assert str(caught.value).startswith(place + complaint)
    assert "\n" not in str(caught.value)


def test_noise_comes_from_a_run_with_a_a_pairs(tmp_path: Path) -> None:
    run = write_sample(tmp_path / "run", Sample(axes={}, trials=1, measure_s=3, rate_per_s=200.0))
    wanted = load(tmp_path, GATED + "noise: {from: run}\n")
    (run / "analysis.json").unlink(missing_ok=True)
    with pytest.raises(UsageError, match=r"noise.from: .*run has no A/A pairs; run it with trials.a_a: true"):
        policy.noise_from(wanted, tmp_path)
    (run / "analysis.json").write_text(
        '{"schema": "bench.analysis/1", "complete": true, "seed": 1, "cells": [], "comparisons": [], "warnings": [],'
        ' "noise": [{"metric": "e2e.p99", "n_pairs": 3, "ratios": [1.0, 0.9, 1.1], "bound95_ratio": 0.2,'
        ' "method": ""}]}'
    )
    assert policy.noise_from(wanted, tmp_path) == {"e2e.p99": [("", 1.0), ("", 0.9), ("", 1.1)]}
    assert policy.noise_from(load(tmp_path, GATED + "noise: {from: run/analysis.json}\n"), tmp_path)
    assert policy.noise_from(load(tmp_path, GATED), tmp_path) == {}
    with pytest.raises(UsageError, match=r"noise.from: .*elsewhere is not a result directory"):
        policy.noise_from(load(tmp_path, GATED + "noise: {from: elsewhere}\n"), tmp_path)


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_policies_we_ship_load_and_agree_with_the_json_schema(path: Path) -> None:
    policy.load_policy(path)
    jsonschema.Draft202012Validator(policy.json_schema()).validate(yaml.safe_load(path.read_text()))


def test_the_default_policy_is_one_of_them() -> None:
    assert policy.default_policy() == policy.load_policy(POLICIES / "default.yaml")
