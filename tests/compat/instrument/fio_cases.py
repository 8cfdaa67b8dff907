"""fio's report to a person beside what bench/storage/fio.py takes from its JSON: the same run, printed both ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from highwater.bench.storage.fio import Job, parse_report
from tests.compat.instrument.case import case, printed_by, temporary_directory

JOBS: Final = (
    Job("sequential_append", "write", 1 << 20, 32 << 20, 0.5, direct=False),
    Job("fsync", "write", 4096, 1 << 20, 0.5, direct=False, sync=True),
    Job("sequential_read", "read", 1 << 20, 32 << 20, 0.5, direct=False),
    Job("random_read", "randread", 4096, 32 << 20, 0.5, direct=False, repeat=True),
)
_UNITS: Final = {"": 1, "k": 1e3, "M": 1e6, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NS: Final = {"nsec": 1, "usec": 1_000, "msec": 1_000_000}
_RATE: Final = re.compile(
    r"IOPS=(?P<iops>[\d.]+)(?P<thousands>[kM]?), BW=(?P<rate>[\d.]+)(?P<rate_unit>\w+)/s .*"
    r"\((?P<moved>[\d.]+)(?P<moved_unit>\w+)/(?P<ms>\d+)msec\)"
)
_PERCENTILES: Final = re.compile(r"(?P<kind>clat|sync) percentiles \((?P<unit>\w+)\):\n(?P<rows>(?:\s+\|.*\n)+)")
_ROW: Final = re.compile(r"(?P<percent>[\d.]+)th=\[\s*(?P<value>\d+)\]")


@case
def fio_says_the_same_to_a_person() -> None:
    """Rate, operations, bytes, time and percentiles, as closely as the printed digits go."""
    directory = temporary_directory()
    for job in JOBS:
        report = directory / "report"
        command = [word.replace("=json", "=json,normal") for word in job.command(directory / "file", report)]
        printed_by(*command)
        judge(job, report)


def judge(job: Job, report: Path) -> None:
    text = report.read_text("utf-8")
    ours = parse_report(job, text)
    rate = _RATE.search(text)
    assert rate is not None, text
    close(job, "IOPS", ours.operations_per_s, rate["iops"], _UNITS[rate["thousands"]])
    close(job, "BW", ours.bytes_per_s, rate["rate"], _UNITS[rate["rate_unit"]])
    close(job, "bytes", ours.moved_bytes, rate["moved"], _UNITS[rate["moved_unit"]])
    assert ours.runtime_ns == int(rate["ms"]) * 1_000_000, (job.name, ours.runtime_ns, rate["ms"])
    (block,) = [found for found in _PERCENTILES.finditer(text) if (found["kind"] == "sync") == job.sync]
    printed = {row["percent"]: row["value"] for row in _ROW.finditer(block["rows"])}
    for percent, value in (
        ("50.00", ours.latency_p50_ns),
        ("99.00", ours.latency_p99_ns),
        ("99.90", ours.latency_p999_ns),
    ):
        assert value is not None, (job.name, percent)
        close(job, f"{percent}th", value, printed[percent], _NS[block["unit"]])


def close(job: Job, what: str, ours: float, printed: str, unit: float) -> None:
    """Within one of the last printed digit, as fio cuts some figures off and rounds others."""
    step = 10.0 ** -len(printed.partition(".")[2]) * unit
    theirs = float(printed) * unit
    assert abs(ours - theirs) <= step, f"{job.name}: {what}: {ours:g} by us, {theirs:g} ± {step:g} by fio"
