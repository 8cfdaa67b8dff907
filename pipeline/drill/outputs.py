"""Where a sink writes, as the drill sees it: made, read by another client than the sink's, removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS
from highwater.pipeline.drill.ledger import Row
from highwater.pipeline.drill.model import SinkSpec
from highwater.pipeline.drill.user_file import load


class Output(Protocol):
    """The output of one sink."""

    @property
    def spec(self) -> SinkSpec:
        """The sink, for the driver."""
        ...

    @property
    def resume_from(self) -> str:
        """The option `resumeFrom` of a query that goes on where this output ends; empty if it cannot say where."""
        ...

    def rows(self) -> list[Row]:
        """All rows that a reader sees now."""
        ...

    def remove(self) -> None:
        """Everything that was made for the drill."""
        ...


def make_folder(directory: Path) -> None:
    """Raises DrillSetupError if it cannot be made, or is there."""
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise DrillSetupError(f"{directory} cannot be made: {error.strerror}") from None


class FileOutput:
    """The output of a sink in a file of the user: its function `read` returns the key and the batch of each row."""

    resume_from = ""

    def __init__(self, kind: str, path: Path, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._read: Callable[[Path], list[tuple[str, str]]] = load(path, ("write", "read")).read
        self.spec = SinkSpec(kind, {"path": str(path.resolve()), "folder": str(folder)})

    def rows(self) -> list[Row]:
        return [Row(key, batch) for key, batch in self._read(self._folder)]

    def remove(self) -> None:
        """The folder is the drill's, and goes with it."""


class TopicOutput:
    """A topic, read by librdkafka with isolation.level=read_committed."""

    def __init__(self, kind: str, topic: str, partitions: int, cluster: DrillCluster) -> None:
        self._topic = topic
        self._cluster = cluster
        cluster.create_topic(topic, partitions)
        self._reader = cluster.reader(topic, partitions)
        self.spec = SinkSpec(kind, {"topic": topic})
        self.resume_from = f"group:{topic}" if KINDS[kind].resumes else ""

    def rows(self) -> list[Row]:
        return self._reader.read_to_end()

    def remove(self) -> None:
        """The topic, and the groups that keep markers: their names begin with the topic's."""
        self._reader.close()
        self._cluster.remove([self._topic], [])
        self._cluster.remove_groups(self._topic)
