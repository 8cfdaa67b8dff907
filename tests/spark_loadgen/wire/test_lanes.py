from __future__ import annotations

import numpy as np

from spark_loadgen.wire.departures import Departure
from spark_loadgen.wire.lanes import RETRY_BACKOFF_NS, Batch, Lane


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
