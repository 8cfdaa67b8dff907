"""What a client that reads committed records makes of an answer (Apache Kafka, CompletedFetch.java)."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.kafka.records.batch import headers
from highwater.kafka.records.record import decode_batch, read_end_marker


def visible_to_committed(
    data: bytes, aborted: Iterable[tuple[int, int]], offset: int = 0
) -> tuple[dict[int, bytes | None], int]:
    """Value by offset of the records from `offset` on, and where to read on."""
    to_come = sorted(aborted, key=lambda transaction: transaction[1])
    within: set[int] = set()
    values: dict[int, bytes | None] = {}
    next_offset = offset
    for at, header in headers(data):
        next_offset = header.next_offset
        while to_come and to_come[0][1] <= header.last_offset:
            within.add(to_come.pop(0)[0])
        if header.is_control:
            marker = read_end_marker(data[at:], header)
            if marker is not None and not marker.is_commit:
                within.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in within):
            values |= {record.offset: record.value for record in decode_batch(data[at:], header)}
    return {at: value for at, value in values.items() if at >= offset}, next_offset
