"""fio, the tool of the field for what a disk can do: jobs as values in, its own figures as values out.

A job is one run of fio with `--output-format=json`; all figures are fio's own. fio is a program of the host
(`apt-get install fio`) on the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from highwater.results.storage import FioProbe, ProbeName

# How long fio may take beyond the job's own time: to start, to create a file, to wait for pending operations.
GRACE_S: Final = 60.0
# With direct I/O, buffers in scattered small pages make the kernel split a large operation into several.
_LARGE_PAGES: Final = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
HOW_TO_INSTALL: Final = "fio is not installed; on Debian and Ubuntu: apt-get install -y fio"


class FioError(Exception):
    """fio is missing, or a job failed. The text is one line."""


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement. It ends after `size_bytes` or `runtime_s`, whichever is first.

    repeat: continue over the same bytes until the end of `runtime_s`. sync: fdatasync after each write.
    files: share the bytes; the next operation is on the next file.
    """

    name: ProbeName
    pattern: Literal["read", "write", "randread", "randwrite"]
    block_bytes: int
    size_bytes: int
    runtime_s: float
    direct: bool
    queue_depth: int = 1
    sync: bool = False
    repeat: bool = False
    files: int = 1

    @property
    def writes(self) -> bool:
        return self.pattern in ("write", "randwrite")

    def command(self, file: Path, report: Path) -> list[str]:
        """The command line for this job on `file`, or on files whose names begin with that of `file`."""
        return [
            "fio",
            f"--name={self.name}",
            *self._names(file),
            f"--rw={self.pattern}",
            f"--bs={self.block_bytes}",
            f"--size={self.size_bytes}",
            f"--runtime={round(self.runtime_s * 1000)}ms",
            f"--ioengine={'libaio' if self.queue_depth > 1 else 'psync'}",
            f"--iodepth={self.queue_depth}",
            f"--direct={int(self.direct)}",
            f"--fdatasync={int(self.sync)}",
            # The cost of a sync includes the allocation of blocks; a ceiling is of the device only.
            f"--fallocate={'none' if self.sync else 'native'}",
            *(["--time_based"] if self.repeat else []),
            # Data in the page cache is not on the disk yet.
            *(["--end_fsync=1"] if self.writes and not (self.direct or self.sync) else []),
            "--output-format=json",
            f"--output={report}",
            "--eta=never",
        ]

    def _names(self, file: Path) -> list[str]:
        if self.files == 1:
            return [f"--filename={_escaped(file)}"]
        return [
            f"--directory={_escaped(file.parent)}",
            f"--filename_format={file.name}.$filenum",
            f"--nrfiles={self.files}",
            f"--openfiles={self.files}",
            "--file_service_type=roundrobin:1",
        ]


def _escaped(path: Path) -> str:
    """fio separates names by colons; a backslash escapes a colon."""
    return str(path).replace("\\", "\\\\").replace(":", "\\:")


def version() -> str:
    """The version of the installed fio. Raises FioError."""
    if shutil.which("fio") is None:
        raise FioError(HOW_TO_INSTALL)
    return _run(["fio", "--version"], 10.0).strip().removeprefix("fio-")


def run(job: Job, file: Path) -> FioProbe:
    """Run `job` on `file`, which is created if missing and which the caller removes. Raises FioError."""
    if shutil.which("fio") is None:
        raise FioError(HOW_TO_INSTALL)
    report = file.with_name(file.name + ".json")
    try:
        _run(job.command(file, report), job.runtime_s + GRACE_S)
        return parse_report(job, report.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise FioError(f"fio's report of {job.name} cannot be read: {error.strerror or error}") from None
    finally:
        report.unlink(missing_ok=True)


def parse_report(job: Job, text: str) -> FioProbe:
    """fio's figures of its one job. Raises FioError when the report has none, or reports an error."""
    try:
        # fio may print warnings before the document.
        document: dict[str, Any] = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
        reported = document["jobs"][0]
        if reported["error"]:
            raise FioError(f"fio failed at {job.name} with error {reported['error']}")
        moved = reported["write" if job.writes else "read"]
        latency = reported["sync"]["lat_ns"] if job.sync else moved["clat_ns"]
        percentiles = latency.get("percentile", {})
        probe = FioProbe(
            name=job.name,
            files=job.files,
            block_bytes=job.block_bytes,
            direct=job.direct,
            moved_bytes=moved["io_bytes"],
            runtime_ns=moved["runtime"] * 1_000_000,
            bytes_per_s=moved["bw_bytes"],
            operations_per_s=moved["iops"],
            latency_p50_ns=percentiles.get("50.000000"),
            latency_p99_ns=percentiles.get("99.000000"),
            latency_p999_ns=percentiles.get("99.900000"),
            latency_max_ns=latency.get("max"),
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FioError(f"fio's report of {job.name} is not what this version of us reads: {error!r}") from None
    if not probe.moved_bytes:
        raise FioError(f"fio moved nothing at {job.name} in {job.runtime_s:g} s")
    return probe


def _run(command: list[str], timeout_s: float) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env=os.environ | _LARGE_PAGES,
        )
    except subprocess.TimeoutExpired:
        raise FioError(f"fio was not done after {timeout_s:.0f} s, and was ended") from None
    except OSError as error:
        raise FioError(f"fio cannot be run: {error.strerror or error}") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise FioError(f"fio failed: {said[0] if said else f'exit status {done.returncode}'}")
    return done.stdout
