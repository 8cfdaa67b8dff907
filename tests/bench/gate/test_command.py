"""`bench compare`, `env`, `export` and `gate` from the command line: exit codes, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.results import checksums
from highwater.results.gate import Gate
from highwater.results.models import Scalar, TrialSummary, Verdict
from highwater.results.reader import RunResult
from tests.bench.fakes import MINIMAL
from tests.bench.summaries import LATE
from tests.reports.sample_run import Sample, write_sample

RATE = "produce.achieved_per_s"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def sample(directory: Path, times: float = 1.0) -> Path:
    def change(item: TrialSummary) -> TrialSummary:
        return item.model_copy(update={"achieved_per_s": item.achieved_per_s * times})

    return write_sample(directory, Sample(axes={}, trials=6, measure_s=3, rate_per_s=200.0, change=change))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("slow") / "slow", 0.7)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = sample(tmp_path_factory.mktemp("elsewhere") / "elsewhere")
    environment = json.loads((directory / "env.json").read_text())
    environment["facts"]["kernel_release"] = "6.99"
    (directory / "env.json").write_text(json.dumps(environment))
    return directory


def test_compare_for_people_comments_and_programs(base: Path, slow: Path) -> None:
    shown = call("compare", base, slow, "--metric", RATE)
    assert shown.exit_code == 0
    assert "−30 %" in shown.stdout
    assert "worse" in shown.stdout
    assert "note the two were not interleaved" in shown.stdout
    assert "| produce.achieved&#95;per&#95;s |" in call("compare", base, slow, "--metric", RATE, "--markdown").stdout
    document = json.loads(call("compare", base, slow, "--metric", RATE, "--json").stdout)
    assert (document["schema"], [item["verdict"] for item in document["metrics"]]) == ("bench.comparison/1", ["worse"])


@pytest.fixture
def in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_compare_says_the_answer_first_within_80_columns(base: Path, slow: Path, in_80_columns: None) -> None:
    shown = call("compare", base, slow)
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["base", "head", "both"]
    assert lines[3] == "head's throughput is 30 % lower: worse (29.9 to 30.1 %); no loss was seen."
    assert [line.split()[0] for line in lines[4:6]] == ["Head", "Throughput"], "the picture follows"
    assert not [line for line in lines if line.startswith("%")], "a number stays with its unit"
    table = lines[lines.index(next(line for line in lines if line.startswith("metric"))) :]
    names = [line.split()[0] for line in table[1:7]]
    assert names == [RATE, "produce.p50", "produce.p99", "e2e.p50", "e2e.p99", "system.cpu_s_per_gib"]
    zero = [line for line in lines if line.startswith("0 on both sides: ")]
    assert len(zero) == 1
    assert "errors" in zero[0]
    beyond = [
        line for line in lines[4:] if len(line) > 80 and not line.startswith(("note ", "base ", "head ", "both "))
    ]
    assert beyond == []
    everything = call("compare", base, slow, "--all").stdout
    assert "produce.service.p50" in everything
    assert "produce.service.p50" not in shown.stdout
    assert call("compare", base, slow, "--markdown").stdout.startswith(
        "**head's produce.achieved&#95;per&#95;s is 30 %"
    )


def test_cells_stand_once_above_their_table(tmp_path: Path, in_80_columns: None) -> None:
    axes: dict[str, list[Scalar]] = {"storage.target": ["default", "hdd"]}
    run = write_sample(tmp_path / "run", Sample(axes=axes, trials=6, measure_s=3, rate_per_s=200.0))
    shown = call("compare", f"{run}:target=default", f"{run}:target=hdd").stdout
    assert shown.partition("\nnote ")[0].count("target=hdd") == 1
    assert "both  highwater 0.1.0, commit 0123456789ab, environment " in shown
    assert "6 pairs of trials of one run" in shown
    other = write_sample(tmp_path / "other", Sample(axes=axes, trials=6, measure_s=3, rate_per_s=200.0))
    shown = call("compare", run, other).stdout
    tables = shown.partition("no difference shown in any of 2 cells\n")[2].partition("\nnote ")[0]
    assert [tables.count(f"target={name}") for name in ("default", "hdd")] == [1, 1]
    assert shown.count("0 on both sides") == 1


def test_nothing_to_compare_is_one_line_and_not_exit_code_0(base: Path, tmp_path: Path) -> None:
    def spoil(item: TrialSummary) -> TrialSummary:
        return item.model_copy(update={"verdict": Verdict(state="invalid", reasons=[LATE])})

    asked = Sample(axes={}, trials=2, measure_s=3, rate_per_s=200.0, change=spoil)
    invalid = write_sample(tmp_path / "invalid", asked)
    for options in ([], ["--json"], ["--markdown"]):
        found = call("compare", base, invalid, *options)
        assert found.exit_code == 4
        assert found.stderr == (
            f"error: nothing to compare: none of the 2 trials of {invalid} is valid ({LATE.text})\n"
        )
    assert json.loads(call("compare", base, invalid, "--json").stdout)["answer"] == "nothing can be compared"
    (invalid / "manifest.json").unlink()
    found = call("compare", base, invalid)
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert found.stderr.startswith(f"error: {invalid} is not a result directory")


def test_a_changed_directory_is_compared_with_a_warning(base: Path, tmp_path: Path) -> None:
    other = sample(tmp_path / "other")
    checksums.write(other)
    assert f"note {base}: checksums.sha256: is missing" in call("compare", base, base).stdout
    assert f"note {other}: " not in call("compare", base, other).stdout
    (other / "env.json").write_text((other / "env.json").read_text() + " ")
    assert f"note {other}: env.json: changed" in call("compare", base, other).stdout


def test_other_conditions_are_exit_code_5(base: Path, elsewhere: Path) -> None:
    refused = call("compare", base, elsewhere, "--metric", RATE)
    assert refused.exit_code == 5
    assert refused.stderr.startswith("error: the two were not measured under the same conditions")
    assert "→ 6.99" in refused.stdout
    assert call("compare", base, elsewhere, "--metric", RATE, "--allow-env-diff").exit_code == 0
    assert call("env", "diff", base, elsewhere).exit_code == 5
    assert call("env", "diff", base, base).exit_code == 0


def test_another_load_is_exit_code_6(base: Path, tmp_path: Path) -> None:
    other = write_sample(tmp_path / "other", Sample(axes={}, trials=6, measure_s=3, rate_per_s=400.0))
    refused = call("compare", base, other, "--metric", RATE)
    assert refused.exit_code == 6
    assert refused.stderr.startswith("error: the two loads differ")
    assert "better" not in refused.stdout
    assert "workload differs: load.rate: 200/s → 400/s" in refused.stdout
    assert call("compare", base, other, "--metric", RATE, "--allow-load-diff").exit_code == 0


def test_env_shows_this_host_and_a_result(base: Path, tmp_path: Path) -> None:
    here = json.loads(call("env", "show", "--json", "--storage", tmp_path).stdout)
    assert len(here["key"]) == 12
    assert here["facts"]["cpu.count"] >= 1
    assert call("env", "show", base).stdout.startswith("environment ")


def test_a_gate_over_two_directories_writes_its_files_and_exits_with_10(
    base: Path, slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    policy = tmp_path / "gate.yaml"
    policy.write_text(f"schema: bench.gate/1\ngate: {{{RATE}: {{floor: 5%}}}}\n")
    result = call("gate", base, slow, "--policy", policy, "--out", tmp_path / "out")
    assert result.exit_code == 10
    assert "::error title=bench gate%3A regression::produce.achieved_per_s 42.9 %25 worse" in result.stdout
    gate = Gate.model_validate_json((tmp_path / "out" / "gate.json").read_text())
    assert (gate.state, gate.confirmed) == ("regression", None)
    assert (tmp_path / "out" / "gate.md").read_text().startswith("### ❌ regression")
    passed = call(
        "gate", base, base, "--policy", policy, "--out", tmp_path / "same", "--quiet", "--annotations", "none"
    )
    assert (passed.exit_code, passed.stdout) == (0, "")


def test_a_dry_gate_runs_nothing(tmp_path: Path) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text(MINIMAL)
    result = call("gate", "workload", "workload", "--workload", workload, "--out", tmp_path / "out", "--dry-run")
    assert result.exit_code == 0
    assert "at most 15 pairs, 5 at least; as many again for each confirmation" in result.stdout
    assert not (tmp_path / "out").exists()


def test_json_of_a_gate_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text(MINIMAL)
    arguments = ("gate", "workload", "workload", "--workload", workload, "--out", tmp_path / "out", "--dry-run")
    told = json.loads(call(*arguments, "--json").stdout)
    assert told["cells"] == ["variant=base", "variant=head"]
    assert told["pairs"] == {"min": 5, "max": 15}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["compare", "BASE", "nowhere"], "nowhere is not a result directory"),
        (["compare", "BASE:no", "BASE"], "has no cell 'no'; it has only"),
        (["compare", "BASE", "BASE", "--metric", "p99"], "p99 is not a metric; did you mean"),
        (["env", "show", "--storage", "/no/such"], "--storage: /no/such is not a directory"),
        (["export", "BASE", "--to", "pyprf"], "--to: 'pyprf' is not a format; did you mean pyperf?"),
        (["export", "BASE", "--to", "parquet"], "--to parquet makes no text; name --out FILE"),
        (["export", "BASE", "--to", "gab"], "--to gab makes several files; name --out FILE"),
        (
            ["gate", "BASE", "workload", "--out", "new"],
            "is a result directory and the other side would be measured",
        ),
        (["gate", "workload", "workload", "--out", "new"], "name the workload to measure both with: --workload FILE"),
        (["gate", "BASE", "BASE", "--out", "new", "--workload", "w"], "--workload: two result directories are judged"),
        (["gate", "BASE", "BASE", "--out", "new", "--policy", "no.yaml"], "no.yaml: no such file"),
        (
            ["gate", "BASE", "BASE", "--out", "new", "--policy", "fates.yaml"],
            "fates.yaml: gate.delivery.duplicated: is 0 as a rule, and of 0 there is no ratio; make it an objective",
        ),
    ],
)
def test_each_mistake_is_one_line(
    arguments: list[str], told: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fates.yaml").write_text("schema: bench.gate/1\ngate: {delivery.duplicated: {floor: 5%}}\n")
    result = call(*[argument.replace("BASE", str(base)) for argument in arguments])
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["fates.yaml"]


def test_exports_go_to_a_file_or_to_standard_output(base: Path, tmp_path: Path) -> None:
    assert call("export", base, "--to", "csv").stdout.startswith("run,trial_id,cell,")
    written = call("export", base, "--to", "gab", "--out", tmp_path / "x.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-bigger.json", "x-smaller.json"]
    assert len(written.stdout.splitlines()) == 2
    assert len(RunResult(base).trials) == 6
