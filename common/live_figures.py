"""The live figures of a run: a file in its directory, to which it appends lines while it goes.

Whoever runs something writes what charts there are and, about once a second, figures and a sentence that says how
things stand; a page (`highwater watch DIR`) reads them. The file is locked as long as its writer lives, so that a
reader knows a run that ended from one that died. It goes when the run has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FILE_NAME: Final = "live.jsonl"
# A step of a few hours with figures every second. After each such step figures come half as often as before.
_STEP_BYTES: Final = 4 << 20
# Figures come about once a second: the one that comes a little early is not left out.
_EARLY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart over time. A figure's name in the file is `<name>.<line>`."""

    name: str
    title: str
    unit: str
    """The unit of the values in the file: `B/s` gets a prefix on the page, `%` and `ms` none."""
    lines: Sequence[str]
    """Names of the lines, four at most, each with a colour of its own; `reference` is one more, in grey."""
    reference: str = ""
    is_log: bool = False
    is_peak: bool = False
    """Where a stretch of seconds is one point of the page: draw its highest value, and not its mean."""


class LiveFigures:
    """The writer. It never fails a run: what cannot be written is left out."""

    def __init__(
        self,
        directory: Path,
        title: str,
        charts: Sequence[Chart],
        again: str,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Begin the file anew. again: the command that continues the run if it dies."""
        self._path = directory / FILE_NAME
        self._now_s = now_s
        self._size = 0
        self._figures_s = 0.0
        try:
            self._descriptor: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
        except OSError:
            self._give_up()
        self._append({"title": title, "again": again, "charts": [asdict(chart) for chart in charts]})

    def say(self, words: str) -> None:
        """How things stand now, in one sentence."""
        self._append({"now": words})

    def figures(self, figures: Mapping[str, float | None], words: str) -> None:
        """Figures by name, as of now. Left out if the last ones were written less than a second ago."""
        now_s = self._now_s()
        if now_s - self._figures_s < 2 ** (self._size // _STEP_BYTES) - _EARLY_S:
            return
        self._figures_s = now_s
        known = {name: round(value, 4) for name, value in figures.items() if value is not None}
        self._append({"now": words, "figures": known})

    def begin(self, name: str) -> None:
        """A part of the run begins, such as a trial: charts show it as a band, and interrupt their lines at its end."""
        self._append({"begin": name})

    def end(self) -> None:
        self._append({"end": True})

    def finish(self, words: str) -> None:
        """The run has ended, for a reader that still has the file open; the file goes."""
        self._append({"finished": words})
        self._path.unlink(missing_ok=True)
        self._give_up()

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._descriptor is None:
            return
        written = json.dumps({"at": round(self._now_s(), 2), **line}, separators=(",", ":")).encode() + b"\n"
        try:
            os.pwrite(self._descriptor, written, self._size)
            self._size += len(written)
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        self._descriptor = None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


class LiveLines:
    """The reader: the lines of a file that somebody may still write."""

    def __init__(self, directory: Path) -> None:
        """Raises FileNotFoundError when nothing runs there, and OSError."""
        self._descriptor = os.open(directory / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
        self._offset = 0

    def read(self) -> list[dict[str, Any]] | None:
        """The lines that are new; None if the file was begun anew: then what was read before is void."""
        size = os.fstat(self._descriptor).st_size
        if size < self._offset:
            self._offset = 0
            return None
        whole = os.pread(self._descriptor, size - self._offset, self._offset).rpartition(b"\n")[0]
        if not whole:
            return []
        self._offset += len(whole) + 1
        return [json.loads(line) for line in whole.split(b"\n")]

    def is_written(self) -> bool:
        """Whether the process that writes it is alive."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False
