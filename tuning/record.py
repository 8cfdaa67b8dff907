"""The record of what was here before the first change: durable before anything is written, kept over later runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from .errors import TuningError
from .hostfiles import HostFiles, Reading

SCHEMA: Final = "tuning.record/1"
DEFAULT_PATH: Final = "/var/lib/highwater/tuning-record.json"


class Record:
    """Per kernel setting and per file: its state before our first change (`before`) and after our last (`after`)."""

    def __init__(self, files: HostFiles, path: str) -> None:
        """Read the record at `path`, empty when there is none. Raises TuningError for one that cannot be trusted."""
        self.path = path
        self._files = files
        self._entries: dict[str, dict[str, dict[str, Any]]] = {"settings": {}, "files": {}}
        try:
            text = files.read_verbatim(path)
            if text is not None:
                self._entries = _checked(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise TuningError(
                f"{path} is not a readable record of earlier changes ({error}); move it away to start a new one"
            ) from error

    def reader_of_originals(self, read: Callable[[str], Reading]) -> Callable[[str], Reading]:
        """`read`, but with the recorded original for every setting that was changed."""

        def read_original(path: str) -> Reading:
            entry = self._entries["settings"].get(path)
            return Reading(entry["before"]) if entry else read(path)

        return read_original

    def note_setting(self, path: str, before: str, after: str) -> None:
        self._note("settings", path, before, after)

    def note_file(self, path: str, before: str | None, after: str) -> None:
        self._note("files", path, before, after)

    def save(self) -> None:
        """Make the record durable. Raises OSError."""
        document = {"schema": SCHEMA, **self._entries}
        self._files.replace_file(self.path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", 0o644)

    def _note(self, table: str, path: str, before: str | None, after: str) -> None:
        entry = self._entries[table].setdefault(path, {"before": before, **self._now()})
        entry["after"] = after

    def _now(self) -> dict[str, str]:
        boot_id = self._files.read("/proc/sys/kernel/random/boot_id").text or ""
        return {"recorded_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "boot_id": boot_id}


def _checked(document: Any) -> dict[str, dict[str, dict[str, Any]]]:
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {document['schema']!r}, not {SCHEMA!r}")
    tables = {table: dict(document[table]) for table in ("settings", "files")}
    for entries in tables.values():
        for path, entry in entries.items():
            if not {"before", "after", "recorded_utc", "boot_id"} <= set(entry):
                raise ValueError(f"the entry of {path} is incomplete")
    return tables
