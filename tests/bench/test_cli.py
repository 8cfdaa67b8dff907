"""The command line: exit codes, one clear line for bad input, and nothing left behind by a run that could not start."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from typer.testing import CliRunner, Result

import highwater.cli
import highwater.spark_loadgen.launcher
from highwater.bench.display.tables import print_end, results_as_json
from highwater.bench.runs import runner
from highwater.bench.runs.runner import Run, Surroundings
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.progress import Observer, PlainObserver
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.verify import disagreements
from highwater.bench.workload.specification import load_specification
from highwater.results import checksums
from highwater.results.metrics import METRICS
from highwater.results.models import Manifest
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.tuning.facts import collect
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems

ROOT = Path(__file__).parent.parent.parent


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(highwater.cli.app, ["bench", *map(str, arguments)])


class Spark(FakeLauncher):
    """A SparkLauncher as far as the command line is concerned."""

    def __init__(self, master: str, spark_conf: dict[str, str]) -> None:
        super().__init__()
        self.dead = master == "spark://dead:7077"

    def check(self) -> None:
        if self.dead:
            raise LoadSetupError("the Spark master does not answer")


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(highwater.spark_loadgen.launcher, "SparkLauncher", Spark)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = tmp_path / "w.yaml"
    path.write_text(MINIMAL)
    return path


@pytest.fixture
def finished(workload: Path, tmp_path: Path) -> Path:
    """The result directory of a run over stand-ins."""
    launcher = FakeLauncher()
    with StorageAreas() as areas:
        areas.add("temporary", tmp_path, 0)
        run = Run(
            make_plan(load_specification(workload)),
            Surroundings(["highwater"], tmp_path),
            ResultWriter(tmp_path / "finished"),
            launcher,
            collect(),
            areas,
            Observer(),
            StopRequest(),
            start=FakeSystems(),
            connect=FakeClient(launcher),
        )
        assert run.execute().exit_code == 0
    return tmp_path / "finished"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--spark-conf", "x"], "--spark-conf: 'x' is not of the form NAME=VALUE"),
        (["--storage", "disk"], "--storage: 'disk' is not of the form NAME=VALUE"),
        (["--storage", "disk=/no/such/dir"], "storage target disk: /no/such/dir does not exist; make it first"),
        (
            ["--payload-file", "/no/such/file"],
            "--payload-file: records.payload_file: cannot read /no/such/file: No such",
        ),
        (["--master", "spark://dead:7077"], "the Spark master does not answer"),
    ],
)
def test_bad_options_give_one_line_and_exit_code_2(
    workload: Path, tmp_path: Path, options: list[str], error: str
) -> None:
    result = call("run", workload, "--out", tmp_path / "out", "--quiet", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {error}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("precision", ["0%", "300%"])
def test_a_search_cannot_be_that_precise(workload: Path, tmp_path: Path, precision: str) -> None:
    result = call("search", workload, "--out", tmp_path / "out", "--precision", precision)
    assert result.exit_code == 2
    assert result.stderr == f"error: --precision: {precision!r} is not between 0% and 100%\n"


def test_the_metrics_that_there_are() -> None:
    listed, as_json = call("metrics"), call("metrics", "--json")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(METRICS) == list(json.loads(as_json.stdout))
    assert json.loads(as_json.stdout)["e2e.p99"] == {
        "unit": "ns",
        "better": "lower",
        "meaning": METRICS["e2e.p99"].meaning,
    }


def test_a_bad_file_gives_one_line_and_exit_code_2(workload: Path, tmp_path: Path) -> None:
    workload.write_text(MINIMAL.replace("rate:", "rte:"))
    commands: list[list[str | Path]] = [["plan", workload], ["run", workload, "--out", tmp_path / "out"]]
    for command in commands:
        result = call(*command)
        assert result.exit_code == 2
        assert result.stderr == f'error: {workload}:6: load.rte: unknown key; did you mean "rate"?\n'
        assert not (tmp_path / "out").exists()


def test_more_tasks_than_slots(workload: Path, tmp_path: Path) -> None:
    workload.write_text(MINIMAL + "producers: {count: 2}\n")
    result = call("run", workload, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: the workload needs 3 load tasks at once and local[2] has slots for 2; use --launcher process, "
        "--master 'local[3]' or a larger cluster, or lower producers.count and consumers.per_group\n"
    )


def test_a_result_directory_that_is_taken(workload: Path, finished: Path) -> None:
    result = call("run", workload, "--out", finished)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {finished} is not empty; name a new directory with --out, or go on with what is there: --resume DIR\n",
    )
    assert (finished / "manifest.json").is_file()


def test_a_cluster_that_does_not_answer(workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.bench.systems.broker_client._TIMEOUT_S", 0.5)
    result = call("run", workload, "--out", tmp_path / "out", "--quiet", "--bootstrap-servers", "127.0.0.1:1")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no broker answers at 127.0.0.1:1 within ")


def test_plan_needs_nothing_running(workload: Path) -> None:
    result = call("plan", workload, "--seed", "3", "--trials", "4")
    assert result.exit_code == 0
    assert "4 trials, in 4 blocks of random order (seed 3)" in result.stdout
    plan = json.loads(call("plan", workload, "--json").stdout)
    assert (plan["seed"], plan["tasks"], len(plan["trials"])) == (7, 2, 2)


def test_verify_finds_nothing_in_a_good_directory(finished: Path) -> None:
    result = call("verify", finished)
    assert (result.exit_code, result.stdout) == (0, f"{finished}: 2 trials agree with their histograms and windows\n")


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_verify_finds_every_file_that_is_not_what_it_was(finished: Path) -> None:
    first, second = sorted((finished / "trials").iterdir())
    (first / "verdict.json").write_text((first / "verdict.json").read_text() + "\n")
    (second / "system.log").unlink()
    result = call("verify", finished, "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["disagreements"] == [
        f"trials/{first.name}/verdict.json: changed since the run ended",
        f"trials/{second.name}/system.log: is missing",
    ]


def test_verify_finds_what_contradicts_itself(finished: Path) -> None:
    first, second = sorted((finished / "trials").iterdir())
    (finished / "checksums.sha256").unlink()
    edit(first / "summary.json", lambda summary: summary["produce"]["response_ns"].update(p99=1))
    edit(second / "summary.json", lambda summary: summary["delivery"].update(acked=301))
    (second / "hist" / "send_delay.hlog").unlink()
    result = call("verify", finished)
    assert result.exit_code == 4
    digests, *lines = result.stderr.splitlines()
    assert digests.startswith("checksums.sha256: is missing")
    assert lines[0].startswith(f"{first.name}: produce_response: summary and histogram log disagree: p99 1 is 1")
    assert lines[1].startswith(f"{second.name}: send_delay: the histogram log cannot be read: ")
    assert lines[2] == f"{second.name}: acked: windows add up to 300, the summary says 301"
    assert lines[3] == f"{second.name}: acked: partitions add up to 300, the summary says 301"
    assert lines[4] == f"{second.name}: verdict: says valid, and the figures give invalid (delivery.in_log)"
    assert lines[5].startswith("analysis.json: base produce.p99: says (")
    assert all(line.startswith("analysis.json: ") for line in lines[5:])
    (first / "summary.json").unlink()
    assert f"{first.name}: the manifest says done, and summary.json is missing" in list(
        disagreements(RunResult(finished))
    )


def test_records_without_a_sound_stamp_count_by_the_second_alone(finished: Path) -> None:
    (first, *_) = sorted((finished / "trials").iterdir())
    edit(first / "summary.json", lambda summary: summary["delivery"].update(received=298, corrupt=2))
    received = [line for line in disagreements(RunResult(finished)) if "received: windows" in line]
    assert received == []
    edit(first / "summary.json", lambda summary: summary["delivery"].update(received=297))
    assert any("received: windows add up to 300" in line for line in disagreements(RunResult(finished)))


def test_verify_judges_again_what_is_said_to_be_valid(finished: Path) -> None:
    """A generator out of breath and an objective the workload has not; with digests made anew."""
    first, second = sorted((finished / "trials").iterdir())
    edit(first / "summary.json", lambda summary: summary["generator"].update(cpu_ratio_max=1.0, oversubscribed=True))
    edit(
        second / "summary.json",
        lambda summary: summary.update(slo=[{"metric": "errors", "bound": "==0", "value": 0, "met": True}]),
    )
    checksums.write(finished)
    lines = list(disagreements(RunResult(finished)))
    assert lines[0].startswith(
        f"{first.name}: verdict: says valid, and the figures give invalid (generator.cpu_ratio_max, "
    )
    assert lines[1] == f"{second.name}: slo: errors: the figures give other results than the summary says"


def test_verify_leaves_verdicts_of_another_version_as_they_are_and_says_so(finished: Path) -> None:
    edit(finished / "manifest.json", lambda manifest: manifest["versions"].update(highwater="0.0.1"))
    first = sorted((finished / "trials").iterdir())[0]
    edit(first / "summary.json", lambda summary: summary["generator"].update(oversubscribed=True))
    checksums.write(finished)
    result = call("verify", finished)
    assert result.exit_code == 0
    assert result.stderr.startswith(
        "note: verdicts were not judged again: the run was made by highwater 0.0.1, and this"
    )


@pytest.mark.parametrize("verb", ["verify", "export"])
@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("summary.json", lambda text: b"\xff\xfe", "cannot read it: 'utf-8' codec can't decode byte 0xff"),
        ("summary.json", lambda text: text[:300].encode(), "the file: Invalid JSON: EOF while parsing"),
        (
            "summary.json",
            lambda text: text.replace('"cell": "base"', '"cell": "x"').encode(),
            "is of 001-base (x, measure)",
        ),
        (
            "summary.json",
            lambda text: text.replace('"name": "measure"', '"name": "drain"').encode(),
            "names no measured phase",
        ),
        ("../../manifest.json", lambda text: b"\xff", "cannot read it: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_damaged_file_is_one_line(
    finished: Path, verb: str, name: str, damage: Callable[[str], bytes], complaint: str
) -> None:
    path = (finished / "trials" / "001-base" / name).resolve()
    path.write_bytes(damage(path.read_text()))
    if verb == "verify" and name == "summary.json":
        found = call("verify", finished, "--json")
        assert found.exit_code == 4
        damaged, *others = json.loads(found.stdout)["disagreements"]
        assert damaged.startswith("trials/001-base/summary.json: ")
        assert complaint in damaged
        assert others == [
            "trials/001-base/summary.json: changed since the run ended",
            "001-base: the manifest says done, and summary.json is damaged",
        ], "the other trial is checked all the same"
        return
    result = call(verb, finished, *(("--to", "csv") if verb == "export" else ()))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path}: ")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_verify_tells_series_that_are_no_text(finished: Path) -> None:
    first = finished / "trials" / "001-base"
    (first / "windows.jsonl").write_bytes(b"\xff")
    (first / "host.jsonl").write_bytes(b"\xff")
    log = first / "hist" / "produce_response.hlog"
    log.write_text(log.read_text().replace("HIST", "HISX"))
    result = call("verify", finished)
    assert result.exit_code == 4
    for part in (
        "windows.jsonl: cannot read it",
        "host.jsonl: cannot read it",
        "log cannot be read: HdrCookieException",
    ):
        assert part in result.stderr


def test_verify_lets_no_loss_be_valid(finished: Path) -> None:
    (finished / "checksums.sha256").unlink()
    edit(finished / "trials" / "001-base" / "summary.json", lambda summary: summary["delivery"].update(lost=5))
    result = call("verify", finished)
    assert result.exit_code == 4
    assert "001-base: lost: 5 records, and the verdict is valid" in result.stderr


def test_verify_of_something_else(tmp_path: Path) -> None:
    result = call("verify", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path} is not a result directory: it has no manifest.json")


def test_the_end_of_a_run_for_people_and_programs(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_end(RunResult(finished))
    printed = capsys.readouterr().out
    assert "100/s" in printed
    assert "2 valid" in printed
    assert f"highwater report {finished}" in printed
    summary = results_as_json(RunResult(finished))
    assert (summary["status"], summary["exit_code"], summary["unfinished"]) == ("done", 0, [])
    assert [trial["verdict"]["state"] for trial in summary["cells"]["base"]] == ["valid", "valid"]
    json.dumps(summary)


def test_a_run_ends_with_its_answer_and_where_to_read_more(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_end(RunResult(finished))
    *_, answer, following, blank, results, report = capsys.readouterr().out.splitlines()
    assert answer == "Produce latency p99 is 1 ms (2 trials; an interval needs 5)."
    assert following.startswith("next: Run about 5 trials of each cell (an estimate): highwater bench run ")
    assert (blank, results) == ("", f"results: {finished}")
    assert report == f"report:  highwater report {finished}"


def test_a_terminal_breaks_the_answer_between_words(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_end(RunResult(finished))
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert "Produce latency p99 is 1 ms (2 trials; " in [f"{line.rstrip()} " for line in lines]
    assert any(line.startswith("next: ") and " highwater bench run " in line for line in lines)


def test_the_table_shows_what_the_report_shows_the_valid_trials(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sorted((finished / "trials").iterdir())[0] / "summary.json"
    summary = json.loads(path.read_text())
    summary["achieved_per_s"] = 7.0
    summary["verdict"]["state"] = "invalid"
    path.write_text(json.dumps(summary))
    print_end(RunResult(finished))
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "1 valid" in line]
    assert "100/s" in row


def test_plain_progress_is_one_line_per_trial(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = RunResult(finished)
    observer = PlainObserver()
    observer.trial_ended(1, result.manifest.trials[0], result.trials[0].summary)
    assert "base: valid, 100/s, produce p50 1 ms p99 1 ms\n" in capsys.readouterr().err


def test_a_run_goes_on_when_nobody_reads_its_progress(finished: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    trial = RunResult(finished).manifest.trials[0]
    stream = os.fdopen(writer, "w")
    try:
        PlainObserver(stream).trial_ended(1, trial, None)
    finally:
        with suppress(BrokenPipeError):
            stream.close()


@pytest.mark.parametrize("option", [("--master", "local[2]"), ("--spark-conf", "spark.a=b")])
def test_settings_of_spark_do_not_go_with_plain_processes(
    workload: Path, tmp_path: Path, option: tuple[str, str]
) -> None:
    result = call("run", workload, "--out", tmp_path / "out", "--launcher", "process", *option)
    assert result.exit_code == 2
    assert f"error: {option[0]} is a setting of Spark and --launcher process uses none" in result.output
    assert not (tmp_path / "out").exists()


def test_plan_shows_the_plan_and_refuses_what_run_would_refuse(workload: Path, tmp_path: Path, finished: Path) -> None:
    options = ["--master", "spark://dead:7077", "--storage", f"disk={tmp_path / 'gone'}", "--out", str(finished)]
    commands: list[list[str | Path]] = [["plan", workload], ["run", workload, "--dry-run"]]
    for command in commands:
        result = call(*command, *options)
        assert result.exit_code == 2
        assert "2 trials, in 2 blocks" in result.stdout
        assert result.stderr.splitlines() == [
            "error: the Spark master does not answer",
            f"error: storage target disk: {tmp_path}/gone does not exist; make it first, or name another path",
            (
                f"error: {finished} is not empty; name a new directory with --out, or go on with what is there: "
                "--resume DIR"
            ),
        ]
        document = json.loads(call(*command, *options, "--json").stdout)
        assert len(document["refusals"]) == 3
    assert not (tmp_path / "gone").exists()


def test_plan_says_before_the_run_that_too_few_trials_decide_nothing(workload: Path) -> None:
    told = "an interval needs at least 5 per cell"
    assert told not in call("plan", workload, "--trials", "4").stdout, "it has one cell"
    workload.write_text(workload.read_text() + "matrix: {topics.partitions: [2, 4]}\n")
    assert told in call("plan", workload, "--trials", "4").stdout
    assert told not in call("plan", workload, "--trials", "5").stdout


def test_a_run_that_is_not_there_is_not_continued(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    result = call("run", "--resume", gone)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: --resume {gone}: there is no such directory; begin a run with --out {gone}\n",
    )


def test_plan_of_what_is_left_of_another_run(workload: Path, finished: Path) -> None:
    result = call("plan", workload, "--resume", finished, "--retry-invalid")
    assert result.exit_code == 0
    assert "left: 0 of 2 trials, about 0 s" in result.stdout
    result = call("run", workload, "--out", finished, "--retry-invalid")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --retry-invalid is for a run that was begun: add --resume DIR\n",
    )
    workload.write_text(MINIMAL.replace("rate: 100/s", "rate: 200/s"))
    result = call("plan", workload, "--resume", finished)
    assert result.exit_code == 2
    assert "was begun with load.rate: 100/s, and now it is 200/s" in result.stderr


@pytest.fixture
def stand_ins(workload: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workload, for runs from the command line over stand-ins."""
    execute = Run.execute

    def over_stand_ins(run: Run) -> Manifest:
        assert isinstance(run.launcher, FakeLauncher)
        run.start, run.connect = FakeSystems(), FakeClient(run.launcher)
        return execute(run)

    monkeypatch.setattr(Run, "execute", over_stand_ins)
    monkeypatch.setattr(runner, "git_state", lambda _: None)
    return workload


