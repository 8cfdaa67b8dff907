"""Reads a result directory back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel

from highwater.results.analysis_file import Analysis, Search
from highwater.results.calibration import CALIBRATION_FILE, Calibration
from highwater.results.files import (
    CLUSTER_HOSTS,
    REPLACED,
    WORKLOAD_FILE,
    DamagedFileError,
    ResultDirectoryError,
    histogram_path,
    lines,
    measured_histogram,
    parse,
    parse_file,
)
from highwater.results.gate import Gate
from highwater.results.histogram_log import percentile_spectrum
from highwater.results.host import HostSample
from highwater.results.interval_arrays import Interval, IntervalArrays, read_interval_arrays
from highwater.results.models import (
    Environment,
    EventLine,
    Manifest,
    Metric,
    PartitionLine,
    Scalar,
    TrialPlan,
    TrialSummary,
    Window,
)
from highwater.results.monitor import MONITOR_FILE, MonitorWindow
from highwater.results.run_lock import is_locked
from highwater.results.salvage import FileFault, Salvage
from highwater.results.storage import StorageProbes

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_RUN_FILES: Final = (
    "manifest.json",
    "env.json",
    "probes.json",
    "analysis.json",
    "search.json",
    "gate.json",
    CALIBRATION_FILE,
    WORKLOAD_FILE,
    MONITOR_FILE,
)


class SpectrumPoint(NamedTuple):
    """`percentile` (0 to 100) of the values are at most `value_ns`; `total_count` of them were counted so far."""

    percentile: float
    value_ns: int
    total_count: int


def _taken(salvage: Salvage | None, read: Callable[[], T], otherwise: T) -> T:
    return read() if salvage is None else salvage.take(read, otherwise)


def _summary_of(planned: TrialPlan, path: Path) -> TrialSummary:
    summary = parse_file(TrialSummary, path)
    if (summary.trial_id, summary.cell, summary.role) != (planned.trial_id, planned.cell, planned.role):
        raise DamagedFileError(
            path,
            f"is of {summary.trial_id} ({summary.cell}, {summary.role}), and the manifest says "
            f"{planned.trial_id} ({planned.cell}, {planned.role})",
        )
    if not any(phase.name == "measure" for phase in summary.phases):
        raise DamagedFileError(path, "names no measured phase")
    return summary


class TrialResult:
    """One finished trial, read back; series are loaded on first use."""

    def __init__(self, directory: Path, summary: TrialSummary, salvage: Salvage | None = None) -> None:
        """salvage: as of `RunResult`; without it, a damaged file raises ResultDirectoryError."""
        self.directory = directory
        self.summary = summary
        self._salvage = salvage

    def windows(self) -> list[Window]:
        return self._lines(Window, self.directory / "windows.jsonl")

    def host_samples(self) -> list[HostSample]:
        return self._lines(HostSample, self.directory / "host.jsonl")

    def cluster_samples(self) -> dict[str, list[HostSample]]:
        """Samples of the hosts of an external cluster, by name; only of hosts that were sampled."""
        folder = self.directory / CLUSTER_HOSTS
        return {path.stem: self._lines(HostSample, path) for path in sorted(folder.glob("*.jsonl"))}

    def partitions(self) -> list[PartitionLine]:
        """Counts by partition; empty for a trial of an older version, which did not write them."""
        return self._lines(PartitionLine, self.directory / "partitions.jsonl")

    def events(self) -> list[EventLine]:
        return self._lines(EventLine, self.directory / "events.jsonl")

    def _lines(self, model: type[M], path: Path) -> list[M]:
        return _taken(self._salvage, lambda: [parse(model, line, where) for where, line in lines(path)], [])

    def histogram_path(self, metric: Metric) -> Path:
        return histogram_path(self.directory, metric)

    def intervals(self, metric: Metric) -> list[Interval]:
        """The seconds of a histogram log, warm-up and drain included; empty for a metric that the trial does not have.

        Raises ResultDirectoryError when the histogram log is damaged.
        """
        arrays = self.interval_arrays(metric)
        return arrays.intervals() if arrays is not None else []

    def interval_arrays(self, metric: Metric) -> IntervalArrays | None:
        """The same as arrays over all seconds; None for a metric that the trial does not have. Errors as above."""
        path = self.histogram_path(metric)
        return _taken(self._salvage, lambda: self._interval_arrays(path), None) if path.is_file() else None

    @staticmethod
    def _interval_arrays(path: Path) -> IntervalArrays:
        try:
            return read_interval_arrays(path)
        except (OSError, ValueError) as error:
            raise DamagedFileError(path, f"cannot read the histogram log: {error}") from error

    def spectrum(self, metric: Metric, ticks_per_half_distance: int = 5) -> list[SpectrumPoint]:
        """The percentile spectrum of the measured phase, as HdrHistogram prints it; empty when nothing was recorded.

        Raises ResultDirectoryError when the histogram log is missing or damaged.
        """
        return _taken(self._salvage, lambda: self._spectrum(metric, ticks_per_half_distance), [])

    def _spectrum(self, metric: Metric, ticks_per_half_distance: int) -> list[SpectrumPoint]:
        path = self.histogram_path(metric)
        try:
            histogram = measured_histogram(path, self.summary.phases)
        except (OSError, ValueError, TypeError) as error:
            raise DamagedFileError(path, f"cannot read the histogram log: {error}") from error
        return [SpectrumPoint(*point) for point in percentile_spectrum(histogram, ticks_per_half_distance)]


class RunResult:
    """A result directory, read back. Raises ResultDirectoryError when it is not one, or is damaged.

    salvage: read what is there; only a damaged manifest is then an error, and `faults` has all others.
    """

    def __init__(self, directory: Path, *, salvage: bool = False) -> None:
        self.directory = directory
        self._salvage = Salvage(directory) if salvage else None
        manifest_path = directory / "manifest.json"
        if not manifest_path.is_file():
            raise ResultDirectoryError(
                f"{directory} is not a result directory: it has no manifest.json "
                "(make one with: highwater bench run FILE --out DIR)"
            )
        self.manifest = parse_file(Manifest, manifest_path)
        environment_path = directory / "env.json"
        unknown = Environment(facts={}, tuning=[])
        self.environment = (
            _taken(self._salvage, lambda: parse_file(Environment, environment_path), unknown)
            if environment_path.is_file()
            else unknown
        )
        self._given: Mapping[str, BaseModel | None] | None = None
        self.trials = list(self._load_trials())

    @classmethod
    def of_models(
        cls,
        directory: Path,
        manifest: Manifest,
        environment: Environment,
        summaries: Iterable[TrialSummary],
        analysis: Analysis | None,
    ) -> RunResult:
        """A result whose models are kept elsewhere: it has no other files, and `directory` is a name."""
        made = cls.__new__(cls)
        made.directory, made.manifest, made.environment = directory, manifest, environment
        made._salvage, made._given = None, {"analysis.json": analysis}
        made.trials = [TrialResult(directory / "trials" / summary.trial_id, summary) for summary in summaries]
        return made

    @property
    def has_files(self) -> bool:
        """Whether it was read from a directory."""
        return self._given is None

    @property
    def was_killed(self) -> bool:
        """Whether nobody works in the directory, though the manifest says that the run goes on."""
        return self.manifest.status == "running" and self.has_files and not is_locked(self.directory)

    def strict(self) -> RunResult:
        """The same trials, whose further files raise ResultDirectoryError when they are damaged."""
        made = copy(self)
        made._salvage = None
        made.trials = [TrialResult(trial.directory, trial.summary) for trial in self.trials]
        return made

    def faults(self) -> list[FileFault]:
        """Files of a salvaged directory that are damaged as far as they were read, missing, or changed."""
        return self._salvage.faults() if self._salvage is not None else []

    def _load_trials(self) -> Iterator[TrialResult]:
        for planned in self.manifest.trials:
            path = self.directory / "trials" / planned.trial_id / "summary.json"
            if path.is_file():
                summary = _taken(self._salvage, partial(_summary_of, planned, path), None)
                if summary is not None:
                    yield TrialResult(path.parent, summary, self._salvage)
            elif planned.status == "done" and self._salvage is not None:
                self._salvage.note(path, "is missing")

    def probes(self) -> StorageProbes | None:
        """fio's probes of the storage targets; None when the run made none."""
        return self._optional(StorageProbes, "probes.json")

    def calibration(self) -> Calibration | None:
        """The calibration that the run was given; None without one."""
        return self._optional(Calibration, CALIBRATION_FILE)

    def gate(self) -> Gate | None:
        """The outcome of `bench gate`; None when the run was not a gate."""
        return self._optional(Gate, "gate.json")

    def files(self) -> list[Path]:
        """All files of the results in a fixed order; the checksums cover these."""
        top = [path for name in _RUN_FILES if (path := self.directory / name).is_file()]
        folders = [self.directory / "trials", self.directory / REPLACED]
        return top + sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())

    def cells(self) -> dict[str, list[TrialResult]]:
        """Finished trials by cell, cells in axis order.

        Trials with another purpose than to measure their cell (A/A, canary) are not included.
        """
        order: dict[str, list[TrialResult]] = {cell: [] for cell in self._cells_in_axis_order()}
        for trial in self.trials:
            if trial.summary.role == "measure":
                order[trial.summary.cell].append(trial)
        return order

    def durability_notes(self) -> list[str]:
        """A line for every setting in force that trades crash safety for speed, with its cells."""
        return self._notes("durability traded away", lambda summary: summary.durability_trades)

    def emulation_notes(self) -> list[str]:
        """A line for every emulated disk, with its limits and the cells that were measured on it."""
        return self._notes(
            "emulated disk",
            lambda summary: (
                [f"{summary.storage.name}: {summary.storage.emulation}"] if summary.storage.emulated else []
            ),
        )

    def sharing_notes(self) -> list[str]:
        """A line when trials ran at once on one processor."""
        return self._notes(
            "trials ran at once on one processor",
            lambda summary: (
                ["compare their CPU time with one another; rates and latencies are those of a busy processor's share"]
                if summary.at_once
                else []
            ),
        )

    def retry_notes(self) -> list[str]:
        """A line for each trial that was measured again, with what it was before."""
        return [
            f"{trial.trial_id} was measured again: before, it was {before.state} ({'; '.join(before.reasons)}); "
            f"what it wrote is in {before.kept_in}"
            for trial in self.manifest.trials
            for before in trial.replaced
        ]

    def _notes(self, about: str, texts_of: Callable[[TrialSummary], Iterable[str]]) -> list[str]:
        found: dict[str, list[str]] = {}
        measured = {cell: trials for cell, trials in self.cells().items() if trials}
        for cell, trials in measured.items():
            for text in dict.fromkeys(text for trial in trials for text in texts_of(trial.summary)):
                found.setdefault(text, []).append(cell)
        everywhere = list(measured)
        return [
            f"{about}{'' if cells == everywhere else ' in ' + ', '.join(cells)}: {text}"
            for text, cells in found.items()
        ]

    def a_a_pairs(self) -> list[tuple[TrialResult, TrialResult]]:
        """Finished A/A pairs: a measured trial, and its twin of the same cell in the same block."""
        measured = {(t.summary.cell, t.summary.block): t for t in self.trials if t.summary.role == "measure"}
        twins = [(t, (t.summary.cell, t.summary.block)) for t in self.trials if t.summary.role == "a_a"]
        return [(measured[place], twin) for twin, place in twins if place in measured]

    def analysis(self) -> Analysis | None:
        """The analysis; None for a run of an older version, or one that ended before its first block did."""
        return self._optional(Analysis, "analysis.json")

    def monitor(self) -> MonitorWindow | None:
        """What a monitor saw meanwhile; None if nobody has attached it."""
        return self._optional(MonitorWindow, MONITOR_FILE)

    def search(self) -> Search | None:
        """The search; None when the run was not a search. Verdicts that an older file lacks are those of the trials."""
        found = self._optional(Search, "search.json")
        if found is None:
            return None
        verdicts = {trial.summary.trial_id: trial.summary.verdict for trial in self.trials}
        probes = [
            probe if probe.verdict else probe.model_copy(update={"verdict": verdicts.get(probe.trial_id)})
            for probe in found.probes
        ]
        return found.model_copy(update={"probes": probes})

    def _optional(self, model: type[M], name: str) -> M | None:
        if self._given is not None:
            given = self._given.get(name)
            return given if isinstance(given, model) else None
        path = self.directory / name
        return _taken(self._salvage, lambda: parse_file(model, path), None) if path.is_file() else None

    def _cells_in_axis_order(self) -> list[str]:
        factors: Mapping[str, dict[str, Scalar]] = {t.cell: t.factors for t in self.manifest.trials}

        def position(cell: str) -> tuple[int, ...]:
            return tuple(
                values.index(factors[cell][axis]) if factors[cell].get(axis) in values else len(values)
                for axis, values in self.manifest.axes.items()
            )

        return sorted(factors, key=position)
