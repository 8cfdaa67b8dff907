"""A run from its file to its exit code: trial broker, session, flows, signals, the last line."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from highwater.common.nearest import did_you_mean
from highwater.common.spark_session import check_start
from highwater.common.spark_session import spark_session as common_session
from highwater.common.units import count_text, plural, wait_text
from highwater.common.yaml_nodes import read
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.run.display import Display
from highwater.pipeline.run.failures import exit_code_of, reason_of
from highwater.pipeline.run.frames import Frames
from highwater.pipeline.run.live_figures import PipelineFigures, live_figures
from highwater.pipeline.run.model import AVAILABLE_NOW, TOPIC_FORMAT, Flow, Pipeline, Source
from highwater.pipeline.run.order import stages
from highwater.pipeline.run.parse import EXAMPLE, parse_pipeline
from highwater.pipeline.run.plan import check_a_stream, check_topics, lines_of_flow
from highwater.pipeline.run.queries import FlowRun, watch
from highwater.pipeline.run.sink_formats import FORMATS, Opened, target_of
from highwater.pipeline.run.storage import Storage
from highwater.pipeline.run.trial import trial_broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.common.page_process import PageProcess

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Request:
    """The call. flows: names; empty for all. settings: of Spark. page: of --watch."""

    file: Path
    is_dry: bool
    flows: tuple[str, ...]
    available_now: bool
    master: str
    settings: Mapping[str, str]
    page: PageProcess | None = None

    @property
    def command(self) -> str:
        """What runs the same flows again. Without settings of Spark, as these can be secret."""
        chosen = [word for name in self.flows for word in ("--flow", name)]
        options = [*chosen, *(["--available-now"] if self.available_now else []), "--master", self.master]
        return shlex.join(["highwater", "pipeline", "run", str(self.file), *options])


def run_pipeline(request: Request) -> int:
    """Run it, print what happens, and return the exit code. An error is one line on standard error."""
    display = Display()
    stop = Stop()
    with contextlib.ExitStack() as cleanup:
        try:
            cleanup.enter_context(stop.on_signals())
            return _run(request, display, stop, cleanup)
        except (PipelineError, UsageError) as error:
            display.error(str(error))
            return exit_code_of(error)
        except KeyboardInterrupt:
            display.error("interrupted before the first batch")
            return EXIT_INTERRUPTED


def _run(request: Request, display: Display, stop: Stop, cleanup: contextlib.ExitStack) -> int:
    document = read(yaml, request.file, EXAMPLE)
    folder = request.file.resolve().parent
    pipeline = parse_pipeline(document, os.environ, folder, None)
    flows = _chosen(pipeline, request)
    check_start(request.master)
    if pipeline.trial:
        display.step(f"starting a broker for this trial with {', '.join(topic.name for topic in pipeline.trial)}")
        address = cleanup.enter_context(trial_broker(pipeline.trial))
        pipeline = parse_pipeline(document, os.environ, folder, address)
        flows = _chosen(pipeline, request)
    temporary = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="highwater-run-")))
    kept = None if pipeline.storage is None else Storage(pipeline.storage / pipeline.name)
    storage = kept or Storage(temporary)
    if not request.is_dry:
        cleanup.enter_context(storage.claimed([flow.name for flow in flows]))
    log = temporary / "dry.log" if request.is_dry else storage.log
    display.step(f"starting Spark {request.master}")
    spark = cleanup.enter_context(
        spark_session(pipeline.name, request.master, {**pipeline.configuration, **request.settings}, log)
    )
    planned = [plan_flow(spark, pipeline, flow, storage) for flow in flows]
    for each in planned:
        check_topics(pipeline, each.flow, each.used)
    if request.is_dry:
        display.say(f"pipeline {pipeline.name} ({request.file}): nothing was written")
        for each in planned:
            for line in lines_of_flow(pipeline, each.flow, each.frame, each.used, kept):
                display.say(line)
        return EXIT_OK
    return run_flows(pipeline, planned, storage, display, stop, again=request.command, page=request.page)


@dataclass(frozen=True, slots=True)
class Planned:
    """A flow, its frame, and the sources and views that it uses."""

    flow: Flow
    frame: DataFrame
    used: tuple[str, ...]


def _chosen(pipeline: Pipeline, request: Request) -> list[Flow]:
    for name in request.flows:
        if name not in pipeline.flows:
            raise SettingsError(f"--flow {name}: {request.file} has no such flow{did_you_mean(name, pipeline.flows)}")
    flows = [flow for name, flow in pipeline.flows.items() if not request.flows or name in request.flows]
    if request.available_now:
        return [dataclasses.replace(flow, trigger=AVAILABLE_NOW) for flow in flows]
    return flows


def plan_flow(spark: SparkSession, pipeline: Pipeline, flow: Flow, storage: Storage) -> Planned:
    """Read the sources of a flow and apply its steps. Raises SettingsError that begins with file and line."""

    def options(source: Source) -> Mapping[str, str]:
        if source.format == TOPIC_FORMAT and source.is_stream:
            return storage.with_first_offsets(flow.name, source.name, source.options)
        return source.options

    frames = Frames(spark, pipeline, options)
    frame = frames.of(flow)
    check_a_stream(flow, frame)
    return Planned(flow, frame, frames.used)


def run_flows(
    pipeline: Pipeline,
    planned: Sequence[Planned],
    storage: Storage,
    display: Display,
    stop: Stop,
    *,
    again: str = "",
    page: PageProcess | None = None,
) -> int:
    """Run flows until all have ended, say what each did, and return the exit code.

    again: the command that continues the run if it dies. page: of --watch.
    """
    started_s = time.monotonic()
    stop.has_begun = True
    by_name = {each.flow.name: each for each in planned}
    runs: list[FlowRun] = []
    failures: dict[str, BaseException] = {}
    used = {name: each.used for name, each in by_name.items()}
    with live_figures(storage.folder, pipeline.name, list(by_name), again, page) as live:
        with display.live():
            for stage in stages(pipeline, [each.flow for each in planned], used):
                if failures or stop.stopping.is_set():
                    break
                begun = _begin(pipeline, [by_name[name] for name in stage], storage, display, stop)
                runs += begun
                failures |= watch(begun, stop.stopping, stop.at_once, lambda run: _show(run, display, live))
        display.last_progress()
        answers = [_answer(run, time.monotonic() - started_s) for run in runs]
        for answer in answers:
            display.say(answer)
        live.answer = "; ".join(answers)
    log = _kept_log(pipeline, storage) if failures else storage.log
    for name, failure in failures.items():
        display.error(f"flow {name}: {reason_of(failure)} (Spark's log: {log})")
    if failures:
        return min(map(exit_code_of, failures.values()))
    return EXIT_INTERRUPTED if stop.at_once.is_set() else EXIT_OK


def _show(run: FlowRun, display: Display, live: PipelineFigures) -> None:
    live.progress(run)
    display.progress(run.flow.name, run.progress.line())
    if run.progress.late and not run.has_warned:
        run.has_warned = True
        display.warn(
            f"flow {run.flow.name} drops rows that come after the watermark has passed their time; "
            "a longer delay of its watermark keeps them"
        )


def _begin(
    pipeline: Pipeline, planned: Sequence[Planned], storage: Storage, display: Display, stop: Stop
) -> list[FlowRun]:
    runs: list[FlowRun] = []
    for each in planned:
        flow = each.flow
        try:
            sink = FORMATS[flow.sink.format].open(Opened(pipeline.name, flow.name, flow.sink.options, display.table))
            runs.append(FlowRun(flow, each.frame, sink, str(storage.checkpoint(flow.name)), stop.stopping))
        except Exception as error:
            stop.stopping.set()
            watch(runs, stop.stopping, stop.at_once, lambda _: None)
            raise SettingsError(f"{flow.origin}: flows.{flow.name}: {reason_of(error)}") from error
        display.progress(flow.name, runs[-1].progress.line())
    return runs


def _kept_log(pipeline: Pipeline, storage: Storage) -> Path:
    """Where Spark's log is after the run: that of a trial is copied out of what is deleted."""
    if pipeline.storage is not None or not storage.log.exists():
        return storage.log
    descriptor, path = tempfile.mkstemp(prefix=f"highwater-{pipeline.name}-", suffix=".log")
    with os.fdopen(descriptor, "wb") as copy:
        copy.write(storage.log.read_bytes())
    return Path(path)


