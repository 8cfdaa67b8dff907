"""The offsets of a consumer in a database: a row for each partition, with its owner's epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.database.dialect import Cursor, Dialect, check_name
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.progress.batch import SCHEMA_VERSION

TABLE: Final = "highwater_offsets"
_COLUMNS: Final = ("name", "topic", "partition_id", "next_offset", "topic_id", "epoch", "schema_version")
_WHERE: Final = ("name", "topic", "partition_id")
_NONE: Final = -1


class OffsetsError(PipelineError):
    """The stored offsets do not fit: another version, or a topic that was deleted and created again."""


@dataclass(frozen=True)
class Stored:
    """next_offset: None where nothing is stored yet. epoch: grows with each member that takes the partition."""

    next_offset: int | None
    topic_id: str
    epoch: int


class OffsetsTable:
    """All methods belong into a transaction that the caller has begun, but `create`."""

    def __init__(self, dialect: Dialect, name: str) -> None:
        """Raises SettingsError."""
        check_name("consumer", name)
        self._dialect = dialect
        self._name = name
        mark = dialect.mark
        self._table = dialect.quoted(TABLE)
        self._where = " and ".join(f"{each} = {mark}" for each in _WHERE)

    def create(self, cursor: Cursor) -> None:
        """If it is missing. Who may write rows need not be allowed to create tables."""
        if self._dialect.columns(cursor, TABLE):
            return
        name, _ = self._dialect.progress_types
        self._dialect.create_own_table(
            cursor,
            TABLE,
            f"name {name} not null, topic {name} not null, partition_id integer not null, "
            "next_offset bigint not null, topic_id varchar(64) not null, epoch bigint not null, "
            "schema_version integer not null, primary key (name, topic, partition_id)",
        )

    def take(self, cursor: Cursor, of: TopicPartition) -> Stored:
        """Lock a partition and give it a new epoch: whoever had it before can store nothing more.

        Waits for a transaction of the earlier owner. Raises OffsetsError.
        """
        values = (self._name, *of, _NONE, "", 0, SCHEMA_VERSION)
        self._dialect.insert_unless_there(cursor, TABLE, _COLUMNS, values)
        stored = self.locked(cursor, of)
        taken = Stored(stored.next_offset, stored.topic_id, stored.epoch + 1)
        self.store(cursor, of, taken)
        return taken

    def locked(self, cursor: Cursor, of: TopicPartition) -> Stored:
        """Raises OffsetsError for a row of another version, and for one that somebody deleted."""
        cursor.execute(
            f"select next_offset, topic_id, epoch, schema_version from {self._table} where {self._where}"
            f"{self._dialect.lock}",
            (self._name, *of),
        )
        row = cursor.fetchone()
        if row is None:
            raise OffsetsError(f"consumer {self._name}: the row of {partition_name(*of)} in {TABLE} was deleted")
        if row[3] != SCHEMA_VERSION:
            raise OffsetsError(
                f"consumer {self._name}: the row of {partition_name(*of)} in {TABLE} has schema version {row[3]}, and "
                f"this Highwater writes {SCHEMA_VERSION}: use the Highwater that wrote it, or another name"
            )
        return Stored(None if row[0] == _NONE else row[0], row[1], row[2])

    def store(self, cursor: Cursor, of: TopicPartition, stored: Stored) -> None:
        mark = self._dialect.mark
        cursor.execute(
            f"update {self._table} set next_offset = {mark}, topic_id = {mark}, epoch = {mark} where {self._where}",
            (
                _NONE if stored.next_offset is None else stored.next_offset,
                stored.topic_id,
                stored.epoch,
                self._name,
                *of,
            ),
        )
