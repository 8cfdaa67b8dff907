"""Interpreters for Spark that are another one on executors: without this package, or without libraries."""

from __future__ import annotations

import stat
import sys
import venv
from pathlib import Path

import numpy as np

LIBRARIES = str(Path(np.__file__).parents[1])
ON_EXECUTOR = "HIGHWATER_TEST_ON_EXECUTOR"


class Pythons:
    """Paths of interpreters that are this one on the driver, and another one on executors."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str, *packages: str) -> str:
        """packages: folders that it can import from. An installation that is editable is not among them."""
        home = self._folder / name
        venv.create(home, with_pip=False)
        (site,) = home.glob("lib/python*/site-packages")
        (site / "test.pth").write_text("\n".join(packages))
        script = self._folder / f"{name}.sh"
        script.write_text(
            f'#!/bin/sh\n[ -n "${ON_EXECUTOR}" ] && exec {home}/bin/python "$@"\nexec {sys.executable} "$@"\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)
