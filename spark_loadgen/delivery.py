"""Checks that every record was delivered once and in order, over all records and not a sample.

A consumer keeps one mark per record of each worker, and the highest sequence seen per (worker, partition). Lost and
duplicated records are counted over all partitions. Kafka guarantees order within a partition, and each worker sends its
records in the order of their sequences, so within (worker, partition) sequences must rise, whatever the partitioner.
Each consumer group reads everything, so each group is checked on its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.stamp import STAMP_BYTES, decode_stamps

# A closed loop has no totals: a sequence from this number on counts as corrupt.
_SEQUENCES_MAX: Final = 1 << 36
_ROOM_AT_FIRST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """The counts of one consumer. seen: for each worker its marks, packed to bits and compressed."""

    received: int
    duplicated: int
    reordered: int
    corrupt: int
    seen: list[bytes]


def read_stamps(
    values: Sequence[bytes | None], magic: int, totals: NDArray[np.int64]
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """The stamps of values, and a mask of those that are records of this run. totals[w]: most records of worker w."""
    joined = b"".join([value[:STAMP_BYTES] if value else b"" for value in values])
    if len(joined) != STAMP_BYTES * len(values):
        blank = bytes(STAMP_BYTES)
        joined = b"".join([v[:STAMP_BYTES] if v is not None and len(v) >= STAMP_BYTES else blank for v in values])
    stamps = decode_stamps(joined)
    workers = stamps["worker"].astype(np.int64)
    sequences = stamps["sequence"].astype(np.int64)
    in_run = (stamps["magic"] == magic) & (workers < len(totals)) & (sequences >= 0)
    in_run[in_run] = sequences[in_run] < totals[workers[in_run]]
    return stamps, in_run


class ReceivedRecords:
    """Checks the records that one consumer reads: fast when all are new and in order, exact otherwise."""

    def __init__(self, magic: int, workers: int, totals: Sequence[int] | None = None, *, marking: bool = True) -> None:
        """totals[w]: how many records worker w has in its schedule; None = no schedule (a closed loop).

        marking: False = only count what was received.
        """
        self._magic = magic
        self._workers = workers
        self._totals = np.full(workers, _SEQUENCES_MAX) if totals is None else np.array(totals, dtype=np.int64)
        # Marks of all workers interleaved: workers send at the same pace, so one array stays compact.
        self._seen = np.zeros(_ROOM_AT_FIRST, dtype=bool)
        self._marking = marking
        self._highest: dict[int, int] = {}
        self._received = self._duplicated = self._reordered = self._corrupt = 0

    def check(
        self, values: Sequence[bytes | None], partitions: Sequence[int]
    ) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """Check records in the order received. Returns their stamps and a mask of the records of this run."""
        stamps, in_run = read_stamps(values, self._magic, self._totals)
        valid = int(np.count_nonzero(in_run))
        self._received += valid
        self._corrupt += len(values) - valid
        if self._marking and valid:
            workers = stamps["worker"][in_run].astype(np.int64)
            sequences = stamps["sequence"][in_run].astype(np.int64)
            self._judge(workers, sequences, np.asarray(partitions, dtype=np.int64)[in_run])
        return stamps, in_run

    def _judge(self, workers: NDArray[np.int64], sequences: NDArray[np.int64], partitions: NDArray[np.int64]) -> None:
        marks = sequences * self._workers + workers
        self._make_room(int(marks.max()) + 1)
        streams = (partitions << 32) | workers
        if not self._all_new_and_rising(marks, streams, sequences):
            self._judge_one_by_one(marks.tolist(), streams.tolist(), sequences.tolist())

    def _make_room(self, marks: int) -> None:
        if marks > len(self._seen):
            seen = np.zeros(max(marks, 2 * len(self._seen)), dtype=bool)
            seen[: len(self._seen)] = self._seen
            self._seen = seen

    def _all_new_and_rising(
        self, marks: NDArray[np.int64], streams: NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> bool:
        """The common case, without a loop over records. Changes no state when it returns False."""
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
        """bad_bodies: number of records with a valid stamp whose body or key differs from what was sent."""
        per_worker = [self._seen[worker :: self._workers] for worker in range(self._workers)]
        return ReceivedReport(
            received=self._received,
            duplicated=self._duplicated,
            reordered=self._reordered,
            corrupt=self._corrupt + bad_bodies,
            seen=[zlib.compress(np.packbits(marks).tobytes(), 1) for marks in per_worker],
        )


@dataclass(frozen=True, slots=True)
class GroupDelivery:
    """The counts of one consumer group; each group must receive everything. Fields as in Delivery."""

    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupt: int
    unread: int
    aborted_received: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Counts over every record of the load, warm-up included. Counts of consumers are sums over their groups.

    acked: with acks=0, written to the socket. failed: the client reported an error, or the drain ended first.
    lost: acknowledged, not received; 0 unless there were consumers and they checked. duplicated: received again.
    reordered: received after a later record of its worker and partition. corrupt: changed, or no record of this run.
    unread: still in the log when a consumer's drain ended (these records count as lost, too).
    aborted: acknowledged in a transaction that was then aborted. aborted_received: aborted records that a consumer of
    committed records received. checked: False when consumers only counted.
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
    aborted: int = 0
    aborted_received: int = 0
    groups: list[GroupDelivery] = field(default_factory=list)
    checked: bool = True

    @property
    def duplicated_in_log(self) -> int:
        """Records that are twice in the log: every group receives these, so this is a maximum and not a sum."""
        return max((group.duplicated for group in self.groups), default=0)


@dataclass(frozen=True, slots=True)
class Sent:
    """The records of one producer: sequences 0 to count − 1, and those of them that failed or were aborted."""

    count: int
    failed: Sequence[int] = ()
    aborted: Sequence[int] | NDArray[np.int64] = ()


def merge_delivery(
    producers: Sequence[Sent],
    acked: int,
    groups: Sequence[Sequence[ReceivedReport]],
    unread: Sequence[int | None],
    *,
    committed_only: bool = True,
    checked: bool = True,
) -> Delivery:
    """Compare what producers sent with what the consumers of each group received.

    unread[g]: records that group g left in the log; None when unknown, then all its lost records count as unread.
    committed_only: consumers must not receive aborted records.
    """
    judged = [
        _group_delivery(producers, reports, left, committed_only=committed_only, checked=checked)
        for reports, left in zip(groups, unread, strict=True)
    ]
    return Delivery(
        sent=sum(producer.count for producer in producers),
        acked=acked,
        failed=sum(len(producer.failed) for producer in producers),
        received=sum(group.received for group in judged),
        lost=sum(group.lost for group in judged),
        duplicated=sum(group.duplicated for group in judged),
        reordered=sum(group.reordered for group in judged),
        corrupt=sum(group.corrupt for group in judged),
        unread=sum(group.unread for group in judged),
        aborted=sum(len(producer.aborted) for producer in producers),
        aborted_received=sum(group.aborted_received for group in judged),
        groups=judged,
        checked=checked,
    )


def _group_delivery(
    producers: Sequence[Sent],
    reports: Sequence[ReceivedReport],
    unread: int | None,
    *,
    committed_only: bool,
    checked: bool,
) -> GroupDelivery:
    lost = duplicated_between = aborted_received = 0
    for worker, sent in enumerate(producers if checked else ()):
        times_seen = np.zeros(sent.count, dtype=np.int64)
        for report in reports:
            packed = np.frombuffer(zlib.decompress(report.seen[worker]), dtype=np.uint8)
            marks = np.unpackbits(packed)[: sent.count]
            times_seen[: len(marks)] += marks
        duplicated_between += int(np.maximum(times_seen - 1, 0).sum())
        expected = np.ones(sent.count, dtype=bool)
        expected[np.asarray(sent.failed, dtype=np.int64)] = False
        aborted = np.asarray(sent.aborted, dtype=np.int64)
        if committed_only:
            expected[aborted] = False
            aborted_received += int(np.count_nonzero(times_seen[aborted]))
        lost += int(np.count_nonzero(expected & (times_seen == 0)))
    return GroupDelivery(
        received=sum(report.received for report in reports),
        lost=lost,
        duplicated=sum(report.duplicated for report in reports) + duplicated_between,
        reordered=sum(report.reordered for report in reports),
        corrupt=sum(report.corrupt for report in reports),
        unread=lost if unread is None else unread,
        aborted_received=aborted_received,
    )
