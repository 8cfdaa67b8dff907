"""Decodes what Fetch returns of one partition into an Arrow record batch, column by column. Pure.

All batches of a fetch are decoded at once, because a NumPy call costs as much as some hundred records: fetch 1 to
4 MiB. Keys and values are copied once, by Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from highwater.pipeline.kafka.batches import Partition, check_crcs, committed, read_batches
from highwater.pipeline.kafka.columns import DEFAULT_COLUMNS, need_records, schema_of
from highwater.pipeline.kafka.records import MalformedRecords
from highwater.pipeline.kafka.rows import Rows, array_of, rows_of_headers, rows_of_records
from highwater.pipeline.kafka.unpack import Unpacked, unpack

_OFFSET_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the records of one partition in one answer to Fetch held."""

    rows: Any
    """A pyarrow.RecordBatch with the columns that were asked for, in order of offset."""
    next_offset: int
    """Where to fetch next: after the last batch, although its last records may be gone (compaction), hidden (aborted
    transactions) or not for readers (control batches); at most `end_offset`. It is `start_offset` if the bytes hold no
    whole batch from there on."""
    batch_bytes: int
    """The size in the log of the batches that were read."""


def decode(
    data: bytes | bytearray | memoryview,
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> Decoded:
    """Decode the records with `start_offset` <= offset < `end_offset`.

    `data` are the records of the partition in one answer to Fetch; a batch that is cut off at the end is left out.
    `aborted` is the answer's list of aborted transactions, (producer id, first offset); None reads their records too.
    `columns` are names of `pipeline.kafka.columns`. Where they are in the headers of the batches, and offsets have no
    gaps, no record is unpacked.

    Raises RecordsError, which names topic, partition and offset: for damage (a wrong CRC, a record that does not fit)
    and for the message formats from before Kafka 0.11.
    """
    of = Partition(topic, partition)
    view = memoryview(data)
    batches = read_batches(view, of)
    wanted = batches.last_offset >= start_offset
    begins_behind = False
    if end_offset is not None:
        # Compaction can have removed all that was between the last wanted batch and this one.
        begins_behind = bool((batches.base_offset >= end_offset).any())
        wanted &= batches.base_offset < end_offset
    batches = batches.where(wanted)
    check_crcs(view, batches, of)
    next_offset = int(batches.last_offset[-1]) + 1 if len(batches) else start_offset
    if begins_behind and end_offset is not None:
        next_offset = end_offset
    read = batches

    visible = ~batches.is_control & (batches.record_count > 0)
    if aborted:
        visible &= committed(view, batches, aborted, of)
    batches = batches.where(visible)
    limits = range(start_offset, _OFFSET_MAX if end_offset is None else end_offset)
    if batches.are_dense and not need_records(columns):
        table = _table(rows_of_headers(topic, partition, batches, limits), columns)
    else:
        unpacked = unpack(view, batches, of)
        if len(unpacked.batches) < len(batches):
            next_offset = int(batches.base_offset[len(unpacked.batches)])
        table = _table_of_records(unpacked, of, limits, columns)
    batch_bytes = int(read.size_bytes[read.base_offset < next_offset].sum())
    return Decoded(table, min(next_offset, limits.stop), batch_bytes)


def _table_of_records(unpacked: Unpacked, of: Partition, limits: range, columns: Sequence[str]) -> Any:
    try:
        return _table(rows_of_records(of.topic, of.partition, unpacked, limits), columns)
    except MalformedRecords:
        # To name the batch, each is read again by itself.
        for index, offset in enumerate(unpacked.batches.base_offset.tolist()):
            try:
                _table(rows_of_records(of.topic, of.partition, unpacked.only(index), limits), columns)
            except MalformedRecords as error:
                of.refuse(offset, f"the records of a batch are damaged: {error}")
        raise


def _table(rows: Rows, columns: Sequence[str]) -> Any:
    return pa.RecordBatch.from_arrays([array_of(name, rows) for name in columns], schema=schema_of(columns))
