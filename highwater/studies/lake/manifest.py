"""The manifest of a lake: which runs are in it, and which files hold their rows, with digests.

    LAKE/lake.json         the schema of the lake
    LAKE/manifest.jsonl    a line for each group: runs of one environment and month, and the files with their rows
    LAKE/lock              held by whoever changes the manifest

A run is in the lake as soon as its line ends with a newline. `add` appends a line with one run. `compact` replaces the
lines of one environment and month by one, in a new manifest that takes the place of the old one. A line that a killed
process left without its newline does not count, and the next writer cuts it off.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.common.nearest import did_you_mean
from highwater.studies.lake.tables import LAKE_SCHEMA, VERSIONS

MANIFEST_FILE: Final = "manifest.jsonl"
LAKE_FILE: Final = "lake.json"
LOCK_FILE: Final = "lock"


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of a lake. `path` is relative to the lake; `version` is that of its table."""

    table: str
    path: str
    sha256: str
    bytes: int
    rows: int
    version: int


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run of a lake. `content` is the digest of its result directory, and `source` where that was."""

    run: str
    workload: str
    created_utc: str
    content: str
    source: str
    trials: int


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one environment and month, and the files that hold all of their rows and no others."""

    environment: str
    month: str
    runs: tuple[KeptRun, ...]
    files: tuple[KeptFile, ...]

    @property
    def place(self) -> tuple[str, str]:
        return self.environment, self.month

    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


class Manifest:
    """The manifest of the lake in `directory`; a file that only grew is read from where it ended before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / MANIFEST_FILE
        self._read_file: int | None = None
        """A descriptor of the file that was read: as long as it is open, no other file gets its inode number."""
        self._close: Callable[[], object] = lambda: None
        self._read_bytes = 0
        self._groups: list[Group] = []
        self._runs: dict[str, tuple[KeptRun, Group]] = {}

    def create(self) -> None:
        """Make an empty lake; one that is there already stays. Raises UsageError for a directory with other things."""
        if (self.directory / LAKE_FILE).is_file():
            self.check()
            return
        begun = {LOCK_FILE, MANIFEST_FILE, f"{MANIFEST_FILE}.tmp", LAKE_FILE, f"{LAKE_FILE}.tmp"}
        if self.directory.is_dir() and not begun.issuperset(path.name for path in self.directory.iterdir()):
            if (self.directory / LAKE_FILE).is_file():  # another adder made it meanwhile
                return
            raise UsageError(f"{self.directory} is not empty and no lake; name a new directory with --lake")
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.locked():
            if not (self.directory / LAKE_FILE).is_file():
                write_atomically(self._path, "")
                write_atomically(self.directory / LAKE_FILE, json.dumps({"schema": LAKE_SCHEMA}) + "\n")

    def check(self) -> None:
        """Raises UsageError when the directory is no lake, or one that a newer version made."""
        path = self.directory / LAKE_FILE
        if not path.is_file():
            raise UsageError(f"{self.directory} is not a lake; make one with: highwater bench lake add DIR --lake LAKE")
        try:
            schema = json.loads(path.read_text("utf-8"))["schema"]
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path}: is damaged; it must say {json.dumps({'schema': LAKE_SCHEMA})}") from None
        if schema != LAKE_SCHEMA:
            raise UsageError(
                f"{path}: says {schema}, and this version of Highwater reads {LAKE_SCHEMA}; install a newer one"
            )

    def groups(self) -> list[Group]:
        """All groups in the order of the manifest. Raises UsageError for a damaged line, or one of a newer version."""
        self._refresh()
        return list(self._groups)

    def runs(self) -> dict[str, tuple[KeptRun, Group]]:
        """Run id -> run, and the group that it is in; errors as of `groups`."""
        self._refresh()
        return dict(self._runs)

    def run(self, run: str) -> KeptRun | None:
        """The run with this id; errors as of `groups`."""
        self._refresh()
        found = self._runs.get(run)
        return found[0] if found is not None else None

    def _refresh(self) -> None:
        self.check()
        try:
            with self._path.open("rb") as file:
                self._forget_if_another(file.fileno())
                file.seek(self._read_bytes)
                text = file.read()
        except FileNotFoundError:
            raise UsageError(f"{self._path}: is missing; take it from a copy of the lake") from None
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._take(line)
        self._read_bytes += len(whole)

    def _forget_if_another(self, descriptor: int) -> None:
        """Begin anew with another file than the one that was read, or where that one has become shorter."""
        state = os.fstat(descriptor)
        is_same = self._read_file is not None and os.path.samestat(state, os.fstat(self._read_file))
        if is_same and state.st_size >= self._read_bytes:
            return
        self._close()
        self._read_file = os.dup(descriptor)
        self._close = weakref.finalize(self, os.close, self._read_file)
        self._read_bytes, self._groups, self._runs = 0, [], {}

    def _take(self, line: bytes) -> None:
        try:
            group = _group(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            where = f"{self._path}:{len(self._groups) + 1}"
            raise UsageError(f"{where}: is damaged ({error}); take it from a copy of the lake") from None
        for file in group.files:
            known = VERSIONS.get(file.table, 0)
            if file.version > known:
                knows = f"knows version {known}" if known else "does not know it"
                raise UsageError(
                    f"{self.directory / file.path}: is version {file.version} of the table {file.table}, and this "
                    f"version of Highwater {knows}; install a newer one"
                )
        self._groups.append(group)
        self._runs |= {run.run: (run, group) for run in group.runs}

    def named(self, name: str) -> tuple[KeptRun, Group]:
        """A run by its id, or by a part that only one id has. Raises UsageError."""
        runs = self.runs()
        found = [name] if name in runs else [run for run in runs if name in run]
        if len(found) == 1:
            return runs[found[0]]
        if found:
            raise UsageError(
                f"{name} is part of the ids of {len(found)} runs ({found[0]}, {found[1]}, …); give more of it"
            )
        raise UsageError(f"{self.directory} has no run {name}{did_you_mean(name, runs)}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the lake; the kernel takes it back from a process that dies."""
        descriptor = os.open(self.directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def append(self, group: Group) -> None:
        """Append a line, on the disk when it returns. The caller holds the lock."""
        self._refresh()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, self._read_bytes)
            os.lseek(descriptor, 0, os.SEEK_END)
            line = group.line().encode()
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, groups: Sequence[Group]) -> None:
        """Put a new manifest in the place of the old one. The caller holds the lock."""
        write_atomically(self._path, "".join(group.line() for group in groups))


def _group(line: Any) -> Group:
    runs, files = (tuple(line.pop(name)) for name in ("runs", "files"))
    return Group(**line, runs=tuple(KeptRun(**run) for run in runs), files=tuple(KeptFile(**file) for file in files))
