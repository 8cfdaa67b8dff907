"""Where a pipeline keeps what it needs at its next start: checkpoints, first offsets, Spark's log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_KEPT_START: Final = ("commitOffsets", "initialOffsetsLocation")
_FILE_OPTION: Final = "initialOffsetsLocation"
_HEADER_LINES: Final = 2


def keeping_its_start(options: Mapping[str, str], place: Path) -> dict[str, str]:
    """The options of a stream of topics, with a file that keeps where it began unless they name a place themselves."""
    given = {name.lower() for name in options}
    if any(name.lower() in given for name in _KEPT_START):
        return dict(options)
    return {**options, _FILE_OPTION: str(place)}


@dataclass(frozen=True, slots=True)
class Storage:
    """folder: of this pipeline alone, `<storage>/<name>`. Nothing is made before it is needed."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def checkpoint(self, flow: str) -> Path:
        return self.folder / "checkpoints" / flow

    def with_first_offsets(self, flow: str, source: str, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a stream of topics, with a file of this flow that keeps where it began.

        It is in the checkpoint: whoever deletes one deletes the other.
        """
        return keeping_its_start(options, self.checkpoint(flow) / "first-offsets" / f"{source}.json")

    def progress_of(self, flow: str) -> tuple[int, list[dict[str, Any]]] | None:
        """The last finished batch of a flow, and where its sources stand; None before the first one."""
        checkpoint = self.checkpoint(flow)
        committed = checkpoint / "commits"
        done = [int(each.name) for each in committed.glob("*") if each.name.isdecimal()] if committed.is_dir() else []
        if not done:
            return None
        lines = (checkpoint / "offsets" / str(max(done))).read_text("utf-8").splitlines()[_HEADER_LINES:]
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return max(done), [each for each in found if all(isinstance(value, dict) for value in each.values())]
