"""The bucket of tokens under a clock of numbers."""

from __future__ import annotations

from highwater.broker.quota.rate import MAX_THROTTLE_MS
from highwater.broker.quota.token_bucket import TokenBucket


def test_an_idle_client_saves_a_burst_and_no_more() -> None:
    bucket = TokenBucket(rate=2.0, burst_s=5.0, now_ms=0)
    assert bucket.is_full(0)
    bucket.take(10, 1_000)
    assert (bucket.owing_ms(1_000), bucket.is_full(1_000)) == (0, False)
    bucket.take(1, 1_000)
    assert bucket.owing_ms(1_000) == 500
    assert bucket.owing_ms(1_400) == 100
    assert bucket.owing_ms(1_500) == 0
    assert bucket.is_full(6_500)
    bucket.take(10, 10**9)
    bucket.take(1, 10**9)
    assert bucket.owing_ms(10**9) == 500


def test_a_change_larger_than_the_burst_is_possible_and_paid_later() -> None:
    bucket = TokenBucket(rate=1.0, burst_s=3.0, now_ms=0)
    bucket.take(103, 0)
    assert bucket.owing_ms(0) == 100_000
    assert bucket.owing_ms(99_999) == 1
    assert bucket.owing_ms(100_000) == 0


def test_a_time_that_goes_back_adds_no_tokens() -> None:
    bucket = TokenBucket(rate=1.0, burst_s=1.0, now_ms=10_000)
    bucket.take(3, 10_000)
    assert bucket.owing_ms(5_000) == 2_000


def test_the_longest_time_fits_into_an_answer() -> None:
    for rate in (0.0, 1e-9):
        bucket = TokenBucket(rate=rate, burst_s=11.0, now_ms=0)
        bucket.take(10_000, 0)
        assert bucket.owing_ms(0) == MAX_THROTTLE_MS
