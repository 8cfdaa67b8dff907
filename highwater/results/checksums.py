"""checksums.sha256: digests of all files of a result, as `sha256sum --check` reads them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from highwater.common.atomic_files import write_atomically
from highwater.common.live_figures import FILE_NAME as LIVE_FIGURES

FILE_NAME: Final = "checksums.sha256"
# Files that are derived from the others and may be written again at any time.
_DERIVED: Final = frozenset(
    {
        FILE_NAME,
        "run.lock",
        LIVE_FIGURES,
        "report.html",
        "report.md",
        "gate.md",
        "gate.junit.xml",
        "gate.codequality.json",
    }
)
_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


def write(directory: Path) -> None:
    """Write the digests of all files of a result directory, as the last step of a run."""
    lines = [f"{_digest(directory / name)}  {name}\n" for name in _names(directory)]
    write_atomically(directory / FILE_NAME, "".join(lines))


def disagreements(directory: Path, *, ended: bool) -> Iterator[str]:
    """One line for each file that has changed since the run ended.

    ended: the manifest says that the run ended, so digests must exist; a killed run has none.
    """
    path = directory / FILE_NAME
    if not path.is_file():
        if ended:
            yield f"{FILE_NAME}: is missing, though every run writes it at its end: changes cannot be detected"
        return
    stored: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            yield f"{FILE_NAME}:{number}: not a digest and a file name"
            return
        stored[match[2]] = match[1]
    present = set(_names(directory))
    for name, digest in stored.items():
        if name not in present:
            yield f"{name}: is missing"
        elif _digest(directory / name) != digest:
            yield f"{name}: changed since the run ended"
    # People may add notes, reports and exports to the result directory, but nothing to the folder of trials.
    for name in sorted(present - set(stored)):
        if name.startswith("trials/"):
            yield f"{name}: was not there when the run ended"


def _names(directory: Path) -> list[str]:
    return sorted(
        name
        for path in directory.rglob("*")
        # A report may be written meanwhile, first under a temporary name.
        if path.suffix != ".tmp" and path.is_file() and (name := path.relative_to(directory).as_posix()) not in _DERIVED
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
