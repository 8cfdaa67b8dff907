"""What changes of a group's membership cost, read off the members' records. Pure: records in, figures out.

A change is judged from its moment until the next one, or the end of the measured phase. A partition is read again when
the member that holds it at the end of that time has received a record of it; one that no change took from its member
is read all the time. How far the group is behind is held against what producers had acknowledged, second by second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from highwater.results.rebalance import ChangeKind, MembershipChange

Partition = tuple[str, int]
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Read:
    """Records of one partition that a member received at once: `count` offsets, `first` to `last`."""

    at_ns: int
    member: int
    partition: Partition
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Owned:
    """Partitions that a member was given, or that were taken from it."""

    at_ns: int
    member: int
    partitions: tuple[Partition, ...]
    given: bool


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change as it happened. All instants are CLOCK_MONOTONIC of the host with the members."""

    do: ChangeKind
    member: int
    at_ns: int


@dataclass(slots=True)
class _Progress:
    """One read, with what of it the group had not read before, and what it left out."""

    read: Read
    new: int
    skipped: int


@dataclass(slots=True)
class Counted:
    """The reads of a group in order of time, each offset counted once."""

    reads: list[_Progress] = field(default_factory=list)
    received: int = 0
    skipped: int = 0

    @classmethod
    def of(cls, reads: Iterable[Read]) -> Counted:
        found, next_offsets = cls(), dict[Partition, int]()
        for read in sorted(reads, key=lambda read: read.at_ns):
            due = next_offsets.get(read.partition, read.first)
            skipped = max(0, read.first - due) + (read.last - read.first + 1 - read.count)
            new = min(read.count, max(0, read.last + 1 - due))
            next_offsets[read.partition] = max(due, read.last + 1)
            found.reads.append(_Progress(read, new, skipped))
            found.received += read.count
            found.skipped += skipped
        return found


def membership_changes(
    marks: Sequence[ChangeMark],
    counted: Counted,
    owned: Iterable[Owned],
    partitions: Sequence[Partition],
    acked: Sequence[int],
    t0_ns: int,
    end_ns: int,
) -> list[MembershipChange]:
    """marks: in order of time, at least one. acked: by whole second since T0. end_ns: of the measured phase."""
    events = sorted(owned, key=lambda event: event.at_ns)
    received = _by_second(counted.reads, t0_ns, len(acked))
    spans = pairwise([*(mark.at_ns for mark in marks), end_ns])
    return [
        _change(mark, until_ns, counted.reads, events, partitions, acked, received, t0_ns)
        for mark, (_, until_ns) in zip(marks, spans, strict=True)
    ]


def _change(
    mark: ChangeMark,
    until_ns: int,
    reads: Sequence[_Progress],
    events: Sequence[Owned],
    partitions: Sequence[Partition],
    acked: Sequence[int],
    received: Sequence[int],
    t0_ns: int,
) -> MembershipChange:
    judged = [progress for progress in reads if mark.at_ns <= progress.read.at_ns < until_ns]
    seconds = range((mark.at_ns - t0_ns) // _SECOND_NS, min(len(acked), (until_ns - t0_ns) // _SECOND_NS))
    return MembershipChange(
        do=mark.do,
        member=mark.member,
        at_s=_seconds(mark.at_ns - t0_ns),
        judged_until_s=_seconds(until_ns - t0_ns),
        all_read_s=_all_read_s(mark, until_ns, judged, events, partitions),
        longest_pause_s=_longest_pause_s(mark.at_ns, until_ns, reads, partitions),
        behind_records=max([0, *(sum(acked[: second + 1]) - sum(received[: second + 1]) for second in seconds)]),
        lowest_ratio=min(
            (round(received[second] / acked[second], 4) for second in seconds if acked[second]), default=0.0
        ),
        duplicated=sum(progress.read.count - progress.new for progress in judged),
        assigned=sum(len(event.partitions) for event in events if event.given and mark.at_ns <= event.at_ns < until_ns),
    )


def _all_read_s(
    mark: ChangeMark,
    until_ns: int,
    judged: Sequence[_Progress],
    events: Sequence[Owned],
    partitions: Sequence[Partition],
) -> float | None:
    owners = dict[Partition, tuple[int, int]]()  # the member, and since when
    for event in events:
        if event.at_ns >= until_ns:
            break
        for partition in event.partitions:
            if event.given:
                owners[partition] = event.member, event.at_ns
            elif partition in owners and owners[partition][0] == event.member:
                del owners[partition]  # what a member learns late of a partition that has a new owner changes nothing
    latest_ns = mark.at_ns
    for partition in partitions:
        if partition not in owners:
            return None
        member, since_ns = owners[partition]
        if since_ns < mark.at_ns:
            if member == mark.member:  # it is gone, and nobody got what it had
                return None
            continue
        first_ns = min(
            (
                progress.read.at_ns
                for progress in judged
                if progress.read.partition == partition
                and progress.read.member == member
                and progress.read.at_ns >= since_ns
            ),
            default=None,
        )
        if first_ns is None:
            return None
        latest_ns = max(latest_ns, first_ns)
    return _seconds(latest_ns - mark.at_ns)


def _longest_pause_s(from_ns: int, until_ns: int, reads: Sequence[_Progress], partitions: Sequence[Partition]) -> float:
    """Pauses that end or begin in this time; one that began before is whole, one that goes on counts until its end."""
    last_ns = dict.fromkeys(partitions, from_ns)
    longest_ns = 0
    for progress in reads:
        at_ns, partition = progress.read.at_ns, progress.read.partition
        if at_ns >= until_ns:
            break
        if not progress.new:
            continue
        if at_ns >= from_ns:
            longest_ns = max(longest_ns, at_ns - last_ns.get(partition, from_ns))
        last_ns[partition] = at_ns
    return _seconds(max(longest_ns, *(until_ns - at_ns for at_ns in last_ns.values())))


def _by_second(reads: Sequence[_Progress], t0_ns: int, seconds: int) -> list[int]:
    """Records that the group had not read before, by whole second since T0; one before T0 counts for the first."""
    found = [0] * seconds
    for progress in reads:
        if (second := max(0, (progress.read.at_ns - t0_ns) // _SECOND_NS)) < seconds:
            found[second] += progress.new
    return found


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 3)
