"""The errors of this room: each text is one line that names the thing and says the way out."""

from __future__ import annotations

from typing import Final

WAY_OUT: Final = "; failOnDataLoss=false goes on with what is there"
"""The end of the text of a DataLossError."""


class PipelineError(Exception):
    """What ends a read or a write. The text is one line without secrets."""


class SettingsError(PipelineError):
    """An option is unknown, or has a value that cannot work."""


class ClientError(PipelineError):
    """No broker could be reached, or none would let this client in, within the time that was given."""


class DatabaseError(PipelineError):
    """A database cannot be reached, or did not do what was asked. Nothing of the batch is written."""


class DataLossError(PipelineError):
    """Records are gone that were to be read. The text names them, and the option that goes on without them."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}{WAY_OUT}")
        self.what = what

    def __reduce__(self) -> tuple[type[DataLossError], tuple[str]]:
        """Spark pickles errors between its processes."""
        return type(self), (self.what,)


class RecordsError(PipelineError):
    """The records of a partition cannot be read: they are damaged, or in a format from before Kafka 0.11."""

    def __init__(self, topic: str, partition: int, offset: int, what: str) -> None:
        super().__init__(f"{topic}-{partition} at offset {offset}: {what}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """The base offset of the batch that cannot be read."""
        self.what = what

    def __reduce__(self) -> tuple[type[RecordsError], tuple[str, int, int, str]]:
        """Spark pickles errors between its processes."""
        return type(self), (self.topic, self.partition, self.offset, self.what)
