"""Reads a captured tree, which a marker file identifies, with the read errors of the original host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..errors import TuningError
from ..hostfiles import HostFiles, Reading

MARKER: Final = "highwater-capture.json"
SCHEMA: Final = "tuning.capture/1"


class CapturedFiles(HostFiles):
    def __init__(self, root: Path, unreadable: Mapping[str, str]) -> None:
        super().__init__(root)
        self._unreadable = unreadable

    def read(self, path: str) -> Reading:
        reading = super().read(path)
        return Reading(None, self._unreadable[path]) if path in self._unreadable else reading

    def writable_by_others(self, path: str) -> str:
        """Nobody: what a capture lists is looked at, and never carried out."""
        return ""


def is_captured(root: Path) -> bool:
    return (root / MARKER).is_file()


def files_of(root: Path) -> HostFiles:
    """The files below `root`; raises TuningError for a capture whose marker is damaged."""
    if not is_captured(root):
        return HostFiles(root)
    marker = root / MARKER
    try:
        document = json.loads(marker.read_text("utf-8"))
        unreadable = document["unreadable"]
        known = document["schema"] == SCHEMA and all(isinstance(reason, str) for reason in unreadable.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TuningError(f"{marker} is damaged ({error}); capture the host again") from error
    if not known:
        raise TuningError(f"{marker} is of another version than {SCHEMA}; capture the host again")
    return CapturedFiles(root, unreadable)
