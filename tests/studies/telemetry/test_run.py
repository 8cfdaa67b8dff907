"""Runs that publish to a real control broker: equal to the results to the bit, valid when that broker is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from highwater.bench.telemetry.control import TOPIC, ControlTopic
from highwater.bench.telemetry.topics import make_topic
from highwater.bench.verify import disagreements
from highwater.common.errors import UsageError
from highwater.results.reader import RunResult
from highwater.studies.telemetry.figures import trial_figures
from highwater.studies.telemetry.reading import sums_in_one_process
from highwater.studies.telemetry.running import compare_with_results, compare_with_state
from highwater.studies.telemetry.store import Store
from highwater.studies.telemetry.sums import Sums
from highwater.studies.telemetry.verdicts import record_of
from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.reading import read_to_end
from tests.studies.telemetry.messages import imagined_load, trial_note
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("host_settings_stay")]

DEADLINE_S = 240
JOB_DEADLINE_S = 500
"""On a busy host each of the processes with which Spark begins takes a while."""
WORKLOAD = """\
schema: bench.workload/1
name: told
for_measurement: false
topics: {{partitions: 2}}
producers: {{count: 2}}
consumers: {{groups: 1, per_group: 2}}
records: {{size: 200B}}
load: {{rate: 2000/s}}
phases: {{warmup: 1s, measure: {measure}, drain: 10s}}
slo: {{produce.p99: <60s, produce.achieved_per_s: ">=1/s", delivery.lost: "==0"}}
trials: {{n: 1, seed: 7}}
storage: {{probe: false, drop_caches: never}}
validity:
  send_delay_p99: 60s
  achieved_ratio_min: 0.01
  generator_cpu_ratio_max: 1.0
  host_cpu_ratio_max: 1.0
  drift_ratio_max: 1000.0
