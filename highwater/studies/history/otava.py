"""Finds change points with Apache Otava: series of figures in, change points out.

Otava pins numpy and depends on clients of clouds, so it has an environment of its own and runs as a program: the one
that the user names, else the one on the PATH, else one that is installed into the user's cache on first use.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from highwater.bench.user_cache import cache_directory, cached, pip_install
from highwater.common.errors import UsageError

OTAVA_VERSION: Final = "0.8.0"
_NAME: Final = f"otava-{OTAVA_VERSION}"
_PINNED: Final = Path(__file__).with_name("otava.txt")
# E-divisive splits a series in two and tests the halves; a shorter series cannot be split.
LEAST_POINTS: Final = 7
_TIMEOUT_S: Final = 300
_AN_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The figures of the series change at this point. `index` counts from 0."""

    index: int
    before: float
    """Mean from the last change to this one; `after`: mean from this change to the next one, or the end."""
    after: float
    p_value: float

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else math.inf


def otava_command(named: str | None = None) -> list[str]:
    """The command line of Otava, installed if it is missing. Raises UsageError when it cannot be installed."""
    if (present := otava_present(named)) is not None:
        return present
    try:
        directory = cached(_NAME, f"installing Apache Otava {OTAVA_VERSION}", _install)
    except UsageError as error:
        raise UsageError(
            f"change points need Apache Otava, and it cannot be installed ({error}); install apache-otava into an "
            "environment of its own and name its program: --otava PATH"
        ) from None
    return _installed_in(directory)


def otava_present(named: str | None = None) -> list[str] | None:
    """The command line of Otava; None when it is not installed. Raises UsageError when `named` is no program."""
    if named is not None:
        found = shutil.which(named)
        if found is None:
            raise UsageError(f"--otava: {named} is not a program")
        return [found]
    if (on_path := shutil.which("otava")) is not None:
        return [on_path]
    directory = cache_directory() / _NAME
    return _installed_in(directory) if directory.is_dir() else None


def _installed_in(directory: Path) -> list[str]:
    # Otava's packages first on the path, so that it imports its own numpy.
    start = f"import sys; sys.path.insert(0, {str(directory)!r}); from otava.main import main; main()"
    return [sys.executable, "-P", "-c", start]


def may_change(values: Sequence[float]) -> bool:
    """Whether a series is long enough to have a change point, and not constant."""
    return len(values) >= LEAST_POINTS and len(set(values)) > 1


def change_points(
    otava: Sequence[str], series: Mapping[str, Sequence[float]], magnitude_ratio: float
) -> dict[str, list[ChangePoint]]:
    """Series name -> change points of at least `magnitude_ratio`. Raises UsageError when Otava fails."""
    long_enough = {name: values for name, values in series.items() if may_change(values)}
    found: dict[str, list[ChangePoint]] = {name: [] for name in series}
    if not long_enough:
        return found
    with tempfile.TemporaryDirectory(prefix="highwater-otava-") as directory:
        tests = {
            f"series{number}": _test(Path(directory), number, values)
            for number, (name, values) in enumerate(long_enough.items())
        }
        configuration = Path(directory) / "otava.yaml"
        configuration.write_text(yaml.safe_dump({"tests": tests}), "utf-8")
        printed = _run(otava, configuration, list(tests), magnitude_ratio)
    for name, test in zip(long_enough, tests, strict=True):
        found[name] = sorted(
            (_change_point(change) for group in printed[test] for change in group["changes"]),
            key=lambda point: point.index,
        )
    return found


def _test(directory: Path, number: int, values: Sequence[float]) -> dict[str, Any]:
    path = directory / f"series{number}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("time", "value"))
        # Only the order matters. Otava ignores points older than a year, so the points get artificial times.
        start = int(time.time()) - _AN_HOUR_S - len(values)
        writer.writerows((start + index, repr(value)) for index, value in enumerate(values))
    return {
        "type": "csv",
        "file": str(path),
        "time_column": "time",
        "attributes": [],
        "metrics": ["value"],
    }


def _run(otava: Sequence[str], configuration: Path, tests: list[str], magnitude_ratio: float) -> dict[str, Any]:
    command = [*otava, "analyze", *tests, "--config-file", str(configuration), "--output", "json"]
    command += ["--magnitude", repr(magnitude_ratio)]
    # Ignore the user's own configuration and other branches.
    environment = {name: value for name, value in os.environ.items() if name not in ("OTAVA_CONFIG", "BRANCH")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"Otava: {error}") from None
    printed: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            printed |= json.loads(line)
    if set(printed) != set(tests):
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise UsageError(f"Otava failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return printed


def _change_point(change: Mapping[str, Any]) -> ChangePoint:
    return ChangePoint(
        index=int(change["index"]),
        before=float(change["mean_before"]),
        after=float(change["mean_after"]),
        p_value=float(change["pvalue"]),
    )


def _install(directory: Path) -> None:
    pip_install(_PINNED, directory)
