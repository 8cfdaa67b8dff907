"""Runs commands on the host, as argument lists and never through a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

# The folders of administrators' programs, independent of the caller's PATH.
_SEARCH_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_NOT_FOUND: Final = 127


@dataclass(frozen=True)
class Completed:
    """The result of a command. `status` is 127 when the program does not exist."""

    status: int
    stdout: str = ""
    stderr: str = ""

    @property
    def complaint(self) -> str:
        """The last line of its error output, or of its output, or its exit status."""
        lines = [line for text in (self.stderr, self.stdout) for line in text.strip().splitlines()[-1:]]
        return lines[0].strip() if lines else f"exit status {self.status}"


class Runner(Protocol):
    @property
    def absent(self) -> str:
        """Why no command can be run here; empty when it can."""

    def run(self, argv: Sequence[str]) -> Completed:
        """Run a command to its end. Never raises for what the command does."""


class SystemRunner:
    """Runs commands on this host, in the C locale, with empty standard input."""

    absent = ""

    def run(self, argv: Sequence[str]) -> Completed:
        environment = {**os.environ, "LC_ALL": "C", "PATH": _SEARCH_PATH}
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                check=False,
                close_fds=False,  # the command inherits the change lock, so that it is held until the command ends
            )
        except OSError as error:
            return Completed(_NOT_FOUND, "", f"{argv[0]} cannot be run: {error.strerror or error}")
        return Completed(done.returncode, done.stdout, done.stderr)


class CapturedTreeRunner:
    """Runs nothing: a captured tree has no running system."""

    absent = "not on a captured tree"

    def run(self, argv: Sequence[str]) -> Completed:
        return Completed(_NOT_FOUND, "", f"{argv[0]}: {self.absent}")


def runner_for(root: Path) -> Runner:
    """The runner for the host whose files are below `root`."""
    return SystemRunner() if root == Path("/") else CapturedTreeRunner()
