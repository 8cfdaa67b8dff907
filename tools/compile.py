"""Compiles the hot modules of this checkout to machine code, for its broker (docs/compiled.md).

What keeps it from doing so is one line; what the compiler printed is in build/compiled/log. A build appears whole or
not at all, and one process makes it at a time. Exit status: 0 if these sources are compiled, 1 if they are not.

`--packages` prints the Debian packages that it lacks, and does nothing else.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple

from highwater.common.atomic_files import write_atomically
from highwater.common.compiled import MODULES, ROOT, build_of, looks, seen

_LONGEST: Final = 200
_KEPT: Final = 3
"""Builds of other sources, as of another branch."""


class CannotCompileError(Exception):
    """One line with the reason, and the way out."""


class Missing(NamedTuple):
    """What this machine lacks, as words and as packages of Debian."""

    what: str
    packages: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what}: apt-get install {' '.join(self.packages)}" if self.packages else self.what


def missing() -> Missing | None:
    # Another Python than Debian's has its headers, or Debian has none for it.
    headers = ("python3-dev",) if sys.base_prefix == "/usr" else ()
    if (named := os.environ.get("CC")) and shutil.which(named.split()[0]) is None:
        return Missing(f"there is no compiler {named}, which CC names", ())
    if not named and shutil.which("cc") is None:
        return Missing("there is no C compiler", ("gcc", "libc6-dev", *headers))
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return Missing(f"there are no headers of Python in {sysconfig.get_path('include')}", headers)
    return None


def compile_hot_modules(root: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Compile those of a checkout, and return whether there was something to do. Raises CannotCompileError."""
    place = build_of(root)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_new := not place.is_dir():
                _build(root, place, environment)
                _remove_old(place)
            note_sources(root)
            return is_new
    except OSError as error:
        if place.is_dir():
            return False  # it is somebody else's checkout, and was compiled
        raise CannotCompileError(f"{error.filename or place}: {error.strerror}") from None


def note_sources(root: Path) -> None:
    """Let processes know the build of these sources by times and sizes of files."""
    found = looks(root)
    write_atomically(seen(root), f"{build_of(root).name}\n{found}")


def _build(root: Path, place: Path, environment: Mapping[str, str]) -> None:
    if (lacks := missing()) is not None:
        raise CannotCompileError(str(lacks))
    unfinished = place.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    objects, log = place.with_name("objects"), place.with_name("log")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(unfinished)]
    with log.open("w") as output:
        done = subprocess.run(
            [*command, "--build-temp", str(objects)],
            cwd=root,
            env={**environment, "HIGHWATER_COMPILED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        said = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        why = next((line for line in said if "error" in line.lower()), said[-1] if said else "no reason given")
        raise CannotCompileError(f"{shorten(why, _LONGEST)} (all of it: {log})")
    shutil.rmtree(objects, ignore_errors=True)
    if build_of(root) != place:
        raise CannotCompileError("the sources changed meanwhile; try again")
    unfinished.rename(place)


def _remove_old(newest: Path) -> None:
    """Keep a few for other branches. A process that runs one of them has loaded it."""
    others = [path for path in newest.parent.iterdir() if len(path.name) == len(newest.name) and path != newest]
    for path in sorted(others, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(path)


def main(arguments: Sequence[str]) -> int:
    started = time.monotonic()
    is_there = build_of(ROOT).is_dir()
    lacks = None if is_there else missing()
    if arguments == ["--packages"]:
        sys.stdout.write(" ".join(() if lacks is None else lacks.packages))
        return 0
    if lacks is None and not is_there:
        what = f"Machine code of the broker's {len(MODULES)} hot modules, once for these sources"
        sys.stdout.write(f"==> {what}: about a minute of CPU time (COMPILED=0 leaves it out)\n")
        sys.stdout.flush()
    try:
        if compile_hot_modules(ROOT):
            sys.stdout.write(f"==> Compiled in {time.monotonic() - started:.0f} s\n")
    except CannotCompileError as error:
        sys.stderr.write(f"the broker runs as Python, and a request takes more CPU time: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
