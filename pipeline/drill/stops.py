"""The drill's side of the crash points: arms a place, sees who waits there, lets it go on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from highwater.pipeline.crash_points import ARMED, PASSED, REACHED, CrashPoint


class Stops:
    """The crash points of one query. folder: what all processes of a drill have in HIGHWATER_CRASH_DIRECTORY."""

    def __init__(self, folder: Path, query: str = "") -> None:
        self.query = query
        self._folder = folder / query
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / PASSED).touch()

    def arm(self, point: CrashPoint) -> None:
        """The next process that comes to `point` stops there."""
        (self._folder / f"{point.value}{ARMED}").touch()

    def disarm(self, point: CrashPoint) -> bool:
        """Whether nobody had come there: False if a process waits at `point`."""
        try:
            (self._folder / f"{point.value}{ARMED}").unlink()
        except FileNotFoundError:
            return False
        return True

    def who_waits(self, point: CrashPoint) -> int | None:
        """The id of the process that waits at `point`."""
        for found in self._folder.glob(f"{point.value}{REACHED}*"):
            return int(found.name.rpartition("-")[2])
        return None

    def let_go(self, point: CrashPoint) -> None:
        """The process that waits at `point` goes on."""
        for found in self._folder.glob(f"{point.value}{REACHED}*"):
            found.unlink(missing_ok=True)

    def release(self) -> None:
        """Every process that waits goes on, and no place is armed."""
        for pattern in (f"*{ARMED}", f"*{REACHED}*"):
            for found in self._folder.glob(pattern):
                found.unlink(missing_ok=True)

    def journal(self) -> list[tuple[CrashPoint, int]]:
        """Each passage of a place since the drill began, with the process."""
        lines = [line.split() for line in (self._folder / PASSED).read_text("ascii").splitlines()]
        return [(CrashPoint(name), int(process_id)) for name, process_id in lines]

    def passages(self) -> Counter[CrashPoint]:
        """How often each place was passed since the drill began."""
        return Counter(point for point, _ in self.journal())
