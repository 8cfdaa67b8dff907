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
    """Files of all partitions below `log_directory` that the tool reads, in a stable order."""
    return sorted(path for path in log_directory.rglob("*") if path.suffix in DUMPED_SUFFIXES)


def complaints(log_directory: Path) -> list[str]:
    """Lines of complaint, `file: line`; empty when Kafka finds nothing wrong. Raises ValueError when there is no file."""
    files = dumpable_files(log_directory)
    if not files:
        raise ValueError(f"{log_directory} holds no log segment")
    found: list[str] = []
    for options in ((), ("--deep-iteration",), ("--index-sanity-check",)):
        # Index checks want the sanity flag for .index and .timeindex files only.
        chosen = [f for f in files if not options or options[0] != "--index-sanity-check" or "index" in f.suffix]
        result = kafka_tool("kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, chosen)))
        dumped = "?"
        for line in (result.stdout + result.stderr).splitlines():
            if line.startswith("Dumping "):
                dumped = line.removeprefix("Dumping ")
            elif _COMPLAINT.search(line):
                found.append(f"{dumped}: {line.strip()}")
        if result.returncode:
            found.append(
                f"DumpLogSegments {' '.join(options)} exited with {result.returncode}: {result.stderr.strip()}"
            )
    return found
