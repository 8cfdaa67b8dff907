"""Where a pipeline keeps what it needs at its next start: checkpoints, first offsets, Spark's log."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.source.options import Options, read_options

_KEPT_START: Final = ("commitOffsets", "initialOffsetsLocation")
_FILE_OPTION: Final = "initialOffsetsLocation"
_HEADER_LINES: Final = 2


def keeping_its_start(options: Mapping[str, str], place: Path) -> dict[str, str]:
    """The options of a stream of topics, with a file that keeps where it began unless they name a place themselves."""
    given = {name.lower() for name in options}
    if any(name.lower() in given for name in _KEPT_START):
        return dict(options)
    return {**options, _FILE_OPTION: str(place)}


def read_source_options(options: Mapping[str, str], *, is_stream: bool) -> Options:
    """Read a source of topics; each flow stores where its stream began. Raises SettingsError."""
    return read_options(keeping_its_start(options, Path("unused")) if is_stream else options, is_stream=is_stream)


@dataclass(frozen=True, slots=True)
class Storage:
    """folder: of this pipeline alone, `<storage>/<name>`. Nothing is made before it is needed."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def checkpoint(self, flow: str) -> Path:
        return self.folder / "checkpoints" / flow

    @contextmanager
    def claimed(self, flows: Iterable[str]) -> Iterator[None]:
        """No other process on this host runs these flows meanwhile; the claim ends with the process.

        Raises SettingsError if another one has claimed a flow, or the folder cannot be written.
        """
        with ExitStack() as files:
            for flow in flows:
                try:
                    path = self.folder / "claims" / flow
                    path.parent.mkdir(parents=True, exist_ok=True)
                    fcntl.flock(files.enter_context(path.open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise SettingsError(
                        f"{self.folder}: another process runs the flow {flow}: stop it first, or set another name or "
                        "storage"
                    ) from None
                except OSError as error:
                    raise SettingsError(f"storage: {error.filename} cannot be written: {error.strerror}") from None
            yield

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
