"""The gate from BASE and HEAD to its files, with a stand-in for what runs trials."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.bench.gate.policy import Policy
from highwater.bench.gate.run import Rules, gate_specification, judge_recorded, run_gate, write_gate
from highwater.bench.gate.sides import Measured, Recorded, side_named
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.trials.plan import Plan, PlannedTrial, make_plan
from highwater.bench.verify import disagreements
from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document
from highwater.results import checksums
from highwater.results.gate import Gate
from highwater.results.models import Manifest, RunStatus, TrialPlan, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from tests.bench.fakes import MINIMAL
from tests.bench.made_up_runs import make_up
from tests.bench.summaries import LATE, LOST, summary
from tests.reports.sample_run import Sample, write_sample

POLICY = Policy.model_validate(
    {
        "schema": "bench.gate/1",
        "pairs": {"min": 5, "max": 8},
        "gate": {"produce.achieved_per_s": {"floor": "5%"}},
        "track": ["produce.p99"],
    }
)
RULES = Rules(POLICY)
WORKLOAD = "workload"
SAME = Measured(WORKLOAD, {}, Document(WORKLOAD, {}))

Measure = Callable[[TrialPlan, int], TrialSummary | None]


class Runner:
    """Runs plans by asking `measure` (trial, round from 0) for each summary; None fails the trial."""

    def __init__(self, measure: Measure, status: RunStatus = "done") -> None:
        self.measure = measure
        self.status: RunStatus = status
        self.directories: list[Path] = []
        self.seeds: list[int] = []
        self.ran: list[int] = []

    def __call__(self, plan: Plan, out: Path, finished_cells: FinishedCells | None) -> Manifest:
        def measure(planned: PlannedTrial) -> TrialSummary | None:
            return self.measure(planned.plan, len(self.directories))

        made = make_up(plan, out, finished_cells, measure, self.status, {"kernel_release": "6.1"})
        self.directories.append(out)
        self.seeds.append(plan.seed)
        self.ran.append(sum(trial.status == "done" for trial in made.trials))
        return made


def measuring(*ratios: float, **spoilt: Any) -> Measure:
    """Head runs at `ratios[round]` times base's rate, every rate within 1 %."""
    draw = random.Random(4)

    def measure(plan: TrialPlan, number: int) -> TrialSummary | None:
        head = plan.factors["variant"] == "head"
        rate = 20_000 * (ratios[min(number, len(ratios) - 1)] if head else 1) * (1 + draw.uniform(-0.01, 0.01))
        reason = spoilt.get("head" if head else "base")
        if reason == "fails":
            return None
        made = summary(plan.block, plan.factors, achieved_per_s=rate, role=plan.role, reason=reason)
        return made.model_copy(update={"trial_id": plan.trial_id})

    return measure


def gate(tmp_path: Path, runner: Runner, rules: Rules = RULES, head: dict[str, Any] | None = None) -> Gate:
    workload = tmp_path / "w.yaml"
    workload.write_text(MINIMAL)
    base = Measured(WORKLOAD, {}, Document(WORKLOAD, {}))
    other = Measured("config:x.yaml", head or {"records": {"size": "200B"}}, Document("x.yaml", {}), commit="abc")
    plan = make_plan(gate_specification(workload, base, other, rules.policy), 1)
    return run_gate(base, other, plan, rules, tmp_path / "out", runner)


def test_a_gate_has_one_load(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"do not have one load \(load.rate: .* → 7/s\)"):
        gate(tmp_path, Runner(measuring(1.0)), head={"load": {"rate": "7/s"}})
    base, head = (
        Recorded(name, RunResult(write_sample(tmp_path / name, Sample(axes={}, trials=5, rate_per_s=rate))), None)
        for name, rate in (("base", 200.0), ("head", 400.0))
    )
    with pytest.raises(UsageError, match=r"do not have one load \(load.rate: 200/s → 400/s\)"):
        judge_recorded(base, head, RULES)


def test_a_regression_is_confirmed_by_a_run_of_its_own(tmp_path: Path) -> None:
    runner = Runner(measuring(0.8))
    found = gate(tmp_path, runner)
    assert (found.state, found.exit_code, found.confirmed) == ("regression", 10, True)
    assert runner.directories == [tmp_path / "out", tmp_path / "out" / "confirmation"]
    assert runner.seeds == [1, 2]
    assert runner.ran == [15, 15], "decided after five blocks of base, head and an A/A twin"
    assert [(done.stage, done.directory, done.pairs_valid) for done in found.rounds] == [
        ("first", ".", 5),
        ("confirmation", "confirmation", 5),
    ]
    assert (found.base.cells, found.head.cells) == (["variant=base"], ["variant=head"])
    assert found.head.commit == "abc"


