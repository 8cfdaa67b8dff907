"""A plain decoder, a Python object for each record, that the vectorised one is compared with."""

from __future__ import annotations

from typing import Any

from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import decode_batch
from highwater.pipeline.kafka.columns import COLUMNS


def plain_rows(data: bytes, *, topic: str = "t", partition: int = 3) -> list[dict[str, Any]]:
    """A row for each record of the batches that are whole."""
    rows = []
    for position, header in headers(data):
        if header.is_control:
            continue
        for record in decode_batch(memoryview(data)[position:], header):
            rows.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "topic": topic,
                    "partition": partition,
                    "offset": record.offset,
                    "timestamp": record.timestamp_ms * 1000,
                    "timestampType": int(header.timestamp_type),
                    "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                    "keyBytes": None if record.key is None else len(record.key),
                    "valueBytes": None if record.value is None else len(record.value),
                    "keyHash": None if record.key is None else murmur2(record.key),
                    "batchBytes": header.size_bytes,
                    "codec": header.codec.name.lower(),
                    "producerId": None if header.producer_id == -1 else header.producer_id,
                    "leaderEpoch": header.leader_epoch,
                }
            )
            assert rows[-1].keys() == COLUMNS.keys()
    return rows


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """The rows of a pyarrow.RecordBatch, with timestamps in µs."""
    batch.validate(full=True)
    if "timestamp" in batch.schema.names:
        index = batch.schema.get_field_index("timestamp")
        batch = batch.set_column(index, "timestamp", batch.column(index).cast("int64"))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def murmur2(data: bytes) -> int:
    """Utils.murmur2 of Apache Kafka, for one key."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    digest = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        digest = digest * m & mask ^ k
    if rest := data[len(data) // 4 * 4 :]:
        digest = (digest ^ int.from_bytes(rest, "little")) * m & mask
    digest = (digest ^ digest >> 13) * m & mask
    digest ^= digest >> 15
    return digest - (1 << 32) if digest >> 31 else digest
