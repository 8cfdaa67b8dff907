"""The result directory: its models, its writer and its reader, and nothing else knows its file names.

Layout and field names follow docs/architecture.md ("The result directory"). Field names end in their unit; MiB and ms
appear only where a person reads. Everything a report shows can be made again from these files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from hdrh.histogram import HdrHistogram
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.histogram_log import mean_of, read_histogram

MANIFEST_SCHEMA: Final = "bench.manifest/1"
ENVIRONMENT_SCHEMA: Final = "bench.environment/1"
SUMMARY_SCHEMA: Final = "bench.summary/1"

Metric = Literal["produce_response", "produce_service", "send_delay", "e2e_response"]
METRICS: Final[tuple[Metric, ...]] = ("produce_response", "produce_service", "send_delay", "e2e_response")

Scalar = str | int | float | bool
TrialStatus = Literal["planned", "running", "done", "failed", "interrupted"]
RunStatus = Literal["running", "done", "failed", "interrupted"]
VerdictState = Literal["valid", "invalid", "inconclusive"]


class ResultDirectoryError(Exception):
    """A result directory that cannot be read or written; the text names the file and the way out."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Latency(_Model):
    """Percentiles of one metric over the measured phase, in ns, recomputable from the named histogram log."""

    p50: int
    p90: int
    p99: int
    p999: int
    p9999: int
    max: int
    mean: float
    count: int
    hist: str = Field(description="path of the .hlog, relative to the trial's folder")


class Delivery(_Model):
    """Fate of every record of the trial, warm-up included.

    `lost` = acknowledged, not received; `unread` = still lay before the consumers when their time was up (and count as
    lost too); `failed` = the client reported an error; `in_log` = sum over partitions of log end offset − log start
    offset, asked from the broker by a client that took no part in the load.
    """

    sent: int
    acked: int
    failed: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupt: int
    in_log: int
    unread: int = 0


class Generator(_Model):
    """Evidence that the load generator was healthy."""

    launcher: str
    producers: int
    consumers: int
    slots: int
    oversubscribed: bool
    cpu_ratio_max: float = Field(description="busiest worker process: CPU seconds per second, measured phase")
    producer_cpu_ns_per_record: float
    consumer_cpu_ns_per_record: float
    start_skew_ns: int = Field(description="latest minus earliest first send, relative to the agreed T0")
    clock_spread_ns: int = Field(description="largest difference between the tasks' clocks when T0 was agreed")


class HostUse(_Model):
    """Means over the measured phase; None where the host does not tell."""

    cpu_ratio: float
    system_cpu_ratio: float | None = Field(description="the system under test, in CPU seconds per second")
    system_rss_bytes: int | None
    disk_write_bytes_per_s: float | None
    disk_read_bytes_per_s: float | None
    dirty_bytes_max: int | None


class Reason(_Model):
    """One check of validity that did not hold."""

    check: str
    value: float | str
    limit: float | str
    text: str


class Verdict(_Model):
    """Whether the figures may be believed. `notes` say what to know about them; they change nothing of the state."""

    state: VerdictState
    reasons: list[Reason]
    notes: list[str] = Field(default=[])


class Phase(_Model):
    name: Literal["warmup", "measure", "drain"]
    start_s: float = Field(description="seconds since T0")
    end_s: float


class Produce(_Model):
    response_ns: Latency
    service_ns: Latency
    send_delay_ns: Latency


class EndToEnd(_Model):
    response_ns: Latency
    clock: Literal["same_host_monotonic", "wall_clock"]
    negative_samples: int


class TrialSummary(_Model):
    schema_: Literal["bench.summary/1"] = Field(default=SUMMARY_SCHEMA, alias="schema")
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    started_utc: str
    phases: list[Phase]
    offered_per_s: float
    achieved_per_s: float = Field(description="records acknowledged per second of the measured phase, by ack time")
    achieved_bytes_per_s: float = Field(description="value bytes of those records")
    consumed_per_s: float
    consumed_bytes_per_s: float
    produce: Produce
    e2e: EndToEnd | None = Field(description="None when the workload has no consumers")
    delivery: Delivery
    generator: Generator
    host: HostUse
    storage: StorageTarget
    system: SystemFacts
    verdict: Verdict


class StorageTarget(_Model):
    """Where the system under test kept its log."""

    name: str
    path: str
    device: str | None
    medium: Literal["ssd", "hdd", "nvme", "memory", "unknown"]
    emulated: bool
    model: str | None
    scheduler: str | None
    filesystem: str | None
    mount_options: list[str]


class SystemFacts(_Model):
    """The system under test as it really ran."""

    kind: str
    version: str
    command: list[str]
    effective_config: dict[str, str]


class TrialPlan(_Model):
    trial_id: str
    cell: str
    factors: dict[str, Scalar]
    trial: int
    block: int
    order_in_block: int
    status: TrialStatus
    error: str | None = None


