"""Checks the batches that a follower receives, and cuts them into runs of one write each."""

from __future__ import annotations

from typing import NamedTuple

from highwater.kafka.records.batch import BatchHeader, CorruptBatch, crc_is_valid, headers


class Run(NamedTuple):
    """Neighbouring batches: their bytes and their headers."""

    records: memoryview
    headers: list[BatchHeader]


def runs_of_batches(records: memoryview, next_offset: int, log_end_offset: int, max_run_bytes: int) -> list[Run]:
    """All whole batches of `records`. A run has at most `max_run_bytes`, or one batch.

    Raises CorruptBatch if a batch is damaged, if its base offset is below the end of the batch before it (`next_offset`
    for the first batch), and if no batch has offsets from `log_end_offset` on.
    """
    runs: list[Run] = []
    start = end = 0
    run: list[BatchHeader] = []
    for position, header in headers(records):
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptBatch(
                f"the batch of the offsets {header.base_offset} to {header.last_offset} comes where "
                f"{next_offset} is next"
            )
        if not crc_is_valid(records, position, header):
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} does not match")
        next_offset = header.next_offset
        if run and end - start + header.size_bytes > max_run_bytes:
            runs.append(Run(records[start:end], run))
            start, run = end, []
        run.append(header)
        end += header.size_bytes
    if not run or next_offset <= log_end_offset:
        raise CorruptBatch(f"{len(records)} bytes have no batch that comes after offset {log_end_offset}")
    runs.append(Run(records[start:end], run))
    return runs
