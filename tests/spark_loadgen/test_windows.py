from __future__ import annotations

import time

from highwater.spark_loadgen.windows import SECOND_NS, SecondMeter, Windows, max_rows, sum_rows


def test_counts_are_filed_under_their_second_in_any_order() -> None:
    windows = Windows()
    windows.add("sent", 3, 5)
    windows.add("sent", 1, 2)
    windows.add("sent", 3, 1)
    assert windows.sent == [0, 2, 0, 6]
    assert windows.at("sent", 7) == 0
    assert windows.acked == []


def test_rows_of_different_length_add_up() -> None:
    assert sum_rows([[1, 2, 3], [], [10]]) == [11, 2, 3]
    assert max_rows([[0.5], [0.1, 0.9]]) == [0.5, 0.9]


def test_the_meter_turns_once_per_second_and_covers_seconds_that_passed_unnoticed() -> None:
    meter = SecondMeter()
    meter.start()
    assert not meter.advance(SECOND_NS - 1)
    busy_until = time.process_time_ns() + 20_000_000
    while time.process_time_ns() < busy_until:
        pass
    assert meter.advance(SECOND_NS)
    assert not meter.advance(SECOND_NS + 5)
    assert meter.advance(4 * SECOND_NS)
    assert len(meter.cpu_ns) == len(meter.cpu_ratio) == 4
    assert meter.cpu_ns[0] >= 20_000_000


def test_what_is_used_in_the_second_in_which_the_work_ends_counts_too() -> None:
    meter = SecondMeter()
    meter.start()
    meter.advance(SECOND_NS)
    busy_until = time.process_time_ns() + 20_000_000
    while time.process_time_ns() < busy_until:
        pass
    meter.finish()
    assert len(meter.cpu_ns) == len(meter.cpu_ratio) == 2
    assert meter.cpu_ns[1] >= 20_000_000
