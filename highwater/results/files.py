"""The files of a result directory: names, errors of damaged files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from hdrh.histogram import HdrHistogram
from pydantic import BaseModel, ValidationError

from highwater.results.histogram import Histogram
from highwater.results.histogram_log import read_histogram, sparse
from highwater.results.models import Latency, Metric, Phase


class ResultDirectoryError(Exception):
    """A result directory cannot be read or written; the text names the file and the remedy."""


class DamagedFileError(ResultDirectoryError):
    """One file of a result directory is damaged."""

    def __init__(self, file: Path, what: str) -> None:
        super().__init__(f"{file}: {what}")
        self.file = file
        self.what = what


M = TypeVar("M", bound=BaseModel)
CLUSTER_HOSTS = "hosts"
"""The folder in a trial's folder with the samples of hosts that carry an external cluster."""
WORKLOAD_FILE = "workload.yaml"
"""The workload of a run that was given its load in one line."""
REPLACED = "replaced"
"""The folder with the folders of trials that were measured again."""
_TRIAL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,+-]*")


def is_result_directory(path: Path) -> bool:
    return (path / "manifest.json").is_file()


def dump(model: BaseModel) -> str:
    return json.dumps(model.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


def is_trial_id(text: str) -> bool:
    """Whether the text can be a trial id, which is also a folder name."""
    return _TRIAL_ID.fullmatch(text) is not None


def histogram_path(trial_directory: Path, metric: Metric) -> Path:
    return trial_directory / "hist" / f"{metric}.hlog"


def measured_histogram(path: Path, phases: Iterable[Phase]) -> HdrHistogram:
    for phase in phases:
        if phase.name == "measure":
            return read_histogram(path, phase.start_s, phase.end_s)
    raise ValueError("the trial's summary names no measured phase")


def measured_latency(trial_directory: Path, metric: Metric, phases: Iterable[Phase]) -> Latency:
    """The latency of the measured phase, computed only from the histogram log on disk.

    Raises OSError or ValueError when the log is missing or damaged.
    """
    path = histogram_path(trial_directory, metric)
    return latency_of(sparse(measured_histogram(path, phases)), str(path.relative_to(trial_directory)))


def latency_of(histogram: Histogram, hist: str) -> Latency:
    """The figures of a histogram: the only place that says which percentiles they are. hist: where the buckets are."""
    return Latency(
        p50=histogram.percentile(50),
        p90=histogram.percentile(90),
        p99=histogram.percentile(99),
        p999=histogram.percentile(99.9),
        p9999=histogram.percentile(99.99),
        max=histogram.max,
        mean=histogram.mean,
        count=histogram.count,
        hist=hist,
    )


def lines(path: Path) -> Iterator[tuple[Path, str]]:
    """(path:number, line) of a file; none when the file is missing. Raises ResultDirectoryError when it is not text."""
    if path.is_file():
        for line in _text(path).splitlines():
            yield path, line


def parse_file(model: type[M], path: Path) -> M:
    """Parse a file as `model`. Raises ResultDirectoryError when it is not text or does not match the model."""
    return parse(model, _text(path), path)


def parse(model: type[M], text: str, path: Path) -> M:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        what = f"{where} is missing" if first["type"] == "missing" else f"{where}: {first['msg']}"
        raise DamagedFileError(path, what) from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(path, f"cannot read it: {getattr(error, 'strerror', None) or error}") from error