"""


def highwater(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "highwater", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        text, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    return process.returncode, text


def run(folder: Path, control: str, measure: str = "4s") -> subprocess.Popen[str]:
    (folder / "told.yaml").write_text(WORKLOAD.format(measure=measure))
    options = ("--launcher", "process", "--out", str(folder / "out"), "--telemetry", control, "--quiet")
    return highwater("bench", "run", str(folder / "told.yaml"), *options)


def sums_at(control: str) -> Sums:
    try:
        return sums_in_one_process(ControlTopic(control))
    except UsageError:  # the topic is not there yet
        return Sums()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "control") as broker:
        yield broker


def test_the_topic_has_the_results_to_the_bit(tmp_path: Path, control: RunningBroker) -> None:
    status, text = ended(run(tmp_path, control.address))
    assert status == 0, text
    sums = sums_at(control.address)
    (trial,) = sums.trials.values()
    lines: list[str] = []
    assert compare_with_results(sums, tmp_path / "out", lines.append) == 0, lines
    assert lines == ["base-1: telemetry and results are equal to the bit"] or "equal to the bit" in lines[0]
    (result,) = RunResult(tmp_path / "out").trials
    use = result.summary.generator.telemetry
    assert use is not None
    assert (use.unsent, use.trial) == (0, trial.name)
    assert use.cpu_s > 0
    assert trial.has_ended
    # Every whole second of this host that the results have was told, with the same values.
    told = trial.hosts["driver"]
    for sample in result.host_samples():
        assert told[sample.second] == sample.model_dump(exclude={"second"}, exclude_none=True)
    figures = trial_figures(trial)
    for metric, latency in (
        ("produce_response", result.summary.produce.response_ns),
        ("produce_service", result.summary.produce.service_ns),
    ):
        assert figures.latencies[metric].model_dump(exclude={"hist"}) == latency.model_dump(exclude={"hist"})
    assert figures.achieved_per_s == result.summary.achieved_per_s
    assert {one.metric: (one.value, one.met) for one in figures.objectives if one.live} == {
        one.metric: (one.value, one.met) for one in result.summary.slo if one.metric != "delivery.lost"
    }


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_control_broker_that_is_killed_leaves_the_measurement_whole(tmp_path: Path, comes_back: bool) -> None:
    broker = start_broker(tmp_path / "control")
    try:
        process = run(tmp_path, broker.address, measure="6s")
        wait_until(
            lambda: any(trial.seconds > 1 for trial in sums_at(broker.address).trials.values()),
            "a published second",
            DEADLINE_S,
        )
        broker.kill()  # SIGKILL
        if comes_back:
            broker = start_broker(tmp_path / "control", port=broker.port)
        status, text = ended(process)
        assert status == 0, text
        assert list(disagreements(RunResult(tmp_path / "out"))) == []
        (result,) = RunResult(tmp_path / "out").trials
        delivery, use = result.summary.delivery, result.summary.generator.telemetry
        # A busy machine may make a trial inconclusive; that has other reasons than the control broker.
        assert result.summary.verdict.state != "invalid", result.summary.verdict
        assert (delivery.lost, delivery.failed) == (0, 0)
        assert delivery.sent == delivery.acked == delivery.received == 2000 * 7
        assert use is not None
        if comes_back:
            assert use.unsent == 0
            lines: list[str] = []
            assert compare_with_results(sums_at(broker.address), tmp_path / "out", lines.append) == 0, lines
        else:
            assert use.unsent > 0
    finally:
        broker.kill()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_job_that_is_killed_goes_on_and_ends_with_the_same_bits(tmp_path: Path, control: RunningBroker) -> None:
    """Killed with its Java while loads publish: nothing counts twice, and nothing is left out."""
    state = tmp_path / "state"

    def live(*options: str) -> subprocess.Popen[str]:
        return highwater("bench", "telemetry", "live", "--control", control.address, "--state", str(state), *options)

    def batches() -> int:
        try:
            with Store(state) as store:
                progress = store.progress()
        except UsageError:  # it is not there yet
            return 0
        return progress.batch_id + 1 if progress else 0

    with publishing(control.address):
        job = live("--every", "200ms")
        try:
            wait_until(lambda: batches() > 1, "a second micro-batch", JOB_DEADLINE_S)
        finally:
            kill_tree(job)
    status, text = ended(live("--once"))
    assert status == 0, text
    sums = sums_at(control.address)
    assert len(sums.trials) > 1
    lines: list[str] = []
    assert compare_with_state(sums, state, lines.append) == 0, lines
    with Store(state) as store:
        verdicts = [record_of(verdict) for _, verdict in store.verdicts_from(0, 1_000_000)]
    assert len(verdicts) == len(set(verdicts)) > 12
    assert [(each.key, each.value) for each in read_to_end(control.address, "hw.verdicts")] == verdicts
    with Store(state) as store:
        assert {trial.name for trial in store.trials()} == set(sums.trials)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_sums_up_what_one_process_does(control: RunningBroker) -> None:
    make_topic(control.address, {}, TOPIC)
    producer = Producer({"bootstrap.servers": control.address, "enable.idempotence": True})
    for seed in range(3):
        for number, message in enumerate(imagined_load(seed, trial_note(trial=f"run/{seed}")).encoded()):
            producer.produce(TOPIC, message, key=str(number))
    producer.flush(60)
    final = ("bench", "telemetry", "final", "--control", control.address, "--engine")
    by_spark, by_one_process = (ended(highwater(*final, engine)) for engine in ("spark", "local"))
    assert (by_spark[0], by_one_process[0]) == (0, 0), by_spark
    lines = by_one_process[1].splitlines()
    assert [line.partition(":")[0] for line in lines] == ["run/0", "run/1", "run/2"]
    assert by_spark[1].splitlines()[-3:] == lines  # before them is what Spark says of itself


@contextmanager
def publishing(control: str) -> Iterator[None]:
    """Imagined loads one after the other, in another thread, until the end of the with statement."""
    make_topic(control, {}, TOPIC)
    over = threading.Event()

    def publish() -> None:
        producer = Producer({"bootstrap.servers": control, "enable.idempotence": True})
        seed = 0
        while not over.is_set():
            for number, message in enumerate(imagined_load(seed, trial_note(trial=f"run/{seed}")).encoded()):
                producer.produce(TOPIC, message, key=str(number))
                over.wait(0.05)
            seed += 1
        producer.flush(60)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def kill_tree(process: subprocess.Popen[str]) -> None:
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for one in family:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
