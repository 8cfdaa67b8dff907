"""The user's cache of what others published, fetched or built: a folder for each version."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import typer

from highwater.common.errors import UsageError


def cache_directory() -> Path:
    """The folder that the compat suites use, too."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"


def cached(name: str, announcement: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; `make` creates it if it is missing.

    The folder appears complete or not at all, and only one of several processes creates it.
    """
    directory = cache_directory() / name
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if directory.is_dir():
            return directory
        typer.echo(f"==> {announcement} into {directory}", err=True)
        unfinished = directory.with_name(f".{name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        make(unfinished)
        unfinished.rename(directory)
    return directory


def need(tool: str, package: str, purpose: str) -> str:
    """The path of a program of this host. Raises UsageError that says how to install it."""
    found = shutil.which(tool)
    if found is None:
        raise UsageError(f"no {tool} here, which {purpose}: apt-get install -y {package}")
    return found


def run_step(command: Sequence[str | Path], where: Path) -> str:
    """Run one step of a build and return its output. Raises UsageError with its last line when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = _telling([line.strip() for line in done.stdout.splitlines() if line.strip()])
        raise UsageError(f"{Path(command[0]).name} {' '.join(map(str, command[1:3]))} failed: {said}")
    return done.stdout


def pip_install(requirements: Path, directory: Path) -> None:
    """Install what `requirements` pins below `directory`: only wheels of that SHA-256. Raises UsageError."""
    pinned: list[str | Path] = ["--require-hashes", "--only-binary", ":all:", "--requirement", requirements]
    run_step([sys.executable, "-m", "pip", "install", "--quiet", *pinned, "--target", directory], directory)


def _telling(lines: Sequence[str]) -> str:
    """The line with the reason among those that a program printed before it failed."""
    for line, following in pairwise(lines):
        if "DO NOT MATCH THE HASHES" in line:  # pip's words, with the package below them
            return f"another file than is pinned, {following.rstrip(':')}: find out who changed it"
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it printed nothing")


def main_of(name: str, directory: Callable[[], Path]) -> None:
    """The command of a module that fetches one thing: print its folder, or one line and exit code 2."""
    try:
        typer.echo(directory())
    except UsageError as error:
        typer.echo(f"{name}: {error}", err=True)
        sys.exit(2)
