"""Records on the host what was made of each disk, before each step that a kill could interrupt.

By mount point, as a host has one disk for each. It goes away with the last of them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ..highwater.tuning.errors import TuningError
from ..highwater.tuning.hostfiles import HostFiles

FOLDER: Final = "/var/lib/highwater/provision"
PATH: Final = f"{FOLDER}/storage.json"
FSTAB_BEFORE: Final = f"{FOLDER}/fstab.before"
"""/etc/fstab as it was before it was first edited, for people to look at."""

State = Literal["formatting", "in use"]


@dataclass(frozen=True)
class Entry:
    mount_point: str
    device: str
    uuid: str
    filesystem: str
    state: State
    """`formatting` from before mkfs until it is done: nobody has used the file system yet."""
    formatted: bool = False
    """Whether it was made here, and not there before."""
    options: tuple[str, ...] = ()
    """What the line of fstab was given."""
    unseen: tuple[str, ...] = ()
    """Those of them that /proc/self/mountinfo does not show, although they were mounted with."""
    line_before: str | None = None
    """The line of fstab that was there before; None when there was none."""
    folders_made: tuple[str, ...] = ()
    """Folders that were made for the mount point, it among them, the outermost first."""
    mode_before: int | None = None
    """The mode of a mount point that was there before."""


def read(files: HostFiles) -> dict[str, Entry]:
    """Raises TuningError for a ledger that is damaged, or that another user than root may have written."""
    if part := files.writable_by_others(PATH):
        raise TuningError(
            f"{PATH} is not obeyed, as another user may change {part}; look at it, then chown root {part}"
        )
    text = files.read_verbatim(PATH)
    if text is None:
        return {}
    try:
        return {entry.mount_point: entry for entry in (_entry(row) for row in json.loads(text)["disks"])}
    except (ValueError, KeyError, TypeError) as error:
        raise TuningError(
            f"{PATH} is damaged ({error}); move it away, and give each disk of storage_disks its uuid"
        ) from error


def write(files: HostFiles, entries: Mapping[str, Entry]) -> None:
    rows = [dataclasses.asdict(entry) for _, entry in sorted(entries.items())]
    files.replace_file(PATH, json.dumps({"disks": rows}, indent=1) + "\n", 0o600)


def remove(files: HostFiles) -> None:
    """Remove the ledger, the copy of fstab, and their folders when nobody else has anything in them."""
    for path in (FSTAB_BEFORE, PATH):
        if files.exists(path):
            files.remove_file(path)
    for folder in (FOLDER, FOLDER.rpartition("/")[0]):
        files.remove_folder_if_empty(folder)


def _entry(row: Mapping[str, object]) -> Entry:
    listed: Iterable[str] = ("options", "unseen", "folders_made")
    values = {name: tuple(value) if name in listed else value for name, value in row.items()}  # type: ignore[arg-type]
    return Entry(**values)  # type: ignore[arg-type]