class GitState(_Model):
    commit: str
    dirty: bool


class Manifest(_Model):
    schema_: Literal["bench.manifest/1"] = Field(default=MANIFEST_SCHEMA, alias="schema")
    name: str
    purpose: str
    for_measurement: bool = Field(description="False for smoke profiles: their figures are not to be quoted")
    created_utc: str
    finished_utc: str | None
    status: RunStatus
    exit_code: int | None
    workload: dict[str, Any]
    workload_sha256: str
    workload_file: str
    argv: list[str]
    cwd: str
    git: GitState | None
    seed: int
    axes: dict[str, list[Scalar]] = Field(description="the matrix: factor name to its values, in file order")
    trials: list[TrialPlan]
    versions: dict[str, str]


class Environment(_Model):
    """One open tree: what can be known differs by host, so readers must expect any key to be missing."""

    schema_: Literal["bench.environment/1"] = Field(default=ENVIRONMENT_SCHEMA, alias="schema")
    facts: dict[str, Any]
    tuning: list[dict[str, Any]]


class Window(_Model):
    """One second since T0. Latencies are of the records intended in this second; counts by when they happened."""

    second: int
    phase: Literal["warmup", "measure", "drain"]
    offered: int
    sent: int
    acked: int
    acked_bytes: int
    failed: int
    received: int
    received_bytes: int
    produce_p50_ns: int | None
    produce_p99_ns: int | None
    produce_max_ns: int | None
    e2e_p50_ns: int | None
    e2e_p99_ns: int | None
    e2e_max_ns: int | None
    generator_cpu_ratio_max: float | None


class HostSample(_Model):
    second: int
    cpu_ratio: float
    system_cpu_ratio: float | None
    system_rss_bytes: int | None
    disk_write_bytes: int | None
    disk_read_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None


TrialSummary.model_rebuild()

