"""Levels of delay, and the names of the topics in which records wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from highwater.common.quantities import DURATION
from highwater.common.retry_topics import DEAD_LETTER_PREFIX, PARKED_SUFFIX, RETRY_SUFFIX
from highwater.common.units import NANOSECONDS
from highwater.pipeline.errors import SettingsError

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

DELAY_PREFIX: Final = "hw.delay."
WHEEL: Final = "hw.delay.wheel"
"""Records that are due in less than the least level, in a partition for each tenth of a second."""
WHEEL_MS: Final = 1000
"""Up to so long a record can wait there."""
WHEEL_SLOT_MS: Final = 100
WHEEL_SLOTS: Final = 16
"""More than a second has: what comes late still finds no record of the next turn before it."""
# librdkafka's expressions know no (?:…).
_LEVEL: Final = r"[1-9][0-9]*(ms|s|m|h|d)"
_WAITING: Final = re.compile(rf"(?:hw\.delay|.+\.retry)\.({_LEVEL}|wheel)")
DELAY_PATTERN: Final = rf"^hw\.delay\.({_LEVEL}|wheel)$"
WAITING_PATTERN: Final = rf"^(hw\.delay\.({_LEVEL}|wheel)|.+\.retry\.{_LEVEL})$"
"""The topics that a mover empties, as librdkafka takes a pattern."""


def parse_delay_ms(text: str) -> int:
    """Raises SettingsError unless it is a whole number of ms, s, m, h or d, above 0."""
    duration_ns = DURATION.amount(text)
    if not duration_ns or duration_ns % NANOSECONDS["ms"]:
        raise SettingsError(f"{text!r} is not a delay: write a number and ms, s, m or min, h or d, such as 30s")
    return int(duration_ns // NANOSECONDS["ms"])


def delay_text(delay_ms: int) -> str:
    """The shortest text that means this delay exactly: 60000 is 1m."""
    unit, size = next((unit, size) for unit, size in reversed(_UNITS_MS.items()) if delay_ms % size == 0)
    return f"{delay_ms // size}{unit}"


def parse_delays_ms(text: str) -> tuple[int, ...]:
    """Delays with commas or spaces between."""
    return tuple(parse_delay_ms(part) for part in re.split(r"[,\s]+", text.strip()))


ROCKETMQ_LEVELS_MS: Final = parse_delays_ms("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
"""messageDelayLevel of RocketMQ 4 and 5."""


def check_levels(levels_ms: Iterable[int]) -> tuple[int, ...]:
    """Sorted. Raises SettingsError if the wheel is shorter than the least of them."""
    levels = tuple(sorted(set(levels_ms)))
    if not levels:
        raise SettingsError("at least one level of delay is needed")
    if levels[0] > WHEEL_MS:
        raise SettingsError(f"the least level is {delay_text(levels[0])}: it must be {delay_text(WHEEL_MS)} or less")
    return levels


def greatest_level_ms(rest_ms: int, levels_ms: Sequence[int]) -> int | None:
    """The greatest level that is not longer than the rest; None if there is none."""
    return max((level for level in levels_ms if level <= rest_ms), default=None)


def delay_topic(level_ms: int) -> str:
    return DELAY_PREFIX + delay_text(level_ms)


@lru_cache(1024)
def level_of(topic: str) -> int | None:
    """How long a record of this topic waits at most; None if it is no topic in which records wait."""
    found = _WAITING.fullmatch(topic)
    if found is None:
        return None
    return WHEEL_MS if found[1] == "wheel" else parse_delay_ms(found[1])


class GroupTopics(NamedTuple):
    """The topics that belong to a consumer group's work on a topic."""

    topic: str
    group: str

    @property
    def retry(self) -> str:
        """The topic from which the group reads records that are due again."""
        return f"{self.topic}.{self.group}{RETRY_SUFFIX}"

    @property
    def parked(self) -> str:
        """The state of failing keys: compacted, one partition for each of the topic."""
        return f"{self.topic}.{self.group}{PARKED_SUFFIX}"

    @property
    def dead(self) -> str:
        return f"{DEAD_LETTER_PREFIX}{self.topic}.{self.group}"

    def waiting(self, delay_ms: int) -> str:
        """The topic in which records of the group wait for `delay_ms`."""
        return f"{self.retry}.{delay_text(delay_ms)}"