def test_verify_looks_into_a_confirmation_too(tmp_path: Path) -> None:
    runner = Runner(measuring(0.8))
    out = tmp_path / "out"
    write_gate(gate(tmp_path, runner), out)
    before = list(disagreements(RunResult(out)))
    trial = sorted((out / "confirmation" / "trials").iterdir())[0]
    (trial / "summary.json").unlink()
    line = f"{trial.name}: the manifest says done, and summary.json is missing"
    assert f"confirmation: {line}" in set(disagreements(RunResult(out))) - set(before)


@pytest.mark.parametrize("directory", [".", "..", "/tmp", "a/b"])
def test_verify_leaves_a_result_directory_for_no_confirmation(tmp_path: Path, directory: str) -> None:
    out = tmp_path / "out"
    found = gate(tmp_path, Runner(measuring(0.8)))
    rounds = [found.rounds[0], found.rounds[1].model_copy(update={"directory": directory})]
    write_gate(found.model_copy(update={"rounds": rounds}), out)
    assert f"gate.json: {directory!r} is not a directory of a confirmation" in list(disagreements(RunResult(out)))


def test_no_change_is_not_run_again(tmp_path: Path) -> None:
    runner = Runner(measuring(1.0))
    found = gate(tmp_path, runner)
    assert (found.state, found.exit_code, len(runner.directories)) == ("pass", 0, 1)


def test_a_first_impression_that_does_not_hold_passes(tmp_path: Path) -> None:
    found = gate(tmp_path, Runner(measuring(0.8, 1.0)))
    assert (found.state, found.exit_code, found.confirmed, len(found.rounds)) == ("pass", 0, False, 2)


@pytest.mark.parametrize(("reason", "text"), [(LOST, "3 acknowledged records were lost"), ("fails", "killed by")])
def test_a_head_that_loses_or_dies_stops_the_gate(tmp_path: Path, reason: Any, text: str) -> None:
    runner = Runner(measuring(1.0, head=reason))
    found = gate(tmp_path, runner)
    assert (found.state, found.exit_code) == ("target_failed", 3)
    assert text in found.text
    assert runner.ran[0] <= 3, "one block was enough"


def test_pairs_that_cannot_be_had_are_an_invalid_measurement(tmp_path: Path) -> None:
    runner = Runner(measuring(1.0, base=LATE))
    found = gate(tmp_path, runner)
    assert (found.state, found.exit_code) == ("invalid", 4)
    assert runner.ran[0] == 12, "after four blocks five of eight are out of reach"
    assert any("trials invalid (load.achieved_ratio): of 20k/s offered" in note for note in found.notes)


def test_an_interrupted_gate_says_so(tmp_path: Path) -> None:
    found = gate(tmp_path, Runner(measuring(0.8), status="interrupted"))
    assert (found.state, found.exit_code, len(found.rounds)) == ("interrupted", 130, 1)


def test_the_files_of_a_gate_can_be_read_back_and_verified(tmp_path: Path) -> None:
    found = gate(tmp_path, Runner(measuring(0.8)))
    write_gate(found, tmp_path / "out")
    assert RunResult(tmp_path / "out").gate() == found
    assert {path.name for path in (tmp_path / "out").glob("gate.*")} == {
        "gate.json",
        "gate.md",
        "gate.junit.xml",
        "gate.codequality.json",
    }
    assert list(checksums.disagreements(tmp_path / "out", ended=True)) == []


def test_what_differs_is_a_variant_and_its_faults_name_its_file(tmp_path: Path) -> None:
    overlay = tmp_path / "head.yaml"
    overlay.write_text("records:\n  sise: 200B\n")
    (tmp_path / "w.yaml").write_text(MINIMAL)
    base = Measured(WORKLOAD, {}, Document(WORKLOAD, {}))
    head = side_named(f"config:{overlay}", "HEAD", tmp_path, tmp_path)
    assert isinstance(head, Measured)
    with pytest.raises(UsageError, match=rf"{overlay}:2: variants.head.records.sise: unknown key; did you mean .size"):
        gate_specification(tmp_path / "w.yaml", base, head, POLICY)
    overlay.write_text("records: {size: 200B}\n")
    good = side_named(f"config:{overlay}", "HEAD", tmp_path, tmp_path)
    assert isinstance(good, Measured)
    specification = gate_specification(tmp_path / "w.yaml", base, good, POLICY)
    assert [cell.name for cell in specification.cells] == ["variant=base", "variant=head"]
    assert specification.workload.trials.n == POLICY.pairs.max


