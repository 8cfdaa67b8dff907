"""Histories of results, with a stand-in for Apache Otava; `tests/compat/otava` runs the real one."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.models import Scalar, TrialSummary, Verdict
from highwater.results.reader import RunResult
from highwater.studies.history.otava import ChangePoint
from highwater.studies.history.series import Acknowledgement, Series, add, all_series, chosen, doubts
from tests.bench.summaries import LATE
from tests.reports.sample_run import Sample, write_sample

RATE = "produce.achieved_per_s"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history") / "run"
    return write_sample(directory, Sample(axes={}, trials=2, measure_s=3, rate_per_s=200.0))


def run(sample: Path, day: int, rate: float = 200.0, kernel: str = "6.1") -> RunResult:
    """The sample as if it had been measured on another day, at another rate, on another kernel."""
    result = RunResult(sample)
    result.manifest = result.manifest.model_copy(update={"created_utc": f"2026-01-{day:02d}T00:00:00Z"})
    result.environment.facts["kernel_release"] = kernel
    for trial in result.trials:
        trial.summary = trial.summary.model_copy(update={"achieved_per_s": rate})
    return result


def keep(result: RunResult, history: Path, **options: bool) -> Series:
    commit = f"c{result.manifest.created_utc[8:10]}"
    return add(result, history, branch="main", commit=commit, new_environment=options.get("new_environment", False))


def split_in_two(values: Mapping[str, list[float]], magnitude: float) -> dict[str, list[ChangePoint]]:
    """Where the series changes most, if by enough."""
    found: dict[str, list[ChangePoint]] = {}
    for name, series in values.items():
        found[name] = []
        if not all(series):
            continue
        steps = [(abs(after / before - 1), index) for index, (before, after) in enumerate(pairwise(series), 1)]
        largest, index = max(steps)
        if largest > magnitude:
            found[name].append(ChangePoint(index, series[index - 1], series[index], 1e-5))
    return found


def test_a_run_of_another_workload_or_in_doubt_is_kept_with_a_note(sample: Path, tmp_path: Path) -> None:
    first = run(sample, 1)
    assert doubts(first, keep(first, tmp_path)) == []
    second = run(sample, 2)
    second.manifest = second.manifest.model_copy(update={"workload_sha256": "f" * 64})
    doubtful = second.trials[0]
    doubtful.summary = doubtful.summary.model_copy(update={"verdict": Verdict(state="inconclusive", reasons=[LATE])})
    assert doubts(second, keep(second, tmp_path)) == [
        "the workload is not that of the run before: a change of figures may come from it",
        "1 of 2 trials is inconclusive",
    ]


def test_runs_are_appended_and_never_changed(sample: Path, tmp_path: Path) -> None:
    keep(run(sample, 1), tmp_path)
    before = (next(all_series(tmp_path)).path).read_text()
    series = keep(run(sample, 2, 190.0), tmp_path)
    after = series.path.read_text()
    assert after.startswith(before)
    assert after.splitlines()[0].startswith("time,commit,branch,workload_sha256,produce.achieved_per_s,")
    assert [(row["time"], row["commit"], row[RATE]) for row in series.rows()] == [
        ("2026-01-01T00:00:00+00:00", "c01", "200"),
        ("2026-01-02T00:00:00+00:00", "c02", "190"),
    ]
    with pytest.raises(UsageError, match=r"the run of 2026-01-02T00:00:00\+00:00 is in .* already"):
        keep(run(sample, 2, 190.0), tmp_path)


def test_a_metric_that_is_new_gets_a_column(sample: Path, tmp_path: Path) -> None:
    series = keep(run(sample, 1), tmp_path)
    text = series.path.read_text().replace(f",{RATE}", "").replace(",200,", ",", 1)
    series.path.write_text(text)
    keep(run(sample, 2), tmp_path)
    first, second = series.rows()
    assert (first[RATE], second[RATE]) == ("", "200")


def test_other_conditions_are_another_series(sample: Path, tmp_path: Path) -> None:
    first = keep(run(sample, 1), tmp_path)
    with pytest.raises(NotComparableError, match=rf"{first.environment} so far, and this run in .*kernel: 6.1 → 6.2"):
        keep(run(sample, 2, kernel="6.2"), tmp_path)
    other = keep(run(sample, 2, kernel="6.2"), tmp_path, new_environment=True)
    assert other.environment != first.environment
    assert len(list(all_series(tmp_path))) == 2
    keep(run(sample, 3, kernel="6.2"), tmp_path)
    with pytest.raises(UsageError, match="several series; name one with --workload and --environment"):
        chosen(tmp_path, None, None)
    assert chosen(tmp_path, "quickstart", other.environment[:6]) == other


def test_a_history_of_an_older_version_goes_on(sample: Path, tmp_path: Path) -> None:
    """Keys contained the names of storage targets; the folder stays, and the key is that of its facts."""
    first = keep(run(sample, 1), tmp_path)
    key = first.environment
    facts = json.loads((first.directory / "environment.json").read_text())
    older = {fact.replace("storage.", "storage.temporary."): value for fact, value in facts.items()}
    folder = tmp_path / "0123456789ab"
    first.directory.rename(folder)
    (folder / "environment.json").write_text(json.dumps(older))
    series = keep(run(sample, 2), tmp_path)
    assert (series.directory, series.environment, len(series.rows())) == (folder, key, 2)
    assert chosen(tmp_path, None, key[:6]) == chosen(tmp_path, None, folder.name) == series
    assert json.loads((folder / "environment.json").read_text()) == facts


def test_a_run_without_a_valid_trial_is_not_kept(tmp_path: Path) -> None:
    def spoil(summary: TrialSummary) -> TrialSummary:
        verdict = summary.verdict.model_copy(update={"state": "invalid", "reasons": [LATE]})
        return summary.model_copy(update={"verdict": verdict})

    bad = write_sample(tmp_path / "bad", Sample(axes={}, trials=1, measure_s=3, rate_per_s=200.0, change=spoil))
    with pytest.raises(UsageError, match="no trial is a valid measurement"):
        keep(RunResult(bad), tmp_path / "history")
    assert not (tmp_path / "history").exists()


def test_changes_count_from_the_floor_and_the_noise_up(sample: Path, tmp_path: Path) -> None:
    for day in range(1, 9):
        series = keep(run(sample, day, 200.0 if day < 5 else 180.0), tmp_path)
    (change,) = series.changes(split_in_two, lambda metric: 0.05)
    assert (change.column, change.commit, change.is_worse, change.acknowledged) == (RATE, "c05", True, None)
    assert change.point.ratio == pytest.approx(0.9)
    assert series.changes(split_in_two, lambda metric: 0.15) == []
    (series.directory / "quickstart.noise.json").write_text(json.dumps({RATE: 0.2}))
    assert series.changes(split_in_two, lambda metric: 0.05) == []


def test_a_change_that_is_known_is_told_with_its_reason(sample: Path, tmp_path: Path) -> None:
    for day in range(1, 9):
        series = keep(run(sample, day, 200.0 if day < 5 else 180.0), tmp_path)
    series.acknowledge(Acknowledgement(RATE, "c05", "checksums are verified now", "2026-01-09T00:00:00+00:00"))
    (change,) = series.changes(split_in_two, lambda metric: 0.05)
    assert change.acknowledged == "checksums are verified now"
    (change,) = series.changes(split_in_two, lambda metric: 0.05, better={RATE: "lower"})
    assert not change.is_worse
    with pytest.raises(UsageError, match=r"e2e\.p98 is not a metric of"):
        series.acknowledge(Acknowledgement("e2e.p98", "c05", "x", ""))
    with pytest.raises(UsageError, match="c99 is neither the time nor the commit of a run"):
        series.acknowledge(Acknowledgement(RATE, "c99", "x", ""))
    with pytest.raises(UsageError, match="c0 begins the commit of 8 runs"):
        series.acknowledge(Acknowledgement(RATE, "c0", "x", ""))
    with pytest.raises(UsageError, match="2026 begins the time of 8 runs"):
        series.acknowledge(Acknowledgement(RATE, "2026", "x", ""))
    series.acknowledge(Acknowledgement(RATE, series.rows()[6]["time"][:12], "y", ""))
    assert [item.place for item in series.acknowledgements()] == ["c05", series.rows()[6]["time"]]


# --- the command ------------------------------------------------------------------------------------------------------

_STAND_IN = """#!{python}
import csv, json, sys, yaml
arguments = sys.argv[1:]
tests = arguments[1 : arguments.index("--config-file")]
config = yaml.safe_load(open(arguments[arguments.index("--config-file") + 1]))
for test in tests:
    rows = list(csv.DictReader(open(config["tests"][test]["file"])))
    values = [float(row["value"]) for row in rows]
    changes = [
        {{"metric": "value", "index": i, "time": int(rows[i]["time"]), "pvalue": "0.000010",
         "mean_before": str(values[i - 1]), "mean_after": str(values[i])}}
        for i in range(1, len(values))
        if abs(values[i] / values[i - 1] - 1) >= float(arguments[arguments.index("--magnitude") + 1])
    ]
    print(json.dumps({{test: [{{"time": 0, "attributes": {{}}, "changes": changes}}]}}))
