"""Runs a program or tests with the compiled broker: `python -m tests.compiled -m tests.drills.kill9`.

The arguments are those of Python. They run in a temporary folder like this checkout, in which what `make compiled` has
built stands in the place of highwater/. PYTHONPATH names the folder, so that every process that they start uses it too.

Exit status: that of the program; 2 if there is no such wheel, it was built from other sources, or does not load.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Final

from highwater.bench.systems.highwater import unpacked_wheel
from highwater.common.errors import UsageError

ROOT: Final = Path(__file__).parents[1]
_BUILD: Final = "make compiled builds it"
_LOAD: Final = """
from importlib import import_module
from highwater.broker.server.compiled import MODULES, compiled_modules, which_runs
for name in MODULES:
    import_module(name)
print(which_runs())
raise SystemExit(compiled_modules() != list(MODULES))
"""


class NoCompiledBrokerError(Exception):
    """One line that says what is wrong, and what to do."""


def wheel_in(directory: Path) -> Path:
    """The compiled wheel for this Python. Raises NoCompiledBrokerError if there is none, or more than one."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted(directory.glob(f"highwater_kafka-*-{python}-{python}-*.whl"))
    if not found:
        raise NoCompiledBrokerError(f"{directory} has no compiled wheel for this Python: {_BUILD}")
    if len(found) > 1:
        names = ", ".join(wheel.name for wheel in found)
        raise NoCompiledBrokerError(f"{directory} has several compiled wheels, remove all but one: {names}")
    return found[0]


def check_sources(wheel: Path, checkout: Path) -> None:
    """Raises NoCompiledBrokerError if `wheel` has a module that differs from that of `checkout`, or cannot be read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                source = checkout / name
                if name.endswith(".py") and not (source.is_file() and source.read_bytes() == archive.read(name)):
                    raise NoCompiledBrokerError(f"{wheel} was built from another {name}: {_BUILD} anew")
    except (OSError, zipfile.BadZipFile) as error:
        raise NoCompiledBrokerError(f"{wheel} cannot be read: {error}") from error


def lay_out(wheel: Path, checkout: Path, place: Path) -> None:
    """Make of `place` a folder like `checkout`, with the unpacked wheel in the place of highwater/ and of the rooms.

    The tests are a copy, as pytest takes what it finds behind a link for a part of the checkout. The rest are links.
    """
    unpacked_wheel(wheel, place)
    copytree(checkout / "tests", place / "tests", ignore=ignore_patterns("__pycache__"))
    for entry in checkout.iterdir():
        there = place / entry.name
        if entry.name != ".git" and not there.exists():
            room = place / "highwater" / entry.name
            there.symlink_to(room if room.is_dir() else entry)


def environment_of(place: Path) -> dict[str, str]:
    paths = [str(place), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run(wheel: Path, checkout: Path, arguments: Sequence[str]) -> int:
    """Run Python with these arguments on the compiled broker, and return its exit status."""
    check_sources(wheel, checkout)
    with tempfile.TemporaryDirectory(prefix="highwater-compiled-") as name:
        place = Path(name)
        lay_out(wheel, checkout, place)
        environment = environment_of(place)
        load = [sys.executable, "-P", "-c", _LOAD]
        loaded = subprocess.run(load, cwd=place, env=environment, capture_output=True, text=True, check=False)
        said = (loaded.stderr or loaded.stdout).strip().rpartition("\n")[2]
        if loaded.returncode != 0:
            raise NoCompiledBrokerError(f"{wheel} does not run compiled here: {said}")
        sys.stdout.write(f"{wheel.name}: {said}\n")
        sys.stdout.flush()
        process = subprocess.Popen([sys.executable, *arguments], cwd=place, env=environment)
        status = _wait(process)
    return status if status >= 0 else 128 - status


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Hands SIGTERM on. Ctrl-C at a terminal reaches the program by itself, which decides about it."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.stderr.write("python -m tests.compiled wants arguments of Python: -m tests.drills.kill9 --rounds 3\n")
        return 2
    try:
        return run(wheel_in(ROOT / "dist"), ROOT, arguments)
    except (NoCompiledBrokerError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
