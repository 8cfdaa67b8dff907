"""Writes a workload file and measures it with `bench run`, for a plan that needs a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
import yaml

from highwater.common.atomic_files import write_atomically
from highwater.common.child_process import HIGHWATER
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK
from highwater.results.reader import RunResult


def bench_run(
    workload: Mapping[str, Any], directory: Path, name: str, storage: Sequence[str], *, what: str
) -> RunResult:
    """The result `directory`/`name` of the workload `directory`/`name`.yaml. Raises UsageError, in terms of `what`."""
    file, result = directory / f"{name}.yaml", directory / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(file, yaml.safe_dump(dict(workload), sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise UsageError(f"{file}: cannot write it: {error.strerror or error}") from None
    targets = [word for each in storage for word in ("--storage", each)]
    command = [
        *HIGHWATER,
        "bench",
        "run",
        str(file),
        "--out",
        str(result),
        "--launcher",
        "process",
        "--quiet",
        *targets,
    ]
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    if done.returncode == EXIT_INTERRUPTED:
        raise typer.Exit(EXIT_INTERRUPTED)
    if done.returncode not in (EXIT_OK, EXIT_INVALID):
        raise UsageError(f"{what} ended with exit status {done.returncode}, for the reason above: no plan was saved")
    return RunResult(result)