def _answer(run: FlowRun, seconds: float) -> str:
    """`done: per_minute: 6,000 rows in, 12 rows out to the console, 2 batches in 9 s`."""
    word = "failed" if run.failure is not None else "stopped" if run.was_stopped else "done"
    late = f", dropped as late: {run.progress.late}" if run.progress.late else ""
    out = "" if run.rows_out is None else f"{count_text(run.rows_out)} rows out "
    target = target_of(run.flow.sink.format, run.flow.sink.options)
    return (
        f"{word}: {run.flow.name}: {count_text(run.progress.rows_in)} rows in, {out}to {target}, "
        f"{plural(run.progress.batches, 'batch').replace('batchs', 'batches')} in {wait_text(seconds)}{late}"
    )


class Stop:
    """The first signal asks for a stop between two batches, the second one for a stop at once."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.at_once = threading.Event()
        self.has_begun = False
        """Whether flows run; before that a signal ends the run where it is."""

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if not self.has_begun:
            raise KeyboardInterrupt
        (self.at_once if self.stopping.is_set() else self.stopping).set()


_SETTINGS: Final = {"spark.sql.streaming.stopTimeout": "60s"}


@contextmanager
def spark_session(name: str, master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """A session with `format("highwater")`. log: a file for Java's output. Raises UsageError."""
    # Spark's 200 small tasks for each shuffle would be slower than the work itself.
    local = {"spark.sql.shuffle.partitions": str(len(os.sched_getaffinity(0)))} if master.startswith("local") else {}
    with common_session(name, master, {**_SETTINGS, **local, **settings}, log) as session:
        from highwater.pipeline.source import register

        register(session)
        yield session
