"""Starts jobs and comparisons from the options of `bench telemetry`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from highwater.bench.telemetry.control import ControlTopic
from highwater.bench.telemetry.topics import make_topic
from highwater.bench.workload.command_config import read_command_config
from highwater.common.errors import UsageError
from highwater.results.files import ResultDirectoryError
from highwater.results.histogram import Histogram
from highwater.results.histogram_log import read_seconds
from highwater.results.models import LATENCY_METRICS, Metric
from highwater.results.reader import RunResult
from highwater.studies.telemetry.comparing import COUNTS, differences_of_results, differences_of_sums
from highwater.studies.telemetry.live import Live
from highwater.studies.telemetry.parquet import ParquetSink
from highwater.studies.telemetry.reading import sums_in_one_process
from highwater.studies.telemetry.store import Changed, Store, StoredTrial
from highwater.studies.telemetry.sums import Sums
from highwater.studies.telemetry.verdict_topic import PARTITIONS, VerdictTopic

Tell = Callable[[str], object]
_TELL_EVERY_BATCHES: Final = 5
_POLL_S: Final = 0.5
_APPLICATION: Final = "highwater-telemetry"


def run_live(
    control: str,
    state: Path,
    *,
    topic: str,
    verdicts: str,
    control_config: Path | None,
    master: str,
    every_s: float,
    once: bool,
    on_trial: Callable[[StoredTrial], object] = lambda _: None,
) -> None:
    """Run the stream until Ctrl-C, or until it has read what is there. Raises UsageError.

    verdicts: the topic that gets them. on_trial: called for each trial that changed, every few micro-batches and when
    it has ended.
    """
    from pyspark.errors import StreamingQueryException

    source = control_topic(control, topic, control_config)
    source.kafka_properties()  # refuses what the stream could not use
    if verdicts == topic:
        raise UsageError(f"--verdicts {verdicts} is the topic that load tasks publish to; name another one")
    make_topic(control, source.connection, topic)
    make_topic(control, source.connection, verdicts, PARTITIONS)
    state.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    from highwater.studies.spark_session import spark_session
    from highwater.studies.telemetry.job import start_live

    with Store(state, create=True) as store, spark_session(_APPLICATION, master) as spark:
        store.claim(f"{topic} at {control}")
        live = Live(store, [ParquetSink(state)])
        tell = _teller(store, on_trial)
        with VerdictTopic(replace(source, topic=verdicts), store) as verdict_topic:
            verdict_topic.send_new()  # what the process before this one stored and did not send

            def on_batch(changed: Sequence[Changed]) -> None:
                verdict_topic.send_new()
                tell(changed)

            query = start_live(spark, source, live, state, every_s=every_s, once=once, on_batch=on_batch)
            try:
                while not stop.is_set() and not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]
                    pass
            except StreamingQueryException as error:
                raise UsageError(f"the stream ended: {_reason(error)}") from error
            finally:
                query.stop()


def sum_up(control: str, *, topic: str, control_config: Path | None, engine: str, master: str) -> Sums:
    """Sum up all that is on the topic now. Raises UsageError."""
    source = control_topic(control, topic, control_config)
    if engine == "local":
        return sums_in_one_process(source)
    from highwater.studies.spark_session import spark_session
    from highwater.studies.telemetry.job import sums_of_topic

    with spark_session(_APPLICATION, master) as spark:
        return sums_of_topic(spark, source)


def compare_with_state(sums: Sums, state: Path, tell: Tell) -> int:
    """Report what differs between the topic and the live figures of trials that have ended. Returns how much."""
    different = 0
    with Store(state) as store:
        for name, final in sorted(sums.trials.items()):
            live = store.sums(name)
            if live is None:
                tell(f"{name}: there are no live figures of it")
                different += 1
                continue
            found = differences_of_sums(live, final)
            late = f" ({live.late} timed records came late)" if live.late else ""
            different += len(found)
            tell(f"{name}: live and final are {'different' if found else 'equal to the bit'}{late}")
            for line in found:
                tell(f"  {line}")
    return different


def compare_with_results(sums: Sums, directory: Path, tell: Tell) -> int:
    """Report what differs between the topic and the trials of a result directory. Returns how much."""
    different = 0
    try:
        trials = RunResult(directory).trials
        for trial in trials:
            use = trial.summary.generator.telemetry
            if use is None or (told := sums.trials.get(use.trial)) is None:
                tell(f"{trial.summary.trial_id}: nothing on the topic is of it")
                different += 1
                continue
            metrics: list[Metric] = [*LATENCY_METRICS, *(("txn_commit",) if trial.summary.transactions else ())]
            histograms: dict[str, dict[int, Histogram]] = {
                metric: read_seconds(trial.histogram_path(metric)) for metric in metrics
            }
            windows = trial.windows()
            counts = {name: {line.second: getattr(line, name) for line in windows} for name in COUNTS}
            found = differences_of_results(told, histograms, counts)
            different += len(found)
            tell(f"{trial.summary.trial_id}: telemetry and results are {'different' if found else 'equal to the bit'}")
            for line in found:
                tell(f"  {line}")
    except (ResultDirectoryError, OSError, ValueError) as error:
        raise UsageError(f"{directory} cannot be read: {error}") from error
    return different


def control_topic(control: str, topic: str, config: Path | None) -> ControlTopic:
    """The topic of these options. Raises UsageError."""
    return ControlTopic(control, topic, read_command_config(config) if config is not None else {})


def _teller(store: Store, on_trial: Callable[[StoredTrial], object]) -> Callable[[Sequence[Changed]], None]:
    batches = 0

    def on_batch(changed: Sequence[Changed]) -> None:
        nonlocal batches
        batches += 1
        ended = any(one.sums.has_ended for one in changed)
        if not changed or (batches % _TELL_EVERY_BATCHES and not ended):
            return
        names = {one.sums.name for one in changed}
        for trial in store.trials():
            if trial.name in names:
                on_trial(trial)

    return on_batch


def _reason(error: Exception) -> str:
    """The sentence of ours in Spark's text, or its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line.partition("Error: ")[2] for line in lines if line.startswith("highwater.") and "Error: " in line]
    return (ours or lines or ["no reason given"])[0]