"""


@pytest.fixture
def otava(tmp_path: Path) -> Path:
    path = tmp_path / "otava"
    path.write_text(_STAND_IN.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", "history", *map(str, arguments)])


def test_the_history_from_the_command_line(sample: Path, tmp_path: Path, otava: Path) -> None:
    history = tmp_path / "history"
    for day in range(1, 9):
        keep(run(sample, day, 200.0 if day < 5 else 180.0), history)
    where: list[str | Path] = ["--history", history]
    listed = json.loads(call("list", *where, "--json").stdout)
    assert [(item["workload"], item["runs"]) for item in listed] == [("quickstart", 8)]
    found = call("changes", *where, "--otava", otava)
    assert found.exit_code == 10
    assert found.stdout == f"2026-01-05T00:00:00+00:00 c05 {RATE}: 200/s → 180/s (−10 %, worse)\n"
    assert call("changes", *where, "--otava", otava, "--magnitude", "20%").exit_code == 0
    assert call("ack", RATE, "c05", "--reason", "known", *where).exit_code == 0
    known = call("changes", *where, "--otava", otava, "--json")
    assert (known.exit_code, json.loads(known.stdout)[0]["acknowledged"]) == (0, "known")


def test_the_list_says_the_answer_and_shows_values(
    sample: Path, tmp_path: Path, otava: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    history = tmp_path / "history"
    for day in range(1, 9):
        series = keep(run(sample, day, 200.0 if day < 5 else 180.0), history)
    lines = call("list", "--history", history, "--otava", otava).stdout.splitlines()
    assert lines[0] == f"quickstart  environment {series.environment}"
    answer = " ".join(lines[1 : next(n for n, line in enumerate(lines) if line.startswith("metric"))])
    assert (
        answer.split()
        == (
            f"8 runs from 2026-01-01 to 2026-01-08, the last with {RATE} 180/s; {RATE} is worse since 2026-01-05 "
            "(commit c05): 200/s → 180/s, −10 %"
        ).split()
    )
    (row,) = (line for line in lines if line.startswith(f"{RATE} "))
    assert row.split() == [RATE, "▇▇▇▇|▁▁▁▁", "180/s", "200/s", "180/s"]
    assert not [line for line in lines if len(line) > 80]
    assert "produce.service.p50" in call("list", "--history", history, "--otava", otava, "--all").stdout
    (item,) = json.loads(call("list", "--history", history, "--otava", otava, "--json").stdout)
    assert (item["values"][RATE][-1], item["changes"][0]["worse"], item["not_looked"]) == (180, True, "")


def test_cells_stand_once_above_their_metrics(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"producers.client.acks": ["1", "all"]}
    directory = write_sample(tmp_path / "run", Sample(axes=axes, trials=1, measure_s=3, rate_per_s=200.0))
    keep(RunResult(directory), tmp_path / "history")
    lines = call("list", "--history", tmp_path / "history").stdout.splitlines()
    assert [line for line in lines if "acks=" in line] == ["acks=1", "acks=all"]
    assert sum(line.startswith(RATE) for line in lines) == 2


def test_too_few_runs_are_said_to_be_and_nothing_is_installed(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, `history changes` of one run installed Apache Otava and then found nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/nowhere")
    history = tmp_path / "history"
    series = keep(run(sample, 1), history)
    found = call("changes", "--history", history)
    assert (found.exit_code, found.stdout) == (0, f"{series.path}: too few: 1 run; change points need 7\n")
    assert "too few: 1 run; change points need 7" in " ".join(call("list", "--history", history).stdout.split())
    for day in range(2, 9):
        keep(run(sample, day, 200.0 + day), history)
    listed = " ".join(call("list", "--history", history).stdout.split())
    assert "Apache Otava is not installed; highwater bench history changes installs it" in listed
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["changes", "--otava", "/no/otava"], "history: no such history; begin one with"),
        (["changes", "--magnitude", "5"], "--magnitude: '5' is not a percentage, for example 0.5%"),
        (["ack", RATE, "c01", "--reason", " "], "--reason: say why the change is accepted"),
        (["add", "nowhere"], "nowhere is not a result directory"),
    ],
)
def test_each_mistake_is_one_line(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {told}")
    assert result.stderr.count("\n") == 1


def test_damaged_files_are_one_line(sample: Path, tmp_path: Path) -> None:
    series = keep(run(sample, 1), tmp_path)
    noise, acknowledged = (series.path.with_suffix(suffix) for suffix in (".noise.json", ".acknowledged.jsonl"))
    for path, read in ((noise, series.noise), (acknowledged, series.acknowledgements), (series.path, series.rows)):
        for content in (b"{", b"\xff\xfe") if path != series.path else (b"\xff\xfe",):
            path.write_bytes(content)
            with pytest.raises(UsageError, match=f"^{path}: is damaged [^\\n]*$"):
                read()
