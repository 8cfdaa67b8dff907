from __future__ import annotations

import pytest

from highwater.broker.quota.rate import WindowedRate


def test_a_burst_after_silence_is_spread_over_all_windows_but_one() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(10_000, 5_000)
    assert rate.per_second(5_000) == pytest.approx(1000)
    assert rate.per_second(5_999) == pytest.approx(10_000 / 10.999)


def test_a_steady_flow_has_its_own_rate() -> None:
    rate = WindowedRate(11, 1000)
    for now_ms in range(0, 60_000, 100):
        rate.record(50, now_ms)
    assert rate.per_second(60_000) == pytest.approx(500, rel=0.06)


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(1_000_000, 0)
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.per_second(11_000) == 0


def test_one_window_alone_is_a_rate_too() -> None:
    rate = WindowedRate(1, 1000)
    rate.record(100, 0)
    assert rate.per_second(0) == pytest.approx(100)
