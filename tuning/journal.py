"""The journal of changes: what was here before each one, durable before it is made.

Lines of JSON, appended only, each with a checksum over its entry. A line without its end was never written: what it
would have announced has not happened. Anything else that does not fit is damage, and stops everything.

begin      a run and who makes it, the boot it runs in, and every change that it is going to make
done       a change that was made and read back
end        the run is complete
cancelled  everything that the run had changed was taken back, as one of its changes failed
restored   a thing that a rollback put back, or found to be nothing of ours any more
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import dataclass
from typing import Any, Final

from .errors import TuningError
from .hostfiles import HostFiles
from .steps import CommandStep, Resource, ResourceStep, State, as_json, from_json

FOLDER: Final = "/var/lib/highwater/tuning"
APPLIED: Final = f"{FOLDER}/journal.jsonl"
"""Of `highwater tune apply`: changes that stay until they are taken back."""
SESSION: Final = f"{FOLDER}/session.jsonl"
"""Of a benchmark: a profile in force for as long as its process lives."""


@dataclass(frozen=True)
class Owner:
    """The process that makes changes, as its number and when it started, and what people call what it does."""

    name: str
    pid: int
    started: str

    @classmethod
    def this_process(cls, files: HostFiles, name: str) -> Owner: ...

    def lives(self, files: HostFiles) -> bool: ...
