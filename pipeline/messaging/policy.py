"""How often and after which delays a failing record is tried again; what a handler may raise. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging.headers import Disposition
from highwater.pipeline.messaging.levels import parse_delay_ms, parse_delays_ms

ROCKETMQ_BACKOFF: Final = "10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's sixteen retries."""


class Retry(Exception):  # noqa: N818 - an order, not an error
    """Raised by a handler: try the record again, after the delay of its next attempt or after `after`."""

    def __init__(self, reason: str = "", *, after: str | None = None) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else parse_delay_ms(after)


class Reject(Exception):  # noqa: N818 - an order, not an error
    """Raised by a handler: the record becomes a dead letter at once."""


class Backoff(NamedTuple):
    """The delay before each retry; after the last of them a record is a dead letter."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Backoff:
        """Delays such as `10s 1m 10m`; an empty text means no retry."""
        return cls(parse_delays_ms(text) if text.strip() else ())

    def after(self, attempt: int) -> int | None:
        """The delay after the failure of this attempt, which counts from 1; None if it was the last."""
        return self.delays_ms[attempt - 1] if attempt <= len(self.delays_ms) else None


def exponential(first: str, *, times: float = 2.0, most: str = "2h", retries: int = 8) -> Backoff:
    """Delays that grow by a factor, `retries` of them, none above `most`."""
    if retries < 0 or times < 1:
        raise SettingsError(f"retries={retries}, times={times}: retries cannot be below 0, nor times below 1")
    first_ms, most_ms = parse_delay_ms(first), parse_delay_ms(most)
    delays: list[int] = []
    for _ in range(retries):
        delays.append(min(most_ms, round((delays[-1] * times) if delays else first_ms)))
    return Backoff(tuple(delays))


class Failure(NamedTuple):
    """Why a handler did not finish a record."""

    error_class: str
    error: str
    is_final: Disposition | None = None
    """Why it is not tried again; None if it is."""
    after_ms: int | None = None
    """The delay that the handler asked for."""


def failure_of(error: Exception, poison: tuple[type[Exception], ...]) -> Failure:
    """Any error is a reason to try again, except Reject and those that say that the record itself is bad."""
    error_class = type(error).__name__
    if isinstance(error, Retry):
        return Failure(error_class, str(error), after_ms=error.after_ms)
    if isinstance(error, Reject):
        return Failure(error_class, str(error), Disposition.REJECTED)
    return Failure(error_class, str(error), Disposition.POISON if isinstance(error, poison) else None)
