"""A bucket of tokens that fills at a steady rate, as Kafka has it for changes of topics (KIP-599)."""

from __future__ import annotations

from highwater.broker.quota.rate import throttle_ms


class TokenBucket:
    """Tokens that were saved, up to a burst.

    What is taken may be more than there is: the bucket then owes tokens, and whoever comes next waits until it owes
    none. One large change is therefore never impossible.
    """

    __slots__ = ("_at_ms", "_tokens", "burst_s", "rate")

    def __init__(self, rate: float, burst_s: float, now_ms: int) -> None:
        """rate: tokens in a second. burst_s: for how many seconds an idle client may save. The bucket begins full."""
        self.rate = rate
        self.burst_s = burst_s
        self._tokens = rate * burst_s
        self._at_ms = now_ms

    def take(self, count: int, now_ms: int) -> None:
        self._fill(now_ms)
        self._tokens -= count

    def owing_ms(self, now_ms: int) -> int:
        """Return in how many ms the bucket owes no token any more; 0 if it owes none."""
        self._fill(now_ms)
        if self._tokens >= 0:
            return 0
        return throttle_ms(-self._tokens, self.rate, 1000)

    def is_full(self, now_ms: int) -> bool:
        self._fill(now_ms)
        return self._tokens >= self.rate * self.burst_s

    def _fill(self, now_ms: int) -> None:
        gained = max(now_ms - self._at_ms, 0) * self.rate / 1000
        self._tokens = min(self._tokens + gained, self.rate * self.burst_s)
        self._at_ms = now_ms
