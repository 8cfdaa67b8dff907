"""Loss, duplicates and disorder are injected; the checker must count exactly what was done."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.spark_loadgen.delivery import (
    Delivery,
    GroupDelivery,
    ReceivedRecords,
    ReceivedReport,
    Sent,
    merge_delivery,
)
from highwater.spark_loadgen.stamp import encode_stamps

MAGIC = 77
Received = tuple[int, int, int]  # worker, sequence, partition


def value_of(worker: int, sequence: int) -> bytes:
    return encode_stamps(worker, MAGIC, sequence, np.array([sequence], dtype=np.int64))[0] + b"body"


def consume(records: list[Received], totals: list[int], batch: int = 500) -> ReceivedReport:
    checker = ReceivedRecords(MAGIC, len(totals), totals)
    for start in range(0, len(records), batch):
        part = records[start : start + batch]
        checker.check([value_of(w, s) for w, s, _ in part], [p for _, _, p in part])
    return checker.report(bad_bodies=0)


def deliver(records: list[Received], sent: list[int], batch: int = 500) -> Delivery:
    reports = [consume(records, sent, batch)]
    return merge_delivery([Sent(count) for count in sent], sum(sent), [reports], [0])


def well_delivered(workers: int = 3, count: int = 1000, partitions: int = 4) -> list[Received]:
    choose = random.Random(1)
    logs: list[list[Received]] = [[] for _ in range(partitions)]
    for sequence in range(count):
        for worker in range(workers):
            partition = choose.randrange(partitions)
            logs[partition].append((worker, sequence, partition))
    received = []
    while any(logs):  # partitions arrive in runs, each in its own order
        log = choose.choice([log for log in logs if log])
        received += [log.pop(0) for _ in range(min(len(log), choose.randrange(1, 80)))]
    return received


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_all_well(batch: int) -> None:
    delivery = deliver(well_delivered(), [1000] * 3, batch)
    group = GroupDelivery(3000, lost=0, duplicated=0, reordered=0, corrupt=0, unread=0, aborted_received=0)
    assert delivery == Delivery(
        3000, 3000, 0, 3000, lost=0, duplicated=0, reordered=0, corrupt=0, unread=0, groups=[group]
    )


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_lost_records_are_counted(batch: int) -> None:
    records = [record for record in well_delivered() if record[1] not in (0, 17, 999)]
    assert deliver(records, [1000] * 3, batch).lost == 9


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_duplicates_are_counted_near_and_far(batch: int) -> None:
    records = well_delivered()
    records = [*records[:10], records[9], *records[10:], records[0], records[0]]
    delivery = deliver(records, [1000] * 3, batch)
    assert (delivery.duplicated, delivery.reordered, delivery.lost) == (3, 0, 0)


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_disorder_is_counted_within_a_partition_only(batch: int) -> None:
    records = [(0, 0, 0), (0, 2, 0), (0, 1, 0), (0, 3, 1), (0, 5, 0), (0, 4, 1), (1, 0, 0)]
    delivery = deliver(records, [6, 1], batch)
    assert (delivery.reordered, delivery.duplicated, delivery.lost) == (1, 0, 0)


def test_a_record_may_overtake_in_another_partition_or_of_another_worker() -> None:
    records = [(0, 5, 0), (1, 0, 0), (0, 4, 1), (0, 3, 2)]
    assert consume(records, [6, 1]).reordered == 0


def test_what_is_not_a_record_of_this_run_is_corrupt() -> None:
    checker = ReceivedRecords(MAGIC, 1, [10])
    (foreign,) = encode_stamps(0, MAGIC + 1, 0, np.array([0], dtype=np.int64))
    beyond = value_of(0, 10)
    nobody = value_of(4, 0)
    stamps, in_run = checker.check([b"short", None, b"", foreign, beyond, nobody, value_of(0, 0)], [0] * 7)
    report = checker.report(bad_bodies=0)
    assert (report.received, report.corrupt) == (1, 6)
    assert in_run.tolist() == [False] * 6 + [True]
    assert len(stamps) == 7


def test_failed_records_are_not_lost_whether_they_arrived_or_not() -> None:
    report = consume([(0, sequence, 0) for sequence in range(8)], [10])
    delivery = merge_delivery([Sent(10, failed=[7, 8, 9])], 7, [[report]], [0])
    assert (delivery.failed, delivery.lost) == (3, 0)


def test_records_that_were_never_sent_are_not_lost() -> None:
    report = consume([(0, sequence, 0) for sequence in range(4)], [10])
    assert merge_delivery([Sent(5)], 5, [[report]], [0]).lost == 1


def test_consumers_together_receive_everything_and_see_each_others_duplicates() -> None:
    totals = [10, 10]
    first = consume([(0, s, 0) for s in range(10)], totals)
    second = consume([(1, s, 1) for s in range(10)] + [(0, 3, 1)], totals)
    delivery = merge_delivery([Sent(10), Sent(10)], 20, [[first, second]], [0])
    assert (delivery.received, delivery.duplicated, delivery.lost) == (21, 1, 0)


def test_without_consumers_nothing_is_said_to_be_lost() -> None:
    delivery = merge_delivery([Sent(10)], 10, [], [])
    assert (delivery.sent, delivery.received, delivery.lost) == (10, 0, 0)


def test_each_group_is_to_get_everything() -> None:
    whole = consume([(0, sequence, 0) for sequence in range(10)], [10])
    part = consume([(0, sequence, 0) for sequence in [*range(8), 3]], [10])
    delivery = merge_delivery([Sent(10)], 10, [[whole], [part]], [0, 0])
    assert [group.lost for group in delivery.groups] == [0, 2]
    assert (delivery.received, delivery.lost, delivery.duplicated, delivery.duplicated_in_log) == (19, 2, 1, 1)
    both_twice = merge_delivery([Sent(10)], 10, [[part], [part]], [0, 0])
    assert (both_twice.duplicated, both_twice.duplicated_in_log) == (2, 1)


def test_aborted_records_are_not_lost_and_must_not_be_received() -> None:
    report = consume([(0, sequence, 0) for sequence in (0, 1, 2, 4)], [10])
    sent = Sent(6, aborted=[2, 3, 5])
    delivery = merge_delivery([sent], 6, [[report]], [0])
    assert (delivery.aborted, delivery.aborted_received, delivery.lost) == (3, 1, 0)
    uncommitted = merge_delivery([sent], 6, [[report]], [0], committed_only=False)
    assert (uncommitted.aborted_received, uncommitted.lost) == (0, 2)


def test_what_is_left_in_a_log_that_nobody_could_ask_for_is_at_most_what_is_missing() -> None:
    report = consume([(0, sequence, 0) for sequence in range(7)], [10])
    delivery = merge_delivery([Sent(10)], 10, [[report]], [None])
    assert (delivery.lost, delivery.unread) == (3, 3)


def test_a_closed_loop_has_no_totals_and_room_grows_with_what_comes() -> None:
    checker = ReceivedRecords(MAGIC, 2)
    far = 1_000_000
    checker.check([value_of(0, 0), value_of(1, far), value_of(2, 0)], [0, 0, 0])
    checker.check([value_of(1, far), value_of(1, far - 1)], [0, 0])
    report = checker.report(bad_bodies=0)
    assert (report.received, report.corrupt, report.duplicated, report.reordered) == (4, 1, 1, 1)
    delivery = merge_delivery([Sent(1), Sent(far + 1)], far + 2, [[report]], [0])
    assert delivery.lost == far - 1


def test_consumers_that_only_count_judge_nothing() -> None:
    checker = ReceivedRecords(MAGIC, 1, [10], marking=False)
    checker.check([value_of(0, 0), value_of(0, 0)], [0, 0])
    delivery = merge_delivery([Sent(10)], 10, [[checker.report(bad_bodies=0)]], [0], checked=False)
    assert (delivery.received, delivery.lost, delivery.duplicated, delivery.checked) == (2, 0, 0, False)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 2)), max_size=60),
    st.integers(1, 20),
)
def test_agrees_with_a_plain_count(records: list[Received], batch: int) -> None:
    seen: set[tuple[int, int]] = set()
    highest: dict[tuple[int, int], int] = {}
    duplicated = reordered = 0
    for worker, sequence, partition in records:
        if (worker, sequence) in seen:
            duplicated += 1
            continue
        seen.add((worker, sequence))
        reordered += sequence < highest.get((worker, partition), -1)
        highest[worker, partition] = max(sequence, highest.get((worker, partition), -1))
    delivery = deliver(records, [13] * 3, batch)
    assert delivery.received == len(records)
    assert (delivery.duplicated, delivery.reordered, delivery.lost) == (duplicated, reordered, 39 - len(seen))
