from __future__ import annotations

import numpy as np

from highwater.spark_loadgen.wire.batching import DueRecords
from highwater.spark_loadgen.wire.partition_state import RETRY_BACKOFF_NS, SEQUENCE_NUMBERS, Batch, PartitionState


def batch(first: int, sent_ns: int = 0) -> Batch:
    return Batch(DueRecords(first, 10, 0), sent_ns, np.empty(0, np.int64))


def test_nothing_new_overtakes_what_failed() -> None:
    partition = PartitionState("t", 0)
    assert partition.accepts_new
    partition.add_retry(batch(10), 0)
    assert not partition.accepts_new


def test_what_failed_waits_for_all_that_is_on_its_way_and_for_a_while() -> None:
    partition = PartitionState("t", 0, in_flight=1)
    partition.add_retry(batch(10), 0)
    assert partition.next_retry(10 * RETRY_BACKOFF_NS) is None
    partition.in_flight = 0
    assert partition.next_retry(RETRY_BACKOFF_NS - 1) is None
    again = partition.next_retry(RETRY_BACKOFF_NS)
    assert again is not None
    assert again.records.first == 10
    assert partition.accepts_new


def test_what_failed_is_sent_again_in_order_one_after_the_other() -> None:
    partition = PartitionState("t", 0)
    for first in (30, 10, 20):
        partition.add_retry(batch(first), 0)
    order = []
    while (again := partition.next_retry(RETRY_BACKOFF_NS)) is not None:
        order.append(again.records.first)
        partition.in_flight = 1
        assert partition.next_retry(RETRY_BACKOFF_NS) is None
        partition.in_flight = 0
    assert order == [10, 20, 30]


def test_what_waits_for_too_long_is_given_up() -> None:
    partition = PartitionState("t", 0)
    partition.add_retry(batch(10, sent_ns=5), 0)
    partition.add_retry(batch(20, sent_ns=50), 0)
    assert [old.records.first for old in partition.expire(sent_before_ns=50)] == [10]
    assert [kept.records.first for kept in partition.retries] == [20]


def test_lateness_counts_from_the_schedule_and_not_from_what_was_sent_again() -> None:
    late = Batch(DueRecords(0, 1, 100), 130, np.empty(0, np.int64))
    early = Batch(DueRecords(0, 1, 100), 90, np.empty(0, np.int64))
    assert (late.lateness_ns, early.lateness_ns) == (30, 0)


def sequence(batch: Batch) -> tuple[int, int]:
    return batch.epoch, batch.base_sequence


def test_a_batch_keeps_its_number_when_it_is_sent_again() -> None:
    partition = PartitionState("t", 0)
    first, second = batch(0), batch(10)
    for sent in (first, second, first):
        partition.assign_sequence(sent)
    assert (sequence(first), sequence(second)) == ((0, 0), (0, 10))


def test_numbers_begin_at_zero_again_after_the_largest() -> None:
    partition = PartitionState("t", 0, next_sequence=SEQUENCE_NUMBERS - 4)
    for sent in (around := batch(0), after := batch(10)):
        partition.assign_sequence(sent)
    assert (sequence(around), sequence(after)) == ((0, SEQUENCE_NUMBERS - 4), (0, 6))


def test_what_is_behind_a_failed_batch_waits_for_it_and_keeps_its_number() -> None:
    partition = PartitionState("t", 0)
    failed, behind = batch(0), batch(10)
    for sent in (failed, behind):
        partition.assign_sequence(sent)
    partition.add_retry(failed, 0)
    partition.on_out_of_sequence(behind, 0)
    assert partition.next_retry(RETRY_BACKOFF_NS) is failed
    assert partition.next_retry(RETRY_BACKOFF_NS) is behind
    partition.assign_sequence(behind)
    assert sequence(behind) == (0, 10)


def test_after_a_batch_that_failed_for_good_the_rest_begin_a_sequence_anew() -> None:
    partition = PartitionState("t", 0)
    gone, second, third = batch(0), batch(10), batch(20)
    for sent in (gone, second, third):
        partition.assign_sequence(sent)
    partition.on_out_of_sequence(second, 0)
    assert partition.next_retry(RETRY_BACKOFF_NS) is second
    partition.on_out_of_sequence(second, RETRY_BACKOFF_NS)
    partition.on_out_of_sequence(third, RETRY_BACKOFF_NS)
    for waiting in (second, third):
        assert partition.next_retry(2 * RETRY_BACKOFF_NS) is waiting
        partition.assign_sequence(waiting)
    assert (sequence(second), sequence(third)) == ((1, 0), (1, 10))
