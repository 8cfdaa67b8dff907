"""The runner with a stand-in for Spark and for the broker: whatever fails, nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from highwater.bench.runs import runner
from highwater.bench.runs.runner import Run, Surroundings
from highwater.bench.storage.areas import StorageAreas
from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.trials.plan import Plan, PlannedTrial, make_plan
from highwater.bench.trials.progress import Observer
from highwater.bench.trials.stopping import StopRequest
from highwater.bench.trials.trial import TrialRunner
from highwater.bench.verify import disagreements
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.common.errors import TrialError, UsageError
from highwater.common.exit_codes import EXIT_INTERRUPTED, EXIT_OBJECTIVE
from highwater.results.calibration import Calibration
from highwater.results.canary import CanaryReading
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, LoadResult
from highwater.tuning.facts import collect
from tests.bench.fakes import MINIMAL, FakeClient, FakeLauncher, FakeSystems, load_result
from tests.waiting import wait_until

TWO_CELLS = MINIMAL + "matrix: {producers.client.acks: [1, all]}\n"


class Bench:
    """A run over stand-ins in a temporary directory."""

    def __init__(self, tmp_path: Path, text: str = TWO_CELLS) -> None:
        storage = tmp_path / "storage"
        storage.mkdir(parents=True)
        self.storage = storage
        self.out = tmp_path / "out"
        text += f"storage: {{target: here, targets: {{here: {{path: {storage}}}}}}}\n" if "external" not in text else ""
        self.plan: Plan = make_plan(specify(parse_document(text, "w.yaml"), tmp_path / "w.yaml"))
        self.launcher = FakeLauncher()
        self.systems = FakeSystems()
        self.client = FakeClient(self.launcher)
        self.stop = StopRequest()
        self.launcher_of: Callable[[PlannedTrial], FakeLauncher] | None = None
        self.calibration: Calibration | None = None
        self.telemetry: ControlTopic | None = None

    def run(self, keep_data: bool = False) -> Manifest:
        with StorageAreas(keep_data) as areas:
            for target in {trial.cell.workload.storage.target for trial in self.plan.trials} - {"temporary"}:
                areas.add(target, self.storage, 0)
            return Run(
                self.plan,
                Surroundings(argv=["highwater"], directory=Path.cwd()),
                ResultWriter(self.out),
                self.launcher,
                collect(),
                areas,
                Observer(),
                self.stop,
                start=self.systems,
                connect=self.client,
                launcher_of=self.launcher_of,
                calibration=self.calibration,
                telemetry=self.telemetry,
            ).execute()

    def stopped(self) -> bool:
        """Whether the run is told to stop within a minute."""
        wait_until(lambda: self.stop.requested, "the request to stop")
        return True

    def result(self) -> RunResult:
        """What is on disk, which must be readable and agree with itself whatever happened."""
        result = RunResult(self.out)
        assert list(disagreements(result)) == []
        return result

    def assert_nothing_left(self) -> None:
        assert list(self.storage.iterdir()) == []
        assert not any(system.running for system in self.systems.started)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class KnowsAll:
    """A calibration with a ceiling for every shape."""

    ceiling_per_s = 1000.0

    def ceiling_of(self, _: object) -> KnowsAll:
        return self

    consumer_ceiling_of = ceiling_of


@pytest.mark.parametrize(("host", "ceiling"), [(None, 1000.0), ("executor-3", None)])
def test_a_ceiling_is_of_the_host_it_was_measured_on(bench: Bench, host: str | None, ceiling: float | None) -> None:
    bench.calibration = cast(Calibration, KnowsAll())
    bench.launcher.outcome = lambda plan: load_result(plan, host=host)
    bench.run()
    for trial in bench.result().trials:
        generator, notes = trial.summary.generator, trial.summary.verdict.notes
        assert generator.ceiling_per_s == ceiling
        assert generator.hosts() == [host or socket.gethostname()]
        assert [note for note in notes if "executor-3: no ceiling is known" in note] == notes[len(notes) - bool(host) :]


def at(
    number: int, fault: BaseException | LoadResult, others: Callable[[LoadPlan], LoadResult] = load_result
) -> Callable[[LoadPlan], LoadResult]:
    """Healthy loads but for the n-th; others: those that are begun after it."""
    numbers = itertools.count(1)

    def outcome(plan: LoadPlan) -> LoadResult:
        mine = next(numbers)
        if mine != number:
            return load_result(plan) if mine < number else others(plan)
        if isinstance(fault, BaseException):
            raise fault
        return fault

    return outcome


def test_a_run_that_goes_well(bench: Bench) -> None:
    manifest = bench.run()
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    assert [trial.status for trial in manifest.trials] == ["done"] * 4
    result = bench.result()
    assert result.manifest == manifest
    assert list(result.cells()) == ["acks=1", "acks=all"]
    summary = result.trials[0].summary
    assert (summary.offered_per_s, summary.achieved_per_s, summary.achieved_bytes_per_s) == (100, 100, 10_000)
    assert summary.produce.response_ns.count == 200  # the measured phase alone
    assert (summary.delivery.acked, summary.delivery.in_log) == (300, 300)
    assert summary.verdict.state == "valid"
    assert summary.storage.name == "here"
    assert summary.system.effective_config == {"segment.bytes": "1073741824"}
    assert [window.phase for window in result.trials[0].windows()] == ["warmup", "measure", "measure", "drain"]
    assert result.trials[0].spectrum("e2e_response")
    assert (result.trials[0].directory / "system.log").read_text() == "started\n"
    assert result.environment.facts["versions"]["spark"] == "0"
    assert result.environment.tuning
    bench.assert_nothing_left()


def test_what_was_acknowledged_in_a_partition_is_what_the_log_holds_in_it(bench: Bench) -> None:
    bench.client.by_partition = [240, 60]
    bench.run()
    trial = bench.result().trials[0]
    assert [(line.acked, line.acked_bytes) for line in trial.partitions()] == [(240, 24_000), (60, 6_000)]
    assert trial.summary.partition_skew_ratio == 240 / 150
    assert list(disagreements(bench.result())) == []


@pytest.mark.parametrize("in_log", [[240, 59], [240, 61]], ids=["less than was acknowledged", "more"])
def test_a_log_that_holds_something_else_tells_nothing_of_partitions(bench: Bench, in_log: list[int]) -> None:
    bench.client.by_partition = in_log
    bench.run()
    trial = bench.result().trials[0]
    assert [(line.acked, line.received) for line in trial.partitions()] == [(None, 150), (None, 150)]
    assert trial.summary.partition_skew_ratio == 1


def test_every_trial_has_a_fresh_directory_and_the_trials_of_a_block_the_same_payload(bench: Bench) -> None:
    bench.run()
    assert len(set(bench.systems.directories)) == 4
    assert [plan.seed for plan in bench.launcher.plans] == [8, 8, 9, 9]
    assert len({plan.topics for plan in bench.launcher.plans}) == 4


def test_a_block_on_a_slow_host_is_doubted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, TWO_CELLS.replace("n: 2", "n: 4"))
    times_ns = iter([50, 10, 10, 80])

    def take(directory: Path | None) -> CanaryReading:
        assert directory is not None
        return CanaryReading(cpu_ns=next(times_ns), memory_ns=1, loopback_ns=1)

    monkeypatch.setattr(runner, "take_canary", take)
    bench.run()
    result = bench.result()
    assert [canary.reading.cpu_ns for canary in result.manifest.canaries] == [50, 10, 10, 80]
    doubted = {
        trial.summary.block
        for trial in result.trials
        for reason in trial.summary.verdict.reasons
        if reason.check == "canary.cpu"
    }
    assert doubted == {4}


def test_the_workload_in_the_manifest_is_a_workload_file(bench: Bench) -> None:
    manifest = bench.run()
    again = specify(parse_document(json.dumps(manifest.workload), "again"), Path("again"))
    assert again.sha256 == manifest.workload_sha256


@pytest.mark.parametrize(
    ("fault", "error", "exit_code"),
    [
        (LoadFailed("a load task died"), "a load task died", 4),
        (TrialError("something"), "something", 3),
        (OSError(28, "No space left on device", "out/trials"), "out/trials: No space left on device", 4),
    ],
)
def test_a_failed_trial_is_marked_and_the_rest_goes_on(
    bench: Bench, fault: BaseException, error: str, exit_code: int
) -> None:
    bench.launcher.outcome = at(2, fault)
    manifest = bench.run()
    assert (manifest.status, manifest.exit_code) == ("done", exit_code)
    assert [trial.status for trial in manifest.trials] == ["done", "failed", "done", "done"]
    assert manifest.trials[1].generator_failed == (exit_code == 4)
    assert manifest.trials[1].error == error
    assert len(bench.result().trials) == 3
    bench.assert_nothing_left()


def test_a_disk_without_room_for_the_manifest_either_loses_that_trial_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "out/manifest.json")
    bench.launcher.outcome = at(2, full)
    write_manifest = ResultWriter.write_manifest

    def while_there_is_room(writer: ResultWriter, manifest: Manifest) -> None:
        failed = [trial for trial in manifest.trials if trial.status == "failed"]
        if any((bench.out / "trials" / trial.trial_id).exists() for trial in failed):
            raise full
        write_manifest(writer, manifest)

    monkeypatch.setattr(ResultWriter, "write_manifest", while_there_is_room)
    manifest = bench.run()
    assert (manifest.status, manifest.exit_code) == ("done", 4)
    assert [trial.status for trial in manifest.trials] == ["done", "failed", "done", "done"]
    bench.assert_nothing_left()


@pytest.mark.parametrize("step", ["create_topic", "records_by_partition"])
def test_a_broker_that_does_not_answer_fails_the_trial(bench: Bench, step: str) -> None:
    bench.client = FakeClient(bench.launcher, {step: TrialError("no answer")})
    manifest = bench.run()
    assert manifest.exit_code == 3
    assert {trial.status for trial in manifest.trials} == {"failed"}
    assert bench.result().trials == []
    bench.assert_nothing_left()


def test_a_system_that_does_not_start_fails_the_trial(bench: Bench) -> None:
    bench.systems.faults = {1: TrialError("the broker was not ready within 60 s")}
    manifest = bench.run()
    assert [trial.status for trial in manifest.trials] == ["failed", "done", "done", "done"]
    bench.assert_nothing_left()


def test_a_system_that_dies_under_load_is_what_the_trial_tells(bench: Bench) -> None:
    def die(plan: LoadPlan) -> LoadResult:
        bench.systems.started[-1].trouble = "the broker was killed by SIGKILL"
        return load_result(plan, interrupted=True)

    bench.launcher.outcome = die
    manifest = bench.run()
    assert {trial.error for trial in manifest.trials} == {"the broker was killed by SIGKILL"}
    assert manifest.exit_code == 3


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ({2: UsageError("the broker refuses to start: x")}, load_result),
        ({}, at(2, LoadSetupError("the executors lack a package"))),
    ],
)
def test_what_cannot_work_for_any_trial_ends_the_run(
    bench: Bench, faults: Mapping[int, BaseException], outcome: Callable[[LoadPlan], LoadResult]
) -> None:
    bench.systems.faults, bench.launcher.outcome = faults, outcome
    with pytest.raises(UsageError):
        bench.run()
    manifest = bench.result().manifest
    assert (manifest.status, manifest.exit_code) == ("failed", 2)
    assert [trial.status for trial in manifest.trials] == ["done", "failed", "planned", "planned"]
    bench.assert_nothing_left()


def test_a_broker_that_answers_no_more_when_the_load_begins_has_failed(bench: Bench) -> None:
    bench.launcher.outcome = at(2, LoadSetupError("no broker answers at 127.0.0.1:1 within 10 s"))
    bench.client = FakeClient(bench.launcher, {"answers": TrialError("the broker hangs")})
    manifest = bench.run()
    assert manifest.exit_code == 3
    assert [trial.status for trial in manifest.trials] == ["done", "failed", "done", "done"]
    assert manifest.trials[1].error == "no broker answers at 127.0.0.1:1 within 10 s"
    bench.assert_nothing_left()


def test_a_mistake_that_the_first_trial_shows_leaves_the_directory_free(bench: Bench) -> None:
    bench.systems.faults = {1: UsageError("the broker refuses the topic: x")}
    with pytest.raises(UsageError):
        bench.run()
    assert list(bench.out.iterdir()) == []
    bench.assert_nothing_left()


def test_a_bug_is_not_swallowed_and_the_directory_says_so(bench: Bench) -> None:
    bench.launcher.outcome = at(1, ZeroDivisionError("bug"))
    with pytest.raises(ZeroDivisionError):
        bench.run()
    manifest = bench.result().manifest
    assert manifest.status == "failed"
    assert "ZeroDivisionError" in str(manifest.trials[0].error)
    bench.assert_nothing_left()


def test_ctrl_c_under_load_keeps_what_was_measured(bench: Bench) -> None:
    def stop(plan: LoadPlan) -> LoadResult:
        if len(bench.launcher.plans) < 2:
            return load_result(plan)
        bench.stop.requested = True
        return load_result(plan, interrupted=True)

    bench.launcher.outcome = stop
    manifest = bench.run()
    assert (manifest.status, manifest.exit_code) == ("interrupted", 130)
    assert [trial.status for trial in manifest.trials] == ["done", "interrupted", "planned", "planned"]
    result = bench.result()
    assert len(result.trials) == 1
    partial = bench.out / "trials" / manifest.trials[1].trial_id
    assert (partial / "windows.jsonl").is_file()
    assert not (partial / "summary.json").exists()
    bench.assert_nothing_left()


def test_ctrl_c_between_trials(bench: Bench) -> None:
    def finish_then_stop(plan: LoadPlan) -> LoadResult:
        bench.stop.requested = True
        return load_result(plan)

    bench.launcher.outcome = finish_then_stop
    manifest = bench.run()
    assert [trial.status for trial in manifest.trials][:2] == ["done", "interrupted"]
    assert manifest.exit_code == 130


def test_a_second_ctrl_c_ends_at_once_and_the_directory_stays_readable(bench: Bench) -> None:
    bench.launcher.outcome = at(2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    manifest = bench.result().manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", 130)
    assert manifest.trials[1].status == "interrupted"
    bench.assert_nothing_left()


def test_a_second_ctrl_c_while_the_system_stops_leaves_a_trial_that_is_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted_after(runner: TrialRunner, *arguments: Any) -> TrialSummary:
        measured(runner, *arguments)
        raise KeyboardInterrupt

    measured = TrialRunner.run
    monkeypatch.setattr(TrialRunner, "run", interrupted_after)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    manifest = bench.result().manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", 130)
    assert manifest.trials[0].status == "done"
    assert list(disagreements(bench.result())) == []


def test_a_second_ctrl_c_between_trials_is_no_run_that_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.bench.runs.runner.analyse", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    manifest = bench.result().manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", 130)
    assert {trial.status for trial in manifest.trials} == {"done", "planned"}
    assert list(disagreements(bench.result())) == []
    bench.assert_nothing_left()


def test_a_run_that_was_killed_is_readable(bench: Bench) -> None:
    """What lies on disk while the second trial runs is what kill -9 leaves."""
    seen: list[tuple[str, list[str]]] = []

    def look(plan: LoadPlan) -> LoadResult:
        manifest = bench.result().manifest
        seen.append((manifest.status, [trial.status for trial in manifest.trials]))
        return load_result(plan)

    bench.launcher.outcome = look
    bench.run()
    assert seen[1] == ("running", ["done", "running", "planned", "planned"])


def test_lost_records_make_exit_code_3_and_a_slow_generator_4(tmp_path: Path) -> None:
    lossy = Bench(tmp_path / "lossy")
    lossy.client.in_log = 299
    assert lossy.run().exit_code == 3
    assert lossy.result().trials[0].summary.verdict.reasons[0].check == "delivery.in_log"

    slow = Bench(tmp_path / "slow", TWO_CELLS + "validity: {send_delay_p99: 1us}\n")
    assert slow.run().exit_code == 4


def test_a_workload_without_consumers_has_no_end_to_end_latency(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL + "consumers: {groups: 0}\n")
    assert bench.run().exit_code == 0
    summary = bench.result().trials[0].summary
    assert summary.e2e is None
    assert summary.delivery.lost == 0


def test_the_topics_of_an_external_cluster_are_removed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, MINIMAL + "system: {kind: external, bootstrap_servers: '127.0.0.1:1'}\n")
    bench.run()
    assert bench.client.deleted == [plan.topics[0] for plan in bench.launcher.plans]
    assert bench.systems.directories == []
    assert bench.result().trials[0].summary.storage.name == "external"


def test_a_decided_cell_gets_no_more_trials_and_the_manifest_says_why(tmp_path: Path) -> None:
    stop_when = "stop_when: {ci_halfwidth: 5%, of: produce.p99, min: 5}"
    bench = Bench(tmp_path, TWO_CELLS.replace("n: 2", f"n: 8, {stop_when}"))
    manifest = bench.run()
    assert [trial.status for trial in manifest.trials] == ["done"] * 10 + ["skipped"] * 6
    assert {trial.error for trial in manifest.trials[10:]} == {
        "decided: produce.p99 is known to ±0 % after 5 trials (trials.stop_when: ±5 %)"
    }
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    assert len(bench.launcher.plans) == 10


def test_twins_are_run_and_counted_for_the_noise_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TWO_CELLS.replace("a_a: false", "a_a: true").replace("n: 2", "n: 3"))
    bench.run()
    result = bench.result()
    assert [len(trials) for trials in result.cells().values()] == [3, 3]
    assert [twin.summary.cell for _, twin in result.a_a_pairs()] == ["acks=1", "acks=all", "acks=1"]
    analysis = result.analysis()
    assert analysis is not None
    assert {noise.n_pairs for noise in analysis.noise} == {3}
    assert [cell.n_trials for cell in analysis.cells] == [3, 3]


def test_what_a_trial_was_besides_fast(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TWO_CELLS + "slo: {produce.p99: '<1us', errors: '==0'}\n")
    manifest = bench.run()
    assert manifest.exit_code == EXIT_OBJECTIVE
    result = bench.result()
    summary = result.trials[0].summary
    assert [(item.metric, item.bound, item.met) for item in summary.slo] == [
        ("produce.p99", "<1us", False),
        ("errors", "==0", True),
    ]
    assert summary.launcher == "spark local[2]"
    assert [event.text for event in result.trials[0].events()][:2] == ["warmup", "measure"]
    assert (result.trials[0].directory / "verdict.json").is_file()
    assert [canary.block for canary in manifest.canaries] == [1, 2]
    assert manifest.overhead is not None
    assert manifest.overhead.load_s > 0
    assert set(manifest.trials[0].steps_s) >= {"start_system", "start_load", "load", "drain", "write", "stop_system"}


def test_each_trial_may_have_a_launcher_of_its_own(bench: Bench) -> None:
    other = FakeLauncher()
    other.name, other.plans = "processes", bench.launcher.plans
    bench.launcher_of = lambda planned: other if planned.plan.cell == "acks=1" else bench.launcher
    bench.run()
    launchers = {trial.summary.cell: trial.summary.launcher for trial in bench.result().trials}
    assert launchers == {"acks=1": "processes", "acks=all": "spark local[2]"}


AT_ONCE = TWO_CELLS.replace("seed: 7", "seed: 7, at_once: true")


def test_the_trials_of_a_block_run_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, AT_ONCE)
    both_load = threading.Barrier(2, timeout=60)

    def outcome(plan: LoadPlan) -> LoadResult:
        both_load.wait()
        return load_result(plan)

    bench.launcher.outcome = outcome
    manifest = bench.run()
    assert (manifest.status, manifest.exit_code) == ("done", 0)
    summaries = {trial.summary.trial_id: trial.summary for trial in bench.result().trials}
    assert [summary.verdict.state for summary in summaries.values()] == ["valid"] * 4
    for summary in summaries.values():
        assert summary.at_once is not None
        (other,) = summary.at_once.trials
        assert (summaries[other].block, summaries[other].cell != summary.cell) == (summary.block, True)
    assert bench.result().sharing_notes() != []
    bench.assert_nothing_left()


def test_a_trial_that_fails_leaves_those_beside_it_in_doubt(tmp_path: Path) -> None:
    bench = Bench(tmp_path, AT_ONCE)
    bench.launcher.outcome = at(1, LoadFailed("a load task died"))
    manifest = bench.run()
    assert sorted(trial.status for trial in manifest.trials) == ["done"] * 3 + ["failed"]
    (failed,) = (trial for trial in manifest.trials if trial.status == "failed")
    for trial in bench.result().trials:
        left_alone = trial.summary.block == failed.block
        checks = [reason.check for reason in trial.summary.verdict.reasons]
        assert checks == (["trials.at_once"] if left_alone else [])
    bench.assert_nothing_left()


@pytest.mark.parametrize("error", [UsageError("the topic's configuration is refused"), ValueError("a bug")])
def test_what_ends_a_run_ends_the_trials_beside_it_too(tmp_path: Path, error: Exception) -> None:
    bench = Bench(tmp_path, AT_ONCE)
    bench.launcher.outcome = at(3, error, others=lambda plan: load_result(plan, interrupted=bench.stopped()))
    with pytest.raises(type(error), match=str(error)):
        bench.run()
    statuses = [trial.status for trial in RunResult(bench.out).manifest.trials]
    assert statuses[:2] == ["done"] * 2
    assert sorted(statuses[2:]) == ["failed", "interrupted"]
    bench.assert_nothing_left()


def test_a_trial_that_cannot_even_begin_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, AT_ONCE)
    trial_directory, asked = ResultWriter.trial_directory, set[str]()

    def full(self: ResultWriter, trial_id: str) -> Path:
        if not asked:
            asked.add(trial_id)
            raise OSError(errno.ENOSPC, "No space left on device")
        return trial_directory(self, trial_id)

    monkeypatch.setattr(ResultWriter, "trial_directory", full)
    manifest = bench.run()
    assert sorted(trial.status for trial in manifest.trials) == ["done"] * 3 + ["failed"]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_stop_ends_all_trials_of_a_block(tmp_path: Path, signals: int) -> None:
    bench = Bench(tmp_path, AT_ONCE)

    both_load = threading.Barrier(2, timeout=60)
    sent = threading.Event()

    def outcome(plan: LoadPlan) -> LoadResult:
        if both_load.wait() == 0:
            for _ in range(signals):
                with contextlib.suppress(KeyboardInterrupt):
                    bench.stop._on_signal(signal.SIGINT, None)
            sent.set()
        assert sent.wait(60)
        bench.stop.check_at_once()
        return load_result(plan, interrupted=True)

    bench.launcher.outcome = outcome
    if signals == 1:
        assert bench.run().exit_code == EXIT_INTERRUPTED
    else:
        with pytest.raises(KeyboardInterrupt):
            bench.run()
    manifest = RunResult(bench.out).manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", EXIT_INTERRUPTED)
    assert [trial.status for trial in manifest.trials] == ["interrupted"] * 2 + ["planned"] * 2
    bench.assert_nothing_left()


def test_a_host_that_cannot_be_looked_at_makes_the_block_doubtful(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(_: Path | None) -> CanaryReading:
        raise OSError(errno.ENOSPC, "No space left on device", "storage")

    monkeypatch.setattr(runner, "take_canary", take)
    manifest = bench.run()
    assert (manifest.status, manifest.canaries) == ("done", [])
    for trial in bench.result().trials:
        assert trial.summary.verdict.state == "inconclusive"
        assert [reason.check for reason in trial.summary.verdict.reasons] == ["canary.taken"]
    assert list(disagreements(bench.result())) == []


def test_results_without_room_between_trials_say_that_they_are_not_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "analysis.json")

    monkeypatch.setattr(ResultWriter, "write_analysis", write)
    with pytest.raises(OSError, match="No space left"):
        bench.run()
    manifest = bench.result().manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", 4)
    assert [trial.status for trial in manifest.trials] == ["done", "done", "planned", "planned"]
    assert list(disagreements(bench.result())) == []