M = TypeVar("M", bound=BaseModel)
_TRIAL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,+-]*")


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _dump(model: BaseModel) -> str:
    return json.dumps(model.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


class ResultWriter:
    """Writes one result directory. Single files appear whole or not at all, so an interrupted run stays readable."""

    def __init__(self, directory: Path) -> None:
        """Create `directory`. Raises ResultDirectoryError when it exists and is not empty, or cannot be made."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            occupied = any(directory.iterdir())
        except OSError as error:
            raise ResultDirectoryError(
                f"cannot make the result directory {directory}: {error.strerror or error}"
            ) from error
        if occupied:
            raise ResultDirectoryError(f"{directory} is not empty; name a new directory with --out")

    def discard(self) -> None:
        """Take back all that was written: the run came to nothing, and its directory shall be free for the next try."""
        shutil.rmtree(self.directory / "trials", ignore_errors=True)
        for name in ("manifest.json", "env.json"):
            (self.directory / name).unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        """Leave nothing behind of a run that could not start."""
        if not any(self.directory.iterdir()):
            self.directory.rmdir()

    def write_manifest(self, manifest: Manifest) -> None:
        _write_atomically(self.directory / "manifest.json", _dump(manifest))

    def write_environment(self, environment: Environment) -> None:
        _write_atomically(self.directory / "env.json", _dump(environment))

    def trial_directory(self, trial_id: str) -> Path:
        """The folder of one trial, made on first use (with its `hist/`)."""
        if not _TRIAL_ID.fullmatch(trial_id):
            raise ValueError(f"trial id {trial_id!r} does not suit a folder name")
        path = self.directory / "trials" / trial_id
        (path / "hist").mkdir(parents=True, exist_ok=True)
        return path

    def write_series(self, trial_id: str, windows: Iterable[Window], host_samples: Iterable[HostSample]) -> None:
        """Write what happened second by second; an interrupted trial has this and no summary."""
        path = self.trial_directory(trial_id)
        _write_atomically(path / "windows.jsonl", "".join(w.model_dump_json() + "\n" for w in windows))
        _write_atomically(path / "host.jsonl", "".join(s.model_dump_json() + "\n" for s in host_samples))

    def write_trial(self, summary: TrialSummary, windows: Iterable[Window], host_samples: Iterable[HostSample]) -> None:
        """Write one finished trial; summary.json comes last, so that its presence means the trial is whole."""
        self.write_series(summary.trial_id, windows, host_samples)
        _write_atomically(self.trial_directory(summary.trial_id) / "summary.json", _dump(summary))


def histogram_path(trial_directory: Path, metric: Metric) -> Path:
    return trial_directory / "hist" / f"{metric}.hlog"


def _measured_histogram(path: Path, phases: Iterable[Phase]) -> HdrHistogram:
    for phase in phases:
        if phase.name == "measure":
            return read_histogram(path, phase.start_s, phase.end_s)
    raise ValueError("the trial's summary names no measured phase")


def measured_latency(trial_directory: Path, metric: Metric, phases: Iterable[Phase]) -> Latency:
    """The latency of the measured phase, computed from the histogram log on disk and from nothing else.

    Raises OSError or ValueError when the log is missing or damaged.
    """
    path = histogram_path(trial_directory, metric)
    histogram = _measured_histogram(path, phases)
    at = histogram.get_percentile_to_value_dict([50, 90, 99, 99.9, 99.99]) if histogram.get_total_count() else {}
    return Latency(
        p50=at.get(50, 0),
        p90=at.get(90, 0),
        p99=at.get(99, 0),
        p999=at.get(99.9, 0),
        p9999=at.get(99.99, 0),
        max=histogram.get_max_value(),
        mean=mean_of(histogram),
        count=histogram.get_total_count(),
        hist=str(path.relative_to(trial_directory)),
    )


class SpectrumPoint(NamedTuple):
    """`percentile` (0 to 100) of the values are at most `value_ns`; `total_count` of them were counted so far."""

    percentile: float
    value_ns: int
    total_count: int


class TrialResult:
    """One finished trial as read back; series are loaded when asked for."""

    def __init__(self, directory: Path, summary: TrialSummary) -> None:
        self.directory = directory
        self.summary = summary

    def windows(self) -> list[Window]:
        return [_parse(Window, line, path) for path, line in _lines(self.directory / "windows.jsonl")]

    def host_samples(self) -> list[HostSample]:
        return [_parse(HostSample, line, path) for path, line in _lines(self.directory / "host.jsonl")]

    def histogram_path(self, metric: Metric) -> Path:
        return histogram_path(self.directory, metric)

    def spectrum(self, metric: Metric, ticks_per_half_distance: int = 5) -> list[SpectrumPoint]:
        """The percentile spectrum of the measured phase, as HdrHistogram prints it; empty when nothing was recorded.

        Raises ResultDirectoryError when the histogram log is missing or damaged.
        """
        path = self.histogram_path(metric)
        try:
            histogram = _measured_histogram(path, self.summary.phases)
        except (OSError, ValueError, TypeError) as error:
            raise ResultDirectoryError(f"{path}: cannot read the histogram log: {error}") from error
        if not histogram.get_total_count():
            return []
        return [
            SpectrumPoint(item.percentile_level_iterated_to, item.value_iterated_to, item.total_count_to_this_value)
            for item in histogram.get_percentile_iterator(ticks_per_half_distance)
        ]


class RunResult:
    """A result directory as read back. Raises ResultDirectoryError when it is none, or is damaged."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        manifest_path = directory / "manifest.json"
        if not manifest_path.is_file():
            raise ResultDirectoryError(
                f"{directory} is not a result directory: it has no manifest.json "
                "(make one with: highwater bench run FILE --out DIR)"
            )
        self.manifest = _parse(Manifest, manifest_path.read_text("utf-8"), manifest_path)
        environment_path = directory / "env.json"
        self.environment = (
            _parse(Environment, environment_path.read_text("utf-8"), environment_path)
            if environment_path.is_file()
            else Environment(facts={}, tuning=[])
        )
        self.trials = list(self._load_trials())

    def _load_trials(self) -> Iterator[TrialResult]:
        for planned in self.manifest.trials:
            path = self.directory / "trials" / planned.trial_id / "summary.json"
            if path.is_file():
                yield TrialResult(path.parent, _parse(TrialSummary, path.read_text("utf-8"), path))

    def files(self) -> list[Path]:
        """Every file that the results stand on, in a fixed order: what a checksum of the run covers."""
        top = [path for name in ("manifest.json", "env.json") if (path := self.directory / name).is_file()]
        return top + sorted(path for path in (self.directory / "trials").rglob("*") if path.is_file())

    def cells(self) -> dict[str, list[TrialResult]]:
        """Finished trials by cell, cells in the order of the plan's first mention sorted by axis order."""
        order: dict[str, list[TrialResult]] = {cell: [] for cell in self._cells_in_axis_order()}
        for trial in self.trials:
            order[trial.summary.cell].append(trial)
        return order

    def _cells_in_axis_order(self) -> list[str]:
        factors: Mapping[str, dict[str, Scalar]] = {t.cell: t.factors for t in self.manifest.trials}

        def position(cell: str) -> tuple[int, ...]:
            return tuple(
                values.index(factors[cell][axis]) if factors[cell].get(axis) in values else len(values)
                for axis, values in self.manifest.axes.items()
            )

        return sorted(factors, key=position)


def _lines(path: Path) -> Iterator[tuple[Path, str]]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield path, line


def _parse(model: type[M], text: str, path: Path) -> M:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ResultDirectoryError(f"{path}: {where}: {first['msg']}") from error
