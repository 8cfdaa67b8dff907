"""The file that says how many processes share a log directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.files import FileOperations, write_durably

MARKER: Final = "processes.json"
_VERSION: Final = 1


def write_marker(files: FileOperations, path: Path, count: int, base_id: int) -> None:
    """Raises OSError."""
    fields = {"version": _VERSION, "processes": count, "broker_id": base_id}
    write_durably(files, path / MARKER, f"{json.dumps(fields)}\n".encode())


def refuse_directories_of_processes(files: FileOperations, paths: Sequence[Path]) -> None:
    """Check the directories of a broker that is one process. Raises LogDirectoryError."""
    for path in paths:
        try:
            count, _ = read_marker(files, path)
        except OSError:
            continue  # what is the matter with it is reported when the directory is opened
        if count:
            raise LogDirectoryError(
                f"{path} belongs to a broker of {count} processes ({MARKER}): start it with --processes {count}, or "
                "choose another directory"
            )


def read_marker(files: FileOperations, path: Path) -> tuple[int, int]:
    """The number of processes and the broker id of the first; 0, 0 where there are none."""
    if not files.exists(path / MARKER):
        return 0, 0
    try:
        fields = json.loads(files.read(path / MARKER))
        if fields["version"] != _VERSION:
            raise ValueError(f"it is of version {fields['version']}")
        return int(fields["processes"]), int(fields["broker_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise LogDirectoryError(f"{path / MARKER} cannot be understood: {error}; restore it from a copy") from None