def test_a_workload_with_variants_of_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(MINIMAL + "variants: {a: {}, b: {}}\n")
    side = Measured(WORKLOAD, {}, Document(WORKLOAD, {}))
    with pytest.raises(UsageError, match="variants: a gate's variants are base and head; put what differs into config"):
        gate_specification(tmp_path / "w.yaml", side, side, POLICY)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "broker").mkdir(parents=True)
    (root / "broker" / "__init__.py").write_text("first\n")
    (root / "highwater").mkdir()
    (root / "highwater" / "__init__.py").write_text("")
    (root / "highwater" / "broker").symlink_to("../broker")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)
    (root / "broker" / "__init__.py").write_text("changed\n")
    return root


def test_a_revision_is_taken_from_git_and_a_checkout_as_it_is(repository: Path, tmp_path: Path) -> None:
    side = side_named("git:HEAD", "BASE", repository / "broker", tmp_path / "scratch")
    assert isinstance(side, Measured)
    assert side.source is not None
    assert (side.source / "broker" / "__init__.py").read_text() == "first\n"
    assert side.overlay == {"system": {"source": str(side.source)}}
    checkout = side_named(str(repository), "HEAD", tmp_path, tmp_path)
    assert isinstance(checkout, Measured)
    assert checkout.source == repository
    assert checkout.commit == f"{side.commit}+changes"


def test_an_unpacked_wheel_is_a_side_too(tmp_path: Path) -> None:
    (tmp_path / "wheel" / "highwater" / "broker").mkdir(parents=True)
    side = side_named(str(tmp_path / "wheel"), "HEAD", tmp_path, tmp_path)
    assert isinstance(side, Measured)
    assert side.source == tmp_path / "wheel"


def test_each_side_that_is_none_is_one_line(repository: Path, tmp_path: Path) -> None:
    for text, place, told in (
        ("git:no-such", repository, f"HEAD: 'no-such' is not a commit of {repository}"),
        ("git:HEAD", Path("/"), "HEAD: / is in no git repository"),
        ("nowhere", tmp_path, "HEAD: 'nowhere' is none of: a result directory"),
        (str(tmp_path), tmp_path, "is none of: a result directory"),
        (f"config:{tmp_path}/no.yaml", tmp_path, f"{tmp_path}/no.yaml: no such file"),
    ):
        with pytest.raises(UsageError) as caught:
            side_named(text, "HEAD", place, tmp_path / "scratch")
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)


def recorded(directory: Path, times: float = 1.0) -> Recorded:
    def change(item: TrialSummary) -> TrialSummary:
        return item.model_copy(update={"achieved_per_s": item.achieved_per_s * times})

    if not directory.exists():
        write_sample(directory, Sample(axes={}, trials=6, measure_s=3, rate_per_s=200.0, change=change))
    return Recorded(str(directory), RunResult(directory), None)


def test_two_directories_are_judged_without_a_confirmation(tmp_path: Path) -> None:
    found = judge_recorded(recorded(tmp_path / "base"), recorded(tmp_path / "head", 0.5), RULES)
    assert (found.state, found.exit_code, found.confirmed, found.interleaved) == ("regression", 10, None, False)
    assert "could be confirmed" in found.notes[0]
    same = judge_recorded(recorded(tmp_path / "base"), recorded(tmp_path / "again"), RULES)
    assert (same.state, same.exit_code) == ("pass", 0)


def test_other_conditions_are_five_unless_they_are_allowed(tmp_path: Path) -> None:
    base, head = recorded(tmp_path / "base"), recorded(tmp_path / "head")
    head.result.environment.facts["cpu_model"] = "Another"
    found = judge_recorded(base, head, RULES)
    assert (found.state, found.exit_code) == ("environment_mismatch", 5)
    assert "under the same conditions: processor: " in found.text
    assert judge_recorded(base, head, Rules(POLICY, allow_env_diff=True)).exit_code == 0
    warns = POLICY.model_copy(update={"on_environment_mismatch": "warn"})
    assert judge_recorded(base, head, Rules(warns)).exit_code == 0