OUTCOME = "No loss was seen: 600 of 600 records arrived once, in order."


def test_a_quiet_run_prints_its_outcome_in_one_line(stand_ins: Path, tmp_path: Path) -> None:
    result = call("run", stand_ins, "--out", tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(OUTCOME)
    assert result.stdout.count("\n") == 1


def test_a_missed_objective_is_told_and_has_an_exit_status(stand_ins: Path, tmp_path: Path) -> None:
    stand_ins.write_text(MINIMAL + "slo: {produce.p99: <1us}\n")
    result = call("run", stand_ins, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 12
    document = json.loads(result.stdout)
    assert document["exit_code"] == 12
    assert document["outcome"].startswith(OUTCOME)
    assert "Objective missed: " in document["outcome"]
    assert [item["state"] for item in document["answer"] if item["kind"] == "objective"] == ["bad"]
    shown = call("run", stand_ins, "--resume", tmp_path / "out")
    assert shown.exit_code == 12
    assert shown.stdout.endswith("exit status 12: an objective was missed\n")


def test_lines_for_a_parser_stay_alone_on_standard_output(stand_ins: Path, tmp_path: Path) -> None:
    result = call("run", stand_ins, "--out", tmp_path / "out", "--compat", "kafka")
    assert OUTCOME not in result.stdout
    assert result.stderr.startswith(OUTCOME)


ONE_LINE = ("--rate", "100/s", "--size", "100B", "--for", "2s", "--warmup", "1s", "--partitions", "2")


def test_a_load_in_one_line_is_told_as_a_file_and_kept_as_one(stand_ins: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call("run", "--out", out, *ONE_LINE, "--trials", "2", "--acks", "1,all")
    assert result.exit_code == 0
    assert "# These options as a workload file:\nschema: bench.workload/1\n" in result.stderr
    kept = (out / "workload.yaml").read_text()
    assert kept in result.stderr
    assert "producers.client.acks: ['1', all]" in kept
    manifest = RunResult(out).manifest
    assert manifest.workload_file == str(out / "workload.yaml")
    assert list(disagreements(RunResult(out))) == []
    # The run is continued without a file, and the file asks the same question.
    assert call("run", "--resume", out).exit_code == 0
    planned = json.loads(call("plan", out / "workload.yaml", "--json").stdout)
    assert planned["workload_sha256"] == manifest.workload_sha256


def test_the_plan_of_a_load_in_one_line(workload: Path) -> None:
    shown = call("plan", *ONE_LINE, "--trials", "2")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("# These options as a workload file:\nschema: bench.workload/1\n")
    assert "2 trials, in 2 blocks" in shown.stdout
    assert json.loads(call("plan", *ONE_LINE, "--json").stdout)["workload_file"].startswith("schema: ")
    assert call("plan", workload, "--rate", "50/s").exit_code == 0
    nothing = call("plan")
    assert (nothing.exit_code, nothing.stderr.count("\n")) == (2, 1)
    assert nothing.stderr.startswith("error: name a workload FILE, or give a load in one line: --rate 3k/s")


def test_a_search_of_a_load_in_one_line(workload: Path) -> None:
    result = call("search", *ONE_LINE, "--max", "200/s", "--dry-run")
    assert result.exit_code == 0
    assert "A search chooses its rates as it goes" in result.stdout


def test_the_plan_names_the_trials_to_measure_again(workload: Path, finished: Path) -> None:
    def spoil(summary: Any) -> None:
        summary["verdict"]["state"] = "invalid"

    edit(finished / "trials" / "002-base" / "summary.json", spoil)
    result = call("plan", workload, "--resume", finished, "--retry-invalid")
    assert "left: 1 of 2 trials, about 6 s; measured again: 002-base\n" in result.stdout
