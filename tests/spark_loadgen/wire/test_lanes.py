from __future__ import annotations

import numpy as np

from highwater.spark_loadgen.wire.departures import Departure
from highwater.spark_loadgen.wire.lanes import RETRY_BACKOFF_NS, SEQUENCE_NUMBERS, Batch, Lane


def batch(first: int, sent_ns: int = 0) -> Batch:
    return Batch(Departure(first, 10, 0), sent_ns, np.empty(0, np.int64))


def test_nothing_new_overtakes_what_failed() -> None:
    lane = Lane("t", 0)
    assert lane.takes_new
    lane.failed(batch(10), 0)
    assert not lane.takes_new


def test_what_failed_waits_for_all_that_is_on_its_way_and_for_a_while() -> None:
    lane = Lane("t", 0, in_flight=1)
    lane.failed(batch(10), 0)
    assert lane.again(10 * RETRY_BACKOFF_NS) is None
    lane.in_flight = 0
    assert lane.again(RETRY_BACKOFF_NS - 1) is None
    again = lane.again(RETRY_BACKOFF_NS)
    assert again is not None
    assert again.departure.first == 10
    assert lane.takes_new


def test_what_failed_is_sent_again_in_order_one_after_the_other() -> None:
    lane = Lane("t", 0)
    for first in (30, 10, 20):
        lane.failed(batch(first), 0)
    order = []
    while (again := lane.again(RETRY_BACKOFF_NS)) is not None:
        order.append(again.departure.first)
        lane.in_flight = 1
        assert lane.again(RETRY_BACKOFF_NS) is None
        lane.in_flight = 0
    assert order == [10, 20, 30]


def test_what_waits_for_too_long_is_given_up() -> None:
    lane = Lane("t", 0)
    lane.failed(batch(10, sent_ns=5), 0)
    lane.failed(batch(20, sent_ns=50), 0)
    assert [old.departure.first for old in lane.give_up(sent_before_ns=50)] == [10]
    assert [kept.departure.first for kept in lane.retries] == [20]


def test_lateness_counts_from_the_schedule_and_not_from_what_was_sent_again() -> None:
    late = Batch(Departure(0, 1, 100), 130, np.empty(0, np.int64))
    early = Batch(Departure(0, 1, 100), 90, np.empty(0, np.int64))
    assert (late.lateness_ns, early.lateness_ns) == (30, 0)


def place(batch: Batch) -> tuple[int, int]:
    return batch.epoch, batch.base_sequence


def test_a_batch_keeps_its_number_when_it_is_sent_again() -> None:
    lane = Lane("t", 0)
    first, second = batch(0), batch(10)
    for sent in (first, second, first):
        lane.number(sent)
    assert (place(first), place(second)) == ((0, 0), (0, 10))


def test_numbers_begin_at_zero_again_after_the_largest() -> None:
    lane = Lane("t", 0, next_sequence=SEQUENCE_NUMBERS - 4)
    for sent in (around := batch(0), after := batch(10)):
        lane.number(sent)
    assert (place(around), place(after)) == ((0, SEQUENCE_NUMBERS - 4), (0, 6))


def test_what_is_behind_a_failed_batch_waits_for_it_and_keeps_its_number() -> None:
    lane = Lane("t", 0)
    failed, behind = batch(0), batch(10)
    for sent in (failed, behind):
        lane.number(sent)
    lane.failed(failed, 0)
    lane.out_of_sequence(behind, 0)
    assert lane.again(RETRY_BACKOFF_NS) is failed
    assert lane.again(RETRY_BACKOFF_NS) is behind
    lane.number(behind)
    assert place(behind) == (0, 10)


def test_after_a_batch_that_failed_for_good_the_rest_begin_a_sequence_anew() -> None:
    lane = Lane("t", 0)
    gone, second, third = batch(0), batch(10), batch(20)
    for sent in (gone, second, third):
        lane.number(sent)
    lane.out_of_sequence(second, 0)
    assert lane.again(RETRY_BACKOFF_NS) is second
    lane.out_of_sequence(second, RETRY_BACKOFF_NS)
    lane.out_of_sequence(third, RETRY_BACKOFF_NS)
    for waiting in (second, third):
        assert lane.again(2 * RETRY_BACKOFF_NS) is waiting
        lane.number(waiting)
    assert (place(second), place(third)) == ((1, 0), (1, 10))
