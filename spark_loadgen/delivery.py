"""Was every record delivered, once, in order? Judged over all records, by sequence and not by sample.

A consumer keeps one mark per record of each worker and the highest sequence seen per (worker, partition). Loss and
duplicates are properties of the whole; order is promised by Kafka within a partition, and each worker sends its records
in the order of their sequence, so within (worker, partition) sequences must rise whatever partitioner is used.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_loadgen.stamp import STAMP_BYTES, decode_stamps


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """What one consumer saw. `seen` holds packed marks per worker, compressed."""

    received: int
    duplicated: int
    reordered: int
    corrupt: int
    seen: list[bytes]


class ReceivedRecords:
    """Checks the records that one consumer reads; cheap when all is well, exact when it is not."""

    def __init__(self, magic: int, totals: Sequence[int]) -> None:
        """`totals[w]` = how many records worker w has in its schedule."""
        self._magic = magic
        self._totals = np.array(totals, dtype=np.int64)
        self._starts = np.concatenate(([0], np.cumsum(self._totals)))
        self._seen = np.zeros(int(self._starts[-1]), dtype=bool)
        self._highest: dict[int, int] = {}
        self._received = self._duplicated = self._reordered = self._corrupt = 0

    def check(
        self, values: Sequence[bytes | None], partitions: Sequence[int]
    ) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """Judge records in the order received. Returns their stamps and which of them are records of this run."""
        joined = b"".join([value[:STAMP_BYTES] if value else b"" for value in values])
        if len(joined) != STAMP_BYTES * len(values):
            blank = bytes(STAMP_BYTES)
            joined = b"".join([v[:STAMP_BYTES] if v is not None and len(v) >= STAMP_BYTES else blank for v in values])
        stamps = decode_stamps(joined)
        workers = stamps["worker"].astype(np.int64)
        sequences = stamps["sequence"].astype(np.int64)
        ours = (stamps["magic"] == self._magic) & (workers < len(self._totals)) & (sequences >= 0)
        ours[ours] = sequences[ours] < self._totals[workers[ours]]
        self._corrupt += len(values) - int(np.count_nonzero(ours))
        self._judge(workers[ours], sequences[ours], np.asarray(partitions, dtype=np.int64)[ours])
        return stamps, ours

    def _judge(self, workers: NDArray[np.int64], sequences: NDArray[np.int64], partitions: NDArray[np.int64]) -> None:
        self._received += len(workers)
        marks = self._starts[workers] + sequences
        streams = (partitions << 32) | workers
        if not self._all_new_and_rising(marks, streams, sequences):
            self._judge_one_by_one(marks.tolist(), streams.tolist(), sequences.tolist())

    def _all_new_and_rising(
        self, marks: NDArray[np.int64], streams: NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> bool:
        """The common case, without a loop over records. Changes nothing when it says no."""
        if self._seen[marks].any() or len(np.unique(marks)) != len(marks):
            return False
        order = np.argsort(streams, kind="stable")
        streams, sequences = streams[order], sequences[order]
        first_of_stream = np.flatnonzero(np.diff(streams, prepend=-1))
        rises = np.diff(sequences, prepend=-1) > 0
        names = streams[first_of_stream].tolist()
        rises[first_of_stream] = [
            sequence > self._highest.get(name, -1)
            for name, sequence in zip(names, sequences[first_of_stream].tolist(), strict=True)
        ]
        if not rises.all():
            return False
        last_of_stream = np.append(first_of_stream[1:], len(streams)) - 1
        self._highest.update(zip(names, sequences[last_of_stream].tolist(), strict=True))
        self._seen[marks] = True
        return True

    def _judge_one_by_one(self, marks: list[int], streams: list[int], sequences: list[int]) -> None:
        for mark, stream, sequence in zip(marks, streams, sequences, strict=True):
            if self._seen[mark]:
                self._duplicated += 1
                continue
            self._seen[mark] = True
            highest = self._highest.get(stream, -1)
            if sequence < highest:
                self._reordered += 1
            else:
                self._highest[stream] = sequence

    def report(self, bad_bodies: int) -> ReceivedReport:
        """`bad_bodies`: records with a sound stamp whose body was found changed."""
        per_worker = np.split(self._seen, self._starts[1:-1])
        return ReceivedReport(
            received=self._received,
            duplicated=self._duplicated,
            reordered=self._reordered,
            corrupt=self._corrupt + bad_bodies,
            seen=[zlib.compress(np.packbits(marks).tobytes(), 1) for marks in per_worker],
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """Fate of every record of the trial, warm-up included.

    acked: with acks=0 this means handed to the socket. failed: the client reported an error, or the record was given up
    when the drain ended. lost: acknowledged, not received; only known when there were consumers, else 0. duplicated:
    received once more than needed. reordered: received after a later record of its worker and partition. corrupt: no
    record of this run. unread: still in the log when a consumer's drain time was up (such records count as lost too).
    """

    sent: int
    acked: int
    failed: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupt: int
    unread: int


def merge_delivery(
    sent: Sequence[int],
    acked: int,
    failed_sequences: Sequence[Sequence[int]],
    reports: Sequence[ReceivedReport],
    unread: int,
) -> Delivery:
    """Bring together what producers sent (`sent[w]`, `failed_sequences[w]`) and what consumers saw."""
    lost = duplicated_between = 0
    for worker, count in enumerate(sent if reports else ()):
        times_seen = np.zeros(count, dtype=np.int64)
        for report in reports:
            marks = np.unpackbits(np.frombuffer(zlib.decompress(report.seen[worker]), dtype=np.uint8))
            times_seen += marks[:count]
        duplicated_between += int(np.maximum(times_seen - 1, 0).sum())
        missing = times_seen == 0
        missing[np.array(failed_sequences[worker], dtype=np.int64)] = False
        lost += int(np.count_nonzero(missing))
    return Delivery(
        sent=sum(sent),
        acked=acked,
        failed=sum(len(failed) for failed in failed_sequences),
        received=sum(report.received for report in reports),
        lost=lost,
        duplicated=sum(report.duplicated for report in reports) + duplicated_between,
        reordered=sum(report.reordered for report in reports),
        corrupt=sum(report.corrupt for report in reports),
        unread=unread,
    )
