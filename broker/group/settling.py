"""What the records of one partition of `__consumer_offsets` come to, taken in the order of the log.

    a record outside of transactions         it is the key's last one; undecided ones before it are void
    a record of a transaction                undecided until the transaction's marker
    a commit marker                          the producer's undecided records count, each at its own place
    an abort marker                          the producer's undecided records are void

A record of a transaction that began before another one of the same key stands before it, whenever it is decided.
(Apache Kafka, GroupMetadataManager.doLoadGroupsAndOffsets; there a tombstone leaves undecided ones alone, so an offset
that was deleted comes back with the next start.)
"""

from __future__ import annotations

from highwater.broker.records.batch import BatchHeader, CorruptBatch
from highwater.broker.records.record import Record, decode_batch, read_end_marker


class SettledRecords:
    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}
        """The last value of every key."""
        self.undecided: dict[int, dict[bytes, Record]] = {}
        """By producer id, what its open transaction would change."""

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
