"""What topics hold: one sentence that answers, and a row for each topic; or all of it as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.admin.terminal import print_json, print_table, say
from highwater.common.topic_partition import TopicPartition
from highwater.common.units import wait_text
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Record
from highwater.pipeline.messaging.topics import Topics


@dataclass(frozen=True)
class PrintedColumn:
    """field: its name in JSON. text: how a person reads a value."""

    field: str
    title: str
    text: Callable[[Any], object] = lambda value: value


def print_by_topic(
    rows: Sequence[Sequence[Any]],
    columns: Sequence[PrintedColumn],
    *,
    answer: Callable[[], str],
    none: str,
    as_json: bool,
) -> None:
    """`answer`: the sentence above the table. `none`: what is said if there is no topic."""
    if as_json:
        print_json([{column.field: value for column, value in zip(columns, row, strict=True)} for row in rows])
    elif not rows:
        say(none)
    else:
        say(answer())
        print_table(
            [column.title for column in columns],
            [[column.text(value) for column, value in zip(columns, row, strict=True)] for row in rows],
        )


def records_in(
    client: Mapping[str, Any], topics: Topics, name: str, count: int, begun: Mapping[TopicPartition, int] | None = None
) -> Iterator[Record]:
    """The records that are there now. `begun`: offsets before which nothing counts, by partition."""
    partitions = [(name, number) for number in range(count)]
    starts, ends = topics.starts(partitions), topics.ends(partitions)
    return read_range(client, {each: max(starts[each], (begun or {}).get(each, 0)) for each in partitions}, ends)


def from_now_text(time_ms: int) -> str:
    """`in 12 s`, `4 min ago`."""
    seconds = round((time_ms - now_ms()) / 1000)
    return f"in {wait_text(seconds)}" if seconds > 0 else f"{wait_text(-seconds)} ago"
