"""The last value of each key of a partition of an internal topic, with transactions applied.

Records are taken in log order.

    a record outside of transactions         becomes the key's last record; earlier undecided records are dropped
    a record of a transaction                is undecided until the transaction's marker
    a commit marker                          applies the producer's undecided records, each at its own offset
    an abort marker                          drops the producer's undecided records

Of two records of a key the one with the higher offset wins, no matter when their transactions end.
(Apache Kafka 4's OffsetMetadataManager. In Kafka 3.9 a tombstone does not drop undecided records, so that a deleted
offset comes back after a restart.)
"""

from __future__ import annotations

from highwater.kafka.records.batch import BatchHeader, CorruptBatch
from highwater.kafka.records.record import Record, decode_batch, read_end_marker


class SettledRecords:
    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}
        """The last value of every key, in the order of the records."""
        self.undecided: dict[int, dict[bytes, Record]] = {}
        """The records of the open transaction of each producer id."""

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """Raises CorruptBatch."""
        if header.is_control:
            marker = read_end_marker(batch, header)
            if marker is not None:
                ended = self.undecided.pop(header.producer_id, {})
                for record in ended.values() if marker.is_commit else ():
                    self._settle(record)
            return
        for record in decode_batch(batch, header):
            if record.key is None:
                raise CorruptBatch(f"the record at offset {record.offset} has no key")
            if header.is_transactional:
                self.undecided.setdefault(header.producer_id, {})[record.key] = record
            else:
                self._settle(record)

    def _settle(self, record: Record) -> None:
        key = record.key
        assert key is not None
        self.latest.pop(key, None)
        if record.value is not None:
            self.latest[key] = record.value
        for records in self.undecided.values():
            if key in records and records[key].offset < record.offset:
                del records[key]
