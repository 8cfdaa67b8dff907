"""Runs that were killed at every kind of moment, and gone on with: what had ended is kept, the rest is run."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from highwater.bench.runs import execution, launchers
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind
from highwater.bench.runs.resume import seed_of
from highwater.bench.runs.runner import Run
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.verify import disagreements
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import NotComparableError, TrialError, UsageError
from highwater.results.analysis.answer import answer_of
from highwater.results.files import ResultDirectoryError
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.run_lock import LOCK_NAME, RunLock
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.model import LoadPlan, LoadResult
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems, load_result

TWO_CELLS = MINIMAL + "matrix: {producers.client.acks: [1, all]}\n"


@dataclass
class Bench:
    """A run over stand-ins that can be killed and gone on with."""

    directory: Path
    text: str = TWO_CELLS
    seed: int | None = None
    kind: LauncherKind = LauncherKind.SPARK
    launcher: FakeLauncher = field(default_factory=FakeLauncher)
    systems: FakeSystems = field(default_factory=FakeSystems)

    @property
    def out(self) -> Path:
        return self.directory / "out"

    @property
    def storage(self) -> Path:
        return self.directory / "storage"

    def plan(self) -> Plan:
        self.storage.mkdir(exist_ok=True)
        text = self.text + f"storage: {{target: here, targets: {{here: {{path: {self.storage}}}}}}}\n"
        return make_plan(specify(parse_document(text, "w.yaml"), self.directory / "w.yaml"), self.seed)

    def run(self, *, resume: bool = False, retry_invalid: bool = False) -> Manifest:
        def drive(run: Run) -> Manifest:
            run.start, run.connect = self.systems, FakeClient(self.launcher)
            return run.execute()

        choice = LauncherChoice(self.kind)
        return execution.run_plan(
            self.plan(), self.out, launcher=choice, resume=resume, retry_invalid=retry_invalid, drive=drive
        )

    def run_killed(self, prepare: Callable[[], None], *, retry_invalid: bool = False) -> None:
        """Run in a process of its own, which `prepare` sees to it is killed."""

        def body() -> None:
            prepare()
            self.run(resume=retry_invalid, retry_invalid=retry_invalid)

        process = multiprocessing.get_context("fork").Process(target=body)
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL

    def files_of(self, manifest: Manifest, number: int) -> dict[Path, tuple[bytes, int]]:
        folder = self.out / "trials" / manifest.trials[number].trial_id
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setattr(launchers, "make_launcher", lambda *_: made.launcher)
    return made


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_load_of_trial_3(bench: Bench) -> None:
    def outcome(plan: LoadPlan) -> LoadResult:
        if len(bench.launcher.plans) == 3:
            die()
        return load_result(plan)

    bench.launcher.outcome = outcome


def at_write_of(name: str, number: int) -> Callable[[Bench], None]:
    """Killed when the n-th file of this name has been written and does not yet bear its name."""

    def prepare(_: Bench) -> None:
        count = 0

        def write(path: Path, text: str) -> None:
            nonlocal count
            count += path.name == name
            if path.name == name and count == number:
                path.with_name(path.name + ".tmp").write_text(text[: len(text) // 2])
                die()
            write_atomically(path, text)

        # In the process that is about to be killed, so nothing needs to be put back.
        pytest.MonkeyPatch().setattr("highwater.results.writer.write_atomically", write)

    return prepare


def after_summary_3(_: Bench) -> None:
    write_trial = ResultWriter.write_trial
    count = 0

    def write(self: ResultWriter, *arguments: Any) -> None:
        nonlocal count
        count += 1
        write_trial(self, *arguments)
        if count == 3:
            die()

    pytest.MonkeyPatch().setattr(ResultWriter, "write_trial", write)


def after_one_summary_of_block_2(_: Bench) -> None:
    write_trial = ResultWriter.write_trial
    alone = threading.Lock()

    def write(self: ResultWriter, summary: TrialSummary, *arguments: Any) -> None:
        with alone:
            write_trial(self, summary, *arguments)
            if summary.block == 2:
                die()

    pytest.MonkeyPatch().setattr(ResultWriter, "write_trial", write)


@pytest.mark.parametrize(
    ("killed", "kept"),
    [
        (in_load_of_trial_3, 2),
        (after_summary_3, 3),
        (at_write_of("windows.jsonl", 2), 1),
        (at_write_of("summary.json", 3), 2),
        (at_write_of("manifest.json", 4), 1),
        (at_write_of("analysis.json", 1), 2),
    ],
    ids=["load", "trial written", "series", "summary", "manifest", "analysis"],
)
def test_a_killed_run_is_gone_on_with(bench: Bench, killed: Callable[[Bench], None], kept: int) -> None:
    bench.run_killed(lambda: killed(bench))
    before = RunResult(bench.out).manifest
    assert before.status == "running"
    finished = [bench.files_of(before, number) for number in range(kept)]
    assert all(finished)

    manifest = bench.run(resume=True)
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    assert [trial.status for trial in manifest.trials] == ["done"] * 4
    assert len(bench.launcher.plans) == 4 - kept
    assert [bench.files_of(manifest, number) for number in range(kept)] == finished
    assert len(manifest.resumed_utc) == 1
    assert (manifest.seed, manifest.created_utc) == (before.seed, before.created_utc)
    result = RunResult(bench.out)
    assert list(disagreements(result)) == []
    analysis = result.analysis()
    assert analysis is not None
    assert analysis.complete
    assert [cell.n_trials for cell in analysis.cells] == [2, 2]
    assert not (bench.out / LOCK_NAME).exists()


def test_what_ran_at_once_runs_again_at_once(bench: Bench) -> None:
    bench.text = bench.text.replace("seed: 7", "seed: 7, at_once: true")
    bench.kind = LauncherKind.PROCESS
    bench.run_killed(lambda: after_one_summary_of_block_2(bench))
    before = RunResult(bench.out)
    assert len(before.trials) == 3
    finished = [bench.files_of(before.manifest, number) for number in range(2)]
    manifest = bench.run(resume=True)
    assert [trial.status for trial in manifest.trials] == ["done"] * 4
    assert [bench.files_of(manifest, number) for number in range(2)] == finished
    assert len(bench.launcher.plans) == 2
    assert [trial.summary.verdict.state for trial in RunResult(bench.out).trials] == ["valid"] * 4


def test_spark_cannot_run_trials_at_once(bench: Bench) -> None:
    bench.text = bench.text.replace("seed: 7", "seed: 7, at_once: true")
    with pytest.raises(UsageError, match=r"trials\.at_once: Spark's executors .*; use --launcher process"):
        bench.run()
    assert not bench.out.exists()


def test_the_data_of_a_killed_run_is_removed_by_the_next_one(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    (left,) = bench.storage.iterdir()
    assert list(left.rglob("*.log"))
    long_ago_s = time.time() - 60
    os.utime(left / LOCK_NAME, (long_ago_s, long_ago_s))
    (bench.storage / "highwater-of-somebody").mkdir()  # has the look, and not the lock
    bench.run(resume=True)
    assert [path.name for path in bench.storage.iterdir()] == ["highwater-of-somebody"]


def test_a_live_run_is_not_gone_on_with(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    lock = RunLock.take(bench.out)
    with pytest.raises(UsageError, match=rf"{bench.out} is in use by process {os.getpid()}, started "):
        bench.run(resume=True)
    lock.release()
    assert bench.run(resume=True).status == "done"


def test_an_interrupted_run_is_gone_on_with_and_its_failed_trial_stays_failed(bench: Bench) -> None:
    bench.systems.faults = {2: TrialError("the broker was killed"), 3: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert [trial.status for trial in RunResult(bench.out).manifest.trials][:3] == ["done", "failed", "interrupted"]
    manifest = bench.run(resume=True)
    assert [trial.status for trial in manifest.trials] == ["done", "failed", "done", "done"]
    assert manifest.trials[1].error == "the broker was killed"
    assert manifest.exit_code == 3


def test_a_mistake_that_was_put_right_is_tried_again(bench: Bench) -> None:
    bench.systems.faults = {2: UsageError("no Java")}
    with pytest.raises(UsageError):
        bench.run()
    assert [trial.status for trial in bench.run(resume=True).trials] == ["done"] * 4


def test_a_finished_run_has_nothing_to_go_on_with(bench: Bench) -> None:
    bench.run()
    manifest = bench.run(resume=True)
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    assert len(bench.launcher.plans) == 4


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("rate: 100/s", "rate: 200/s"), r"was begun with load\.rate: 100/s, and now it is 200/s; give it the same"),
        (("n: 2", "n: 3"), r"was begun with trials\.n: 2, and now it is 3"),
        (("acks: [1, all]", "acks: [all, 1]"), r"was begun with matrix\.producers\.client\.acks: \[1, 'all'\]"),
    ],
)
def test_another_question_is_refused(bench: Bench, change: tuple[str, str], error: str) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    bench.text = bench.text.replace(*change)
    with pytest.raises(UsageError, match=error):
        bench.run(resume=True)
    assert RunResult(bench.out).manifest.status == "running"


def test_another_seed_is_refused(bench: Bench) -> None:
    bench.run()
    assert seed_of(bench.out, None) == 7
    with pytest.raises(UsageError, match=r"was started with seed 7; leave --seed out"):
        seed_of(bench.out, 8)


def change(path: Path, *keys: str, value: Any) -> None:
    content = json.loads(path.read_text())
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_text(json.dumps(content))


def test_another_version_or_host_is_refused(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    change(bench.out / "env.json", "facts", "kernel_release", value="2.6.32")
    with pytest.raises(NotComparableError, match=r"was begun under other conditions: kernel: 2\.6\.32 → "):
        bench.run(resume=True)
    change(bench.out / "manifest.json", "versions", "librdkafka", value="0.9")
    with pytest.raises(UsageError, match=r"was begun with librdkafka 0\.9, and this is "):
        bench.run(resume=True)


def test_a_directory_without_a_run(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"--resume: .*out holds no run; begin one with --out"):
        bench.run(resume=True)
    bench.out.mkdir()
    (bench.out / "manifest.json").write_text("{")
    with pytest.raises(ResultDirectoryError, match=r"manifest\.json"):
        bench.run(resume=True)


def test_an_interrupted_result_directory_on_a_target_is_no_leftover(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    results = bench.out.rename(bench.storage / "highwater-results")
    long_ago_s = time.time() - 60
    os.utime(results / LOCK_NAME, (long_ago_s, long_ago_s))
    bench.run()
    assert len(RunResult(results).trials) == 2


def test_a_run_is_gone_on_with_on_the_launcher_it_was_begun_on(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    bench.launcher.name = "processes"
    told = r"was begun on spark local\[2\], and this would go on on processes; give it --launcher spark --master 'local"
    with pytest.raises(UsageError, match=told):
        bench.run(resume=True)
    assert RunResult(bench.out).manifest.status == "running"


def test_a_run_is_gone_on_with_under_the_spark_settings_it_was_begun_under(bench: Bench) -> None:
    bench.launcher.settings = {"spark.executor.cores": "2", "spark.ssl.keyPassword": "geheim"}
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    assert "geheim" not in (bench.out / "manifest.json").read_text()
    bench.launcher.settings = {"spark.ssl.keyPassword": "geheim"}
    told = (
        r"was begun with spark\.executor\.cores=2, and this would go on with spark\.executor\.cores as it is; give it "
        "the same --spark-conf"
    )
    with pytest.raises(UsageError, match=told):
        bench.run(resume=True)
    bench.launcher.settings = {"spark.executor.cores": "2", "spark.ssl.keyPassword": "geheim"}
    assert bench.run(resume=True).status == "done"


def test_a_run_is_not_gone_on_with_on_another_disk(bench: Bench) -> None:
    bench.run_killed(lambda: in_load_of_trial_3(bench))
    for path in (bench.out / "trials").glob("*/summary.json"):
        summary = json.loads(path.read_text())
        summary["storage"]["filesystem"] = "xfs"
        path.write_text(json.dumps(summary))
    with pytest.raises(NotComparableError, match=r"begun under other conditions: storage: filesystem xfs → "):
        bench.run(resume=True)


def spoiled(at: int, **changes: Any) -> Callable[[LoadPlan], LoadResult]:
    """Healthy loads, but the n-th has other figures in its generator or its delivery."""
    numbers = itertools.count(1)

    def outcome(plan: LoadPlan) -> LoadResult:
        result = load_result(plan)
        if next(numbers) != at:
            return result
        part = "delivery" if "lost" in changes else "generator"
        return replace(result, **{part: replace(getattr(result, part), **changes)})

    return outcome


def begun_with_an_invalid_trial(bench: Bench, **changes: Any) -> Manifest:
    bench.launcher.outcome = spoiled(2, **(changes or {"cpu_ratio_max": 1.0}))
    manifest = bench.run()
    assert [trial.summary.verdict.state for trial in RunResult(bench.out).trials].count("invalid") == 1
    bench.launcher.plans.clear()
    bench.launcher.outcome = load_result
    return manifest


def assert_second_was_measured_again(bench: Bench, manifest: Manifest) -> None:
    result = RunResult(bench.out)
    assert [trial.status for trial in manifest.trials] == ["done"] * 4
    assert [trial.summary.verdict.state for trial in result.trials] == ["valid"] * 4
    (before,) = manifest.trials[1].replaced
    assert before.state == "invalid"
    assert (bench.out / before.kept_in / "summary.json").is_file()
    assert [len(trial.replaced) for trial in manifest.trials] == [0, 1, 0, 0]
    assert list(disagreements(result)) == []
    analysis = result.analysis()
    assert analysis is not None
    assert [cell.n_trials for cell in analysis.cells] == [2, 2]


def test_an_invalid_trial_is_measured_again_and_stays_on_record(bench: Bench) -> None:
    begun = begun_with_an_invalid_trial(bench)
    assert begun.exit_code == 4
    kept = bench.files_of(begun, 0)
    manifest = bench.run(resume=True, retry_invalid=True)
    assert manifest.exit_code == 0
    assert len(bench.launcher.plans) == 1
    assert bench.files_of(manifest, 0) == kept
    assert_second_was_measured_again(bench, manifest)
    (note,) = RunResult(bench.out).retry_notes()
    assert note.startswith("002-acks=")
    assert "was measured again: before, it was invalid (the busiest task used 100 % of a core" in note
    assert note.endswith("what it wrote is in replaced/" + manifest.trials[1].trial_id + ".1")


def test_a_plain_resume_measures_nothing_again(bench: Bench) -> None:
    begun_with_an_invalid_trial(bench)
    assert bench.run(resume=True).exit_code == 4
    assert bench.launcher.plans == []


def test_a_loss_stays_in_the_exit_status(bench: Bench) -> None:
    assert begun_with_an_invalid_trial(bench, lost=3, received=297).exit_code == 3
    manifest = bench.run(resume=True, retry_invalid=True)
    assert_second_was_measured_again(bench, manifest)
    assert manifest.exit_code == 3
    sentence = answer_of(RunResult(bench.out)).sentence
    again = f"Before trial {manifest.trials[1].trial_id} was measured again: 3 acknowledged records were lost"
    assert again in sentence


def test_a_failed_trial_is_measured_again(bench: Bench) -> None:
    bench.systems.faults = {2: TrialError("the broker was killed")}
    bench.run()
    manifest = bench.run(resume=True, retry_invalid=True)
    assert [trial.status for trial in manifest.trials] == ["done"] * 4
    (before,) = manifest.trials[1].replaced
    assert (before.state, before.reasons, before.system_at_fault) == ("failed", ["the broker was killed"], True)
    assert manifest.exit_code == 3
    assert list(disagreements(RunResult(bench.out))) == []


def in_load(bench: Bench) -> None:
    bench.launcher.outcome = lambda _: die()  # type: ignore[assignment, return-value]


def before_anything_is_moved(_: Bench) -> None:
    pytest.MonkeyPatch().setattr(ResultWriter, "keep_replaced", lambda *_: die())


@pytest.mark.parametrize("killed", [before_anything_is_moved, in_load])
def test_a_killed_retry_loses_nothing(bench: Bench, killed: Callable[[Bench], None]) -> None:
    begun_with_an_invalid_trial(bench)
    bench.run_killed(lambda: killed(bench), retry_invalid=True)
    assert not [line for line in disagreements(RunResult(bench.out)) if "changed since the run ended" in line]
    bench.launcher.outcome = load_result
    manifest = bench.run(resume=True)
    assert_second_was_measured_again(bench, manifest)
    assert len(bench.launcher.plans) == 1


def test_trials_at_once_are_measured_again_together(bench: Bench) -> None:
    bench.text = bench.text.replace("seed: 7", "seed: 7, at_once: true")
    bench.kind = LauncherKind.PROCESS
    begun_with_an_invalid_trial(bench, lost=3, received=297)
    manifest = bench.run(resume=True, retry_invalid=True)
    states = sorted(before.state for trial in manifest.trials for before in trial.replaced)
    assert states == ["invalid", "valid"]
    assert len({trial.block for trial in manifest.trials if trial.replaced}) == 1
    assert list(disagreements(RunResult(bench.out))) == []


def test_verify_finds_what_was_done_to_the_record(bench: Bench) -> None:
    begun_with_an_invalid_trial(bench)
    (before,) = bench.run(resume=True, retry_invalid=True).trials[1].replaced
    change(bench.out / before.kept_in / "summary.json", "verdict", "state", value="valid")
    assert f"{before.kept_in}: its summary says valid, and the manifest invalid" in list(
        disagreements(RunResult(bench.out))
    )
