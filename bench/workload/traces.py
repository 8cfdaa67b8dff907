"""Traces in a workload file (`load.trace`, `records.trace`): their facts are filled in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, model_validator

from highwater.bench.user_paths import expanded
from highwater.bench.workload.trace_directory import Trace, read_trace
from highwater.bench.workload.values import Count, DurationNs, Part, PercentRatio, SizeBytes
from highwater.common.errors import UsageError
from highwater.common.quantities import format_count, format_duration_ns, format_size
from highwater.common.yaml_nodes import Document

PATH: Final = "path"
_MS: Final = 1_000_000
_PATH_TEXT: Final = "directory of the trace, relative to the workload file"
_FILLED_IN: Final = "filled in from the trace"


def _named(value: object) -> object:
    """Accept `trace: DIR` for `trace: {path: DIR}`."""
    return {PATH: value} if isinstance(value, str) else value


class _TraceLoad(Part):
    """The arrivals of a trace that `highwater capture` made."""

    path: str = Field(min_length=1, description=_PATH_TEXT)
    speed: float = Field(default=1.0, gt=0, le=10_000, description="speed of the replay: 2 halves its duration")
    share: PercentRatio = Field(
        default=1.0, gt=0, le=1000, description="records of the replay, relative to the trace: 10%, 200%"
    )
    sha256: str | None = Field(default=None, description=_FILLED_IN)
    records: Count | None = Field(default=None, description=_FILLED_IN)
    lasts_ns: DurationNs | None = Field(default=None, alias="lasts", description=_FILLED_IN)

    @model_validator(mode="after")
    def _filled_in(self) -> _TraceLoad:
        if self.records is None or self.lasts_ns is None:
            raise ValueError("is filled in from the trace, which the matrix cannot change; use variants")
        return self

    @property
    def rate_per_s(self) -> float:
        """The mean rate of the replay."""
        return (self.records or 0) * self.share / self.lasts_s

    @property
    def lasts_s(self) -> float:
        """The duration of the replay."""
        return (self.lasts_ns or 0) / 1e9 / self.speed


class _TraceRecords(Part):
    """Sizes, keys and headers as a trace has them."""

    path: str = Field(min_length=1, description=_PATH_TEXT)
    sha256: str | None = Field(default=None, description=_FILLED_IN)
    mean_bytes: SizeBytes | None = Field(default=None, alias="mean", description=_FILLED_IN)
    max_bytes: SizeBytes | None = Field(default=None, alias="max", description=_FILLED_IN)


TraceLoad = Annotated[_TraceLoad, BeforeValidator(_named)]
TraceRecords = Annotated[_TraceRecords, BeforeValidator(_named)]


def fill_in(document: Document, workload_file: Path) -> None:
    """Complete each trace that the document names with what its directory says. Raises UsageError."""
    for part, location in _naming_traces(document.data):
        path = part.get(PATH)
        if not isinstance(path, str):
            continue
        where = f"{document.origin(location)}: {'.'.join(map(str, location))}"
        try:
            trace = read_trace(directory_of(path, workload_file))
        except (UsageError, OSError) as error:
            raise UsageError(f"{where}: {error}") from None
        if part.get("sha256") not in (None, trace.digest):
            raise UsageError(f"{where}: {path} is another trace than the one with this sha256; remove sha256 to use it")
        try:
            part.update(_facts(location[-2], trace))
        except UsageError as error:
            raise UsageError(f"{where}: {path} {error}") from None


def directory_of(path: str, workload_file: Path) -> Path:
    """The trace's directory; a relative path starts at the folder of the workload file."""
    return (workload_file.parent / expanded(path)).resolve()


def _naming_traces(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Each part that names a trace, in the form with keys, and its place."""
    documents: list[tuple[tuple[str, ...], Any]] = [((), data)]
    if isinstance(variants := data.get("variants"), dict):
        documents += [(("variants", name), each) for name, each in variants.items()]
    for prefix, document in documents:
        for section in ("load", "records"):
            inner = document.get(section) if isinstance(document, dict) else None
            if isinstance(inner, dict) and "trace" in inner:
                inner["trace"] = _named(inner["trace"])
                if isinstance(inner["trace"], dict):
                    yield inner["trace"], (*prefix, section, "trace")


def _facts(section: str, trace: Trace) -> dict[str, Any]:
    if section == "load":
        lasts = format_duration_ns(trace.manifest.lasts_ms * _MS)
        return {"sha256": trace.digest, "records": format_count(trace.manifest.records), "lasts": lasts}
    records = trace.distributions.records
    if records is None:
        raise UsageError("was captured at level 0, without records; give records.size, or capture at --level 1")
    counts = [(size, count) for size, count in records.value_bytes if count]
    total = sum(count for _, count in counts) + records.null_values
    mean = round(sum(size * count for size, count in counts) / max(1, total))
    largest = max((size for size, _ in counts), default=0)
    return {"sha256": trace.digest, "mean": format_size(mean), "max": format_size(largest)}
