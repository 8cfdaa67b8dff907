"""`highwater broker trace`: prints the way of one record over topics."""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.admin.client import DEFAULT_BOOTSTRAP, BootstrapOption, Cluster, CommandConfigOption
from highwater.admin.terminal import CommandError, JsonOption, UsageError, print_json, print_table, time_text
from highwater.common.retry_topics import DEAD_LETTER_PREFIX
from highwater.common.units import shortened
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.commands.common import json_of, reporting_all
from highwater.pipeline.messaging.levels import level_of
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Place, Record, parse_place
from highwater.pipeline.messaging.topics import Topics
from highwater.pipeline.messaging.way import Way


def trace(
    place: Annotated[
        str,
        typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="A record on its way: its first place or any later one."),
    ],
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Search this topic too; may be repeated.")] = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trace one record through retries, delays, dead letters and replays (linked by hw-origin or traceparent).

    Searches the record's origin, the topics of retries, delays and dead letters, and those of --topic, from the time
    of the record on. The mover keeps moved records for a day, or as its option --keep says.
    """
    with reporting_all():
        asked = parse_place(place)
        if asked is None:
            raise UsageError(f"{place}: write it as TOPIC/PARTITION/OFFSET")
        client = Cluster(bootstrap_server, command_config).client_config
        topics = Topics(client)
        first = _record_at(client, topics, asked)
        origin_place = headers.origin_of(first)
        known = topics.all()
        for name in topic or ():
            topics.need(name)
        names = {name for name in known if level_of(name) is not None or name.startswith(DEAD_LETTER_PREFIX)}
        names |= {name for name in known if name.endswith((".retry", ".retry.parked"))}
        names |= {*(topic or ()), first.topic, *({origin_place.topic} & known.keys())}
        partitions = [(name, number) for name in sorted(names) for number in range(known[name])]
        since_ms = min(first.timestamp_ms, headers.own_timestamp_ms(first))
        way = Way(first)
        starts, ends = topics.at_time(partitions, since_ms), topics.ends(partitions)
        steps = way.steps(record for record in read_range(client, starts, ends) if way.has(record))
        if as_json:
            print_json(
                [{"time_ms": headers.time_ms(step.record), "what": step.what} | json_of(step.record) for step in steps]
            )
        else:
            rows = [(str(r.place), time_text(headers.time_ms(r)), shortened(what, 160)) for r, what in steps]
            print_table(("Record", "Time", "What"), rows)


def _record_at(client: dict[str, object], topics: Topics, place: Place) -> Record:
    count = topics.need(place.topic)
    if place.partition >= count:
        raise UsageError(f"{place.topic} has no partition {place.partition}; it has {count}, from 0 on")
    partition = (place.topic, place.partition)
    start, end = topics.starts([partition])[partition], topics.ends([partition])[partition]
    if not start <= place.offset < end:
        raise CommandError(f"{place} is not there: the partition has offsets {start} up to {end}")
    for record in read_range(client, {partition: place.offset}, {partition: place.offset + 1}):
        return record
    raise CommandError(
        f"{place} is not a record that readers see: a marker, of an aborted transaction, or compacted away"
    )
