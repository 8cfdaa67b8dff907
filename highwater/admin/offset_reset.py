"""The new offsets of `groups --reset-offsets`, by one of the seven goals of Kafka's tool."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import typer
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from highwater.admin.client import Cluster, Partition
from highwater.admin.terminal import CommandError, UsageError
from highwater.common.quantities import DURATION
from highwater.common.topic_partition import partition_name
from highwater.common.units import NANOSECONDS

# ISO 8601's durations, as java.time.Duration reads them: no years or months, whose length varies.
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class Target(NamedTuple):
    goal: str
    number: int = 0
    """An offset, a distance in records or a time in ms, depending on the goal."""


def parse_target(goals: Mapping[str, bool | int | str | None]) -> Target:
    """Return the one goal that was given. Raises UsageError for none, several or an invalid value."""
    given = [name for name, value in goals.items() if value is not None]
    if len(given) != 1:
        raise UsageError(
            f"{' and '.join(given)} cannot go together" if given else f"say where to: one of {', '.join(goals)}"
        )
    goal, value = given[0], goals[given[0]]
    if goal == "--to-datetime":
        return _at_time(parse_time_ms(str(value)))
    if goal == "--by-duration":
        return _at_time(time.time_ns() // 1_000_000 - parse_duration_ms(str(value)))
    if goal == "--to-offset" and isinstance(value, int) and value < 0:
        raise UsageError(f"--to-offset {value}: offsets begin at 0")
    return Target(goal, value if isinstance(value, int) else 0)


def _at_time(time_ms: int) -> Target:
    """Brokers take negative times for signs: −1 would be the end of the log, where all is skipped."""
    return Target("--to-datetime", time_ms) if time_ms > 0 else Target("--to-earliest")


def parse_time_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--to-datetime {text}: write it as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def parse_duration_ms(text: str) -> int:
    if (duration_ns := DURATION.amount(text)) is not None:
        return int(duration_ns / NANOSECONDS["ms"])
    found = _DURATION.fullmatch(text)
    parts = {} if found is None else {name: float(part) for name, part in found.groupdict().items() if part}
    if not parts:
        raise UsageError(f"--by-duration {text}: write it as 150min, or as P1DT2H30M5S")
    try:
        return timedelta(**parts) // timedelta(milliseconds=1)
    except OverflowError:
        raise UsageError(f"--by-duration {text}: no log reaches so far back; write --to-earliest") from None


def targets(
    cluster: Cluster, partitions: Iterable[Partition], committed: Mapping[Partition, int], target: Target
) -> dict[Partition, int]:
    """Return the new offset of each partition. An offset outside the log becomes its nearest end, with a note."""
    partitions = list(partitions)
    ranges = cluster.log_ranges(partitions)
    later: Mapping[Partition, int] = {}
    if target.goal == "--to-datetime":
        later = cluster.offsets(partitions, OffsetSpec.for_timestamp(target.number))
    found = {}
    for partition in partitions:
        name = partition_name(*partition)
        if partition not in ranges:
            raise CommandError(f"{name}: its leader does not return its offsets")
        low, high = ranges[partition]
        if target.goal == "--to-earliest":
            offset = low
        elif target.goal == "--to-latest":
            offset = high
        elif target.goal == "--to-offset":
            offset = target.number
        elif target.goal == "--to-datetime":
            # No record is as late as this time: use the end of the log.
            offset = later.get(partition, -1)
            offset = high if offset < 0 else offset
        elif partition not in committed:
            raise CommandError(f"{name}: the group has committed nothing there, which {target.goal} starts from")
        else:
            offset = committed[partition] + (target.number if target.goal == "--shift-by" else 0)
        if not low <= offset <= high:
            nearest = low if offset < low else high
            typer.echo(f"note: {name} has offsets {low} up to {high}; {nearest} is taken for {offset}", err=True)
            offset = nearest
        found[partition] = offset
    return found
