"""The columns that records can be read as: names, Arrow types, and what each column is made from.

The names and types of the first eight are those of Spark's Kafka connector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError


class Needs(IntEnum):
    """What has to be read for a column; each includes those before it."""

    HEADER = 0
    """The header of the batch, for batches without gaps in their offsets."""
    RECORD = 1
    """Every record."""


class Field(NamedTuple):
    name: str
    type: Any
    needs: Needs
    meaning: str


_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMNS: Final = {
    column.name: column
    for column in (
        Field("key", pa.binary(), Needs.RECORD, "the record's key; null if it has none"),
        Field("value", pa.binary(), Needs.RECORD, "the record's value; null for a tombstone"),
        Field("topic", pa.string(), Needs.HEADER, "the name of the topic"),
        Field("partition", pa.int32(), Needs.HEADER, "the number of the partition"),
        Field("offset", pa.int64(), Needs.HEADER, "the record's offset"),
        Field(
            "timestamp",
            pa.timestamp("us", tz="UTC"),
            Needs.RECORD,
            "when it was created or appended, see next; null beyond 292,000 years",
        ),
        Field("timestampType", pa.int32(), Needs.HEADER, "0: the producer's time; 1: the broker's, when it appended"),
        Field("headers", _HEADERS_TYPE, Needs.RECORD, "the record's headers; null if it has none"),
        Field("keyBytes", pa.int32(), Needs.RECORD, "the size of the key; null if there is no key"),
        Field("valueBytes", pa.int32(), Needs.RECORD, "the size of the value; null if there is no value"),
        Field("keyHash", pa.int32(), Needs.RECORD, "murmur2 of the key, as Kafka's partitioner computes it"),
        Field("batchBytes", pa.int32(), Needs.HEADER, "the size of the record's batch in the log, compressed"),
        Field("codec", pa.string(), Needs.HEADER, "the compression of the batch: none, gzip, snappy, lz4, zstd"),
        Field("producerId", pa.int64(), Needs.HEADER, "the producer's id; null if it is not idempotent"),
        Field("leaderEpoch", pa.int32(), Needs.HEADER, "the leader epoch in which the batch was appended"),
    )
}

DEFAULT_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What Spark's Kafka connector returns without includeHeaders, in its order."""


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return `names`. Raises SettingsError for a name that is unknown or given twice, and for no name at all."""
    if not names:
        raise SettingsError(f"columns: name at least one of {', '.join(COLUMNS)}")
    for name in names:
        if name not in COLUMNS:
            raise SettingsError(f"columns: {name} is unknown{did_you_mean(name, COLUMNS)}")
        if names.count(name) > 1:
            raise SettingsError(f"columns: {name} is there twice")
    return tuple(names)


def schema_of(names: Iterable[str]) -> Any:
    """The Arrow schema of rows with these columns, in this order."""
    return pa.schema([(name, COLUMNS[name].type) for name in names])


def need_records(names: Iterable[str]) -> bool:
    """Whether records have to be unpacked for these columns even where batches have no gaps."""
    return any(COLUMNS[name].needs is Needs.RECORD for name in names)
