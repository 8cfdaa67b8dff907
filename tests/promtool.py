"""Prometheus and its promtool: those on PATH, or Debian's, unpacked into the user's cache and not installed.

Debian's package would start a Prometheus on the machine that it is installed on.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from highwater.bench.user_cache import cached, run_step
from highwater.common.errors import UsageError


@cache
def promtool_path() -> str:
    """Raises UsageError where it is neither installed nor can be downloaded."""
    return _path("promtool")


@cache
def prometheus_path() -> str:
    """Raises UsageError where it is neither installed nor can be downloaded."""
    return _path("prometheus")


def promtool(*arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [promtool_path(), *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def _path(program: str) -> str:
    return shutil.which(program) or str(cached("promtool-debian", "promtool", _unpack) / "usr/bin" / program)


def _unpack(folder: Path) -> None:
    download = ["apt-get", "download", "prometheus"]
    try:
        run_step(download, folder)
    except UsageError:  # a machine whose lists of packages are missing or old
        run_step(["apt-get", "update"], folder)
        run_step(download, folder)
    (package,) = folder.glob("prometheus_*.deb")
    run_step(["dpkg-deb", "--extract", package, folder], folder)
    package.unlink()
