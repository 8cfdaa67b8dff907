"""Reads a damaged result directory: damaged files count as missing and are remembered as faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from highwater.results import checksums
from highwater.results.files import DamagedFileError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file of a result directory that is damaged, missing, or not as its run left it.

    file: relative to the directory. what: is wrong with it.
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(slots=True)
class Salvage:
    """The faults that were met in a directory."""

    directory: Path
    _faults: dict[str, FileFault] = field(default_factory=dict, init=False)

    def take(self, read: Callable[[], T], otherwise: T) -> T:
        """What `read` returns; `otherwise` if the file is damaged."""
        try:
            return read()
        except DamagedFileError as error:
            self.note(error.file, error.what)
            return otherwise

    def note(self, file: Path, what: str) -> None:
        name = file.relative_to(self.directory).as_posix()
        self._faults.setdefault(name, FileFault(name, what))

    def faults(self) -> list[FileFault]:
        """What was met so far, and then the files whose digests do not match. A killed run has no digests."""
        for line in checksums.disagreements(self.directory, ended=False):
            name, _, what = line.partition(": ")
            self.note(self.directory / name, what)
        return list(self._faults.values())