def test_gate_json_is_what_its_schema_says(tmp_path: Path) -> None:
    found = gate(tmp_path, Runner(measuring(1.0)))
    assert json.loads(found.model_dump_json(by_alias=True))["schema"] == "bench.gate-result/1"


def test_a_head_whose_broker_failed_in_some_trial_is_three(tmp_path: Path) -> None:
    base, head = recorded(tmp_path / "base"), recorded(tmp_path / "head")
    crashed = {"trial_id": "7", "status": "failed", "error": "highwater was killed by SIGKILL"}
    head.result.manifest.trials.append(head.result.manifest.trials[-1].model_copy(update=crashed))
    found = judge_recorded(base, head, RULES)
    assert (found.state, found.exit_code) == ("target_failed", 3)
    assert "highwater was killed by SIGKILL" in found.text
    assert judge_recorded(head, base, RULES).exit_code == 0


@pytest.mark.parametrize(("status", "outcome"), [("failed", ("target_failed", 3)), ("interrupted", ("invalid", 4))])
def test_a_head_that_finished_no_trial_at_all_is_of_no_other_environment(
    tmp_path: Path, status: str, outcome: tuple[str, int]
) -> None:
    base, head = recorded(tmp_path / "base"), recorded(tmp_path / "head")
    ended = {"status": status, "error": "highwater was killed by SIGKILL"}
    head.result.manifest.trials[:] = [trial.model_copy(update=ended) for trial in head.result.manifest.trials]
    head.result.trials.clear()
    found = judge_recorded(base, head, RULES)
    assert (found.state, found.exit_code) == outcome


def test_a_cell_in_which_head_has_no_valid_trial_is_not_left_out(tmp_path: Path) -> None:
    axes: dict[str, Any] = {"producers.client.acks": ["all", "1"]}

    def spoil(item: TrialSummary) -> TrialSummary:
        if not item.cell.endswith("acks=1"):
            return item
        invalid = item.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]})
        return item.model_copy(update={"verdict": invalid})

    sample = Sample(axes=axes, trials=6, measure_s=3, rate_per_s=200.0)
    base = write_sample(tmp_path / "base", sample)
    head = write_sample(tmp_path / "head", replace(sample, change=spoil))
    found = judge_recorded(Recorded("base", RunResult(base), None), Recorded("head", RunResult(head), None), RULES)
    assert (found.state, found.exit_code) == ("invalid", 4)
    assert found.text.startswith("0 valid pairs")


def test_a_cell_whose_load_never_ran_is_not_left_out(tmp_path: Path) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text(MINIMAL + "matrix: {producers.client.acks: [1, all]}\n")
    specification = gate_specification(workload, SAME, SAME, POLICY)
    measure = measuring(1.0)

    def one_cell_breaks(plan: TrialPlan, number: int) -> TrialSummary | None:
        return None if "acks=1" in plan.cell else measure(plan, number)

    class GeneratorBreaks(Runner):
        def __call__(self, plan: Plan, out: Path, finished_cells: FinishedCells | None) -> Manifest:
            manifest = super().__call__(plan, out, finished_cells)
            trials = [
                trial.model_copy(update={"generator_failed": trial.status == "failed"}) for trial in manifest.trials
            ]
            manifest = manifest.model_copy(update={"trials": trials})
            ResultWriter.reopen(out).write_manifest(manifest)
            return manifest

    gate = run_gate(SAME, SAME, make_plan(specification, 1), RULES, tmp_path / "out", GeneratorBreaks(one_cell_breaks))
    assert (gate.state, gate.exit_code) == ("invalid", 4)


def test_a_metric_that_few_trials_have_is_judged_by_as_many_pairs(tmp_path: Path) -> None:
    def mostly_unread(item: TrialSummary) -> TrialSummary:
        return item if item.block == 1 else item.model_copy(update={"e2e": None})

    policy = POLICY.model_copy(update={"gate": {"e2e.p99": POLICY.gate["produce.achieved_per_s"]}})
    sample = Sample(axes={}, trials=6, measure_s=3, rate_per_s=200.0, change=mostly_unread)
    sides = [RunResult(write_sample(tmp_path / name, sample)) for name in ("base", "head")]
    found = judge_recorded(Recorded("base", sides[0], None), Recorded("head", sides[1], None), Rules(policy))
    assert (found.state, found.exit_code, found.rounds[0].pairs) == ("invalid", 4, 1)
