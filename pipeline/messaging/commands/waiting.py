"""`highwater broker retry` and `highwater broker delay`: what waits, and the mover that delivers it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.broker.commands.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    refusal,
)
from highwater.broker.commands.terminal import JsonOption, print_json, print_table, say, time_text
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.commands.common import reporting_all
from highwater.pipeline.messaging.levels import DELAY_PREFIX, ROCKETMQ_LEVELS_MS, level_of, parse_delays_ms
from highwater.pipeline.messaging.mover import Mover
from highwater.pipeline.messaging.moving import MOVERS, Poison, due_ms
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Record
from highwater.pipeline.messaging.stopping import stop_signals
from highwater.pipeline.messaging.topics import Topics

retry = typer.Typer(no_args_is_help=True, help="Records that are tried again: what waits or is parked; the mover.")
delay = typer.Typer(no_args_is_help=True, help="Delayed records: what waits in the levels; the mover.")

_PARKED = ".retry.parked"
_TELL_S = 10.0


@retry.command("list")
def retry_list(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the records that wait for a retry, and those that are parked behind a failing key, by topic."""
    with reporting_all():
        client = Cluster(bootstrap_server, command_config).client_config
        _list(
            client,
            lambda name: name.endswith(_PARKED) or (level_of(name) is not None and not name.startswith(DELAY_PREFIX)),
            as_json=as_json,
        )


@delay.command("list")
def delay_list(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the records that wait in the levels of delay, by topic."""
    with reporting_all():
        client = Cluster(bootstrap_server, command_config).client_config
        _list(client, lambda name: level_of(name) is not None and name.startswith(DELAY_PREFIX), as_json=as_json)


def _list(client: Mapping[str, Any], wanted: Callable[[str], bool], *, as_json: bool) -> None:
    topics = Topics(client)
    found = []
    for name, count in sorted(topics.all().items(), key=lambda item: (level_of(item[0]) or 0, item[0])):
        if wanted(name):
            records = _waiting_in(client, topics, name, count)
            due = [each for record in records if (each := _due_ms(record)) is not None]
            found.append((name, len(records), min(due, default=None), max(due, default=None)))
    if as_json:
        names = ("topic", "records", "next_due_ms", "last_due_ms")
        print_json([dict(zip(names, row, strict=True)) for row in found])
    elif not found:
        say("There are no such topics.")
    else:
        rows = [
            (name, count, *("-" if due is None else time_text(due) for due in times)) for name, count, *times in found
        ]
        print_table(("Topic", "Records", "Next due", "Last due"), rows)


def _due_ms(record: Record) -> int | None:
    try:
        return headers.whole_number(record, headers.DUE_MS) if record.topic.endswith(_PARKED) else due_ms(record)
    except (Poison, ValueError):
        return None


def _waiting_in(client: Mapping[str, Any], topics: Topics, name: str, count: int) -> list[Record]:
    partitions = [(name, number) for number in range(count)]
    starts, ends = topics.starts(partitions), topics.ends(partitions)
    if name.endswith(_PARKED):
        latest = {(each.partition, each.key): each for each in read_range(client, starts, ends)}
        return [each for each in latest.values() if each.value is not None]
    consumer = Consumer({**client, "group.id": MOVERS, "enable.auto.commit": False})
    try:
        committed = consumer.committed([TopicPartition(*each) for each in partitions], REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise refusal(name, error) from None
    finally:
        consumer.close()
    moved = {(each.topic, each.partition): each.offset for each in committed}
    return list(read_range(client, {each: max(starts[each], moved[each]) for each in partitions}, ends))


@delay.command("run")
@retry.command("run")
def run(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    name: Annotated[
        str | None,
        typer.Option("--name", help="With a name, a mover goes on at once after a kill; one mover of a name runs."),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="DELAYS", help="Levels of delay.", show_default="RocketMQ's 18: 1s 5s … 2h"),
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="TIME", help="Moved records are deleted after this time.")
    ] = "1d",
    command_config: CommandConfigOption = None,
) -> None:
    """Deliver records of all retry and delay topics when they are due, until SIGTERM or Ctrl-C.

    One process serves all levels, and several share the work. Each record is delivered exactly once for readers with
    isolation.level=read_committed, and never early. Exit codes: 0 stopped, 1 cannot go on, 2 wrong usage.
    """
    with reporting_all():
        levels_ms = ROCKETMQ_LEVELS_MS if levels is None else parse_delays_ms(levels)
        (keep_ms,) = parse_delays_ms(keep)
        client = Cluster(bootstrap_server, command_config).client_config
        stopped = threading.Event()
        with stop_signals(stopped):
            mover = Mover(
                client, name=name, levels_ms=levels_ms, keep_ms=keep_ms, say=lambda text: typer.echo(text, err=True)
            )
            say("ready: moving what is due")
            try:
                mover.run(stopped)
            finally:
                mover.close()
        say(f"{mover.moved_count} moved, {mover.dead_count} of these undeliverable.")
