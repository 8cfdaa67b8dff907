"""Kafka's DumpLogSegments over every file of a log directory: whatever it complains of is a fault of ours."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compat.apache_kafka.tools import kafka_tool

DUMPED_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")

# What DumpLogSegments prints when a file is not as it should be; it exits with 0 all the same.
_COMPLAINT = re.compile(
    r"isvalid: false|mismatch|Mismatches|Non-consecutive|Found .* out of order|out of order|[Ee]xception|"
    r"not valid|corrupt|Corrupt|Could not|bytes of invalid|does not match",
)


def dumpable_files(log_directory: Path) -> list[Path]:
    """Files of all partitions below `log_directory` that the tool reads, in a stable order; not of deleted ones."""
    files = (path for path in log_directory.rglob("*") if path.suffix in DUMPED_SUFFIXES)
    return sorted(path for path in files if not path.parent.name.endswith("-delete"))


def complaints(log_directory: Path) -> list[str]:
    """Lines of complaint, `file: line`; empty when Kafka finds nothing wrong. ValueError when there is no file."""
    files = dumpable_files(log_directory)
    if not files:
        raise ValueError(f"{log_directory} holds no log segment")
    indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
    return [
        *_dump(files),
        *_dump(files, "--deep-iteration"),
        *_dump(indexes, "--index-sanity-check"),
    ]


def assert_no_complaints(log_directory: Path, *, compacted: bool = False) -> None:
    """Of a log that was compacted the gaps in its offsets are no fault."""
    found = [line for line in complaints(log_directory) if not (compacted and "Non-consecutive offsets" in line)]
    assert not found, f"DumpLogSegments has {len(found)} complaints: {'; '.join(found[:5])}"


def _dump(files: list[Path], *options: str) -> list[str]:
    result = kafka_tool("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    found = [f"exit status {result.returncode}: {result.stderr.strip()}"] if result.returncode else []
    dumped = "before the first file"
    for line in (result.stdout + result.stderr).splitlines():
        if line.startswith("Dumping "):
            dumped = line.removeprefix("Dumping ")
        elif _COMPLAINT.search(line):
            found.append(f"{dumped}: {line.strip()}")
    return found
