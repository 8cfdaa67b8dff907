"""What a change of a group's members cost, from records that are written down here: times in tenths of a second."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.bench.trials.rebalances import ChangeMark, Counted, Owned, Read, membership_changes
from highwater.results.rebalance import ChangeKind, MembershipChange

TENTH_NS = 100_000_000
PARTITIONS = (("t", 0), ("t", 1))


def steady(member: int, partition: int, tenths: range, first: int = 0) -> list[Read]:
    """One record each tenth of a second."""
    return [
        Read(at * TENTH_NS, member, ("t", partition), first + number, first + number, 1)
        for number, at in enumerate(tenths)
    ]


def given(member: int, at: int, *partitions: int) -> Owned:
    return Owned(at * TENTH_NS, member, tuple(("t", partition) for partition in partitions), given=True)


def taken(member: int, at: int, *partitions: int) -> Owned:
    return Owned(at * TENTH_NS, member, tuple(("t", partition) for partition in partitions), given=False)


def judged(do: ChangeKind, member: int, reads: Sequence[Read], owned: Sequence[Owned]) -> MembershipChange:
    """A change after 4 s of a measured phase of 10 s, in which 20 records a second are acknowledged."""
    (found,) = membership_changes(
        [ChangeMark(do, member, 40 * TENTH_NS)],
        Counted.of(reads),
        owned,
        PARTITIONS,
        acked=[20] * 10,
        t0_ns=0,
        end_ns=100 * TENTH_NS,
    )
    return found


def test_a_member_joins_and_takes_one_of_two_partitions() -> None:
    reads = [
        *steady(1, 0, range(100)),
        *steady(1, 1, range(50)),
        # Where member 1 stopped, after a second and a half; all that waited comes at once.
        Read(65 * TENTH_NS, 2, ("t", 1), 50, 65, 16),
        *steady(2, 1, range(66, 100), 66),
    ]
    found = judged("join", 2, reads, [given(1, -10, 0, 1), taken(1, 50, 1), given(2, 60, 1)])
    assert found.all_read_s == 2.5
    assert found.longest_pause_s == 1.6  # from the last record at 4.9 s
    assert found.behind_records == 10
    assert found.lowest_ratio == 0.5
    assert (found.duplicated, found.assigned) == (0, 1)


def test_a_killed_member_was_ahead_of_its_commit() -> None:
    reads = [
        *steady(1, 0, range(100)),
        *steady(2, 1, range(40)),
        Read(80 * TENTH_NS, 1, ("t", 1), 30, 80, 51),
        *steady(1, 1, range(81, 100), 81),
    ]
    found = judged("kill", 2, reads, [given(1, -10, 0), given(2, -10, 1), given(1, 79, 1)])
    assert (found.all_read_s, found.longest_pause_s, found.duplicated) == (4.0, 4.1, 10)


def test_a_partition_that_nobody_reads_again_has_no_time() -> None:
    reads = [*steady(1, 0, range(100)), *steady(2, 1, range(40))]
    owned = [given(1, -10, 0), given(2, -10, 1)]
    assert judged("kill", 2, reads, owned).all_read_s is None
    assert judged("leave", 2, reads, [*owned, taken(2, 40, 1)]).all_read_s is None
    assert judged("leave", 2, reads, [*owned, taken(2, 40, 1), given(1, 90, 1)]).all_read_s is None
    assert judged("kill", 2, reads, owned).longest_pause_s == 6.1


def test_all_members_stop_and_get_back_what_they_had() -> None:
    reads = [
        *(read for read in steady(1, 0, range(100)) if not 42 <= read.at_ns // TENTH_NS < 47),
        *(read for read in steady(1, 1, range(100)) if not 42 <= read.at_ns // TENTH_NS < 50),
    ]
    found = judged("join", 2, reads, [given(1, -10, 0, 1), taken(1, 42, 0, 1), given(1, 46, 0, 1)])
    assert (found.all_read_s, found.assigned) == (1.0, 2)


def test_what_a_member_is_told_late_takes_nothing_from_the_new_owner() -> None:
    reads = [*steady(1, 0, range(100)), *steady(2, 1, range(40)), *steady(1, 1, range(60, 100), 40)]
    owned = [given(1, -10, 0), given(2, -10, 1), given(1, 59, 1), taken(2, 70, 1)]
    assert judged("kill", 2, reads, owned).all_read_s == 2.0


def test_records_that_no_member_received_are_counted() -> None:
    skips = [Read(0, 1, ("t", 0), 0, 4, 5), Read(1, 2, ("t", 0), 7, 9, 3), Read(2, 2, ("t", 0), 10, 14, 4)]
    counted = Counted.of(skips)
    assert (counted.received, counted.skipped) == (12, 3)
