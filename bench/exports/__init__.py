"""Exports results in the formats of other tools: a result directory in, files out.

A file has a suffix and content; `bench export` adds the suffix to the name that the user gave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from highwater.results.reader import RunResult


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """`suffix` distinguishes the files of one export; it goes before the extension of the given name."""

    suffix: str
    content: bytes


Export = Callable[[RunResult], list[ExportedFile]]

_FORMATS: Final = {
    "pyperf": "pyperf's JSON, for `pyperf compare_to`; rates inverted to seconds per record or byte",
    "bmf": "Bencher Metric Format",
    "gab": "github-action-benchmark's customBiggerIsBetter and customSmallerIsBetter, a file each",
    "otava": "the CSV that Apache Otava reads: one row for this run",
    "parquet": "one row per trial, every metric a column (needs the extra `parquet`)",
    "csv": "the same as CSV",
    "omb": "OpenMessaging Benchmark's result JSON, a file per trial",
}


def formats() -> dict[str, str]:
    """Name of each format, and what it is."""
    return dict(_FORMATS)


def exporter(name: str) -> Export:
    """The function for a format of `formats()`."""
    export: Export = import_module(f"highwater.bench.exports.{name}").export
    return export


def text_file(content: str, suffix: str = "") -> ExportedFile:
    return ExportedFile(suffix, content.encode())
