"""Clocks that jump: nothing is thrown away for a clock that was wrong for a moment, nothing waits for one set back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from highwater.broker.clock import ClockGuard
from highwater.broker.log.config import LogConfig
from tests.broker.group.asking import GroupHarness
from tests.broker.handlers.harness import NodeHarness
from tests.broker.log.building import append, batch, new_log
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.manual_clock import ManualClock

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


def test_a_clock_that_jumps_ahead_is_believed_the_second_time() -> None:
    clock = ManualClock(10_000)
    guard = ClockGuard(clock, tolerance_ms=1000)

    def after(duration_ms: int, *, jump_ms: int = 0) -> int | None:
        clock.advance_ms(duration_ms)
        clock.jump_ms(jump_ms)
        return guard.now_ms()

    assert after(300_000, jump_ms=500) == 310_500
    assert after(300_000, jump_ms=YEAR_MS) is None
    assert after(300_000, jump_ms=-YEAR_MS) == 910_500  # it was set back: nothing is older than it was
    assert after(300_000, jump_ms=YEAR_MS) is None
    assert after(300_000) == 1_510_500 + YEAR_MS


def test_committed_offsets_outlive_a_clock_that_is_wrong_for_a_moment(tmp_path: Path) -> None:
    node = GroupHarness(tmp_path / "log", offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
    node.find()
    node.commit({("t", 0): 7})
    node.clock.jump_ms(YEAR_MS)
    node.advance(60_000)
    node.clock.jump_ms(-YEAR_MS)
    node.advance(60_000)
    assert node.fetch_offsets() == {("t", 0): (7, "")}
    node.clock.jump_ms(YEAR_MS)
    node.advance(60_000)
    node.advance(60_000)
    assert node.state() == "Dead", "a year has passed, then"
    node.close(clean=False)


def test_members_stay_whatever_the_wall_clock_says(tmp_path: Path) -> None:
    node = GroupHarness(tmp_path / "log")
    node.find()
    member_id = node.become_stable()
    for jump_ms in (YEAR_MS, -2 * YEAR_MS):
        node.clock.jump_ms(jump_ms)
        node.advance(5_000)
        answer = node.ask("heartbeat", 0, group_id="g", generation_id=1, member_id=member_id)
        assert not answer.error_code
    assert node.state() == "Stable"
    node.advance(10_000)
    assert node.state() == "Empty"
    node.close(clean=False)


def test_a_flush_does_not_wait_for_a_clock_that_was_set_back() -> None:
    _, log = new_log(SimulatedFiles(), LogConfig(flush_ms=1000))
    clock = ManualClock()
    append(log, batch(b"x"), now_ms=clock.now_ms())
    assert not log.flush_is_due(clock.now_ms() + 999)
    assert log.flush_is_due(clock.now_ms() + 1000)
    clock.jump_ms(-HOUR_MS)
    assert log.flush_is_due(clock.now_ms())


def test_records_can_be_written_and_read_whatever_the_clock_says(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node()
    node.create_topic("t", message_timestamp_type="LogAppendTime", segment_ms="1000")
    for number, jump_ms in enumerate((0, YEAR_MS, -2 * YEAR_MS, YEAR_MS)):
        node.clock.jump_ms(jump_ms)
        assert node.produce("t", b"%d" % number).base_offset == number
    fetched = node.fetch("t", 0).responses[0].partitions[0]
    assert fetched.high_watermark == 4
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    assert partition.log.max_timestamp()[1] == 1
