"""`highwater broker retry` and `highwater broker delay`: what waits, and the mover that delivers it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    refusal,
)
from highwater.admin.terminal import JsonOption, say, time_text
from highwater.common.units import plural
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.commands.by_topic import PrintedColumn, from_now_text, print_by_topic, records_in
from highwater.pipeline.messaging.commands.common import reporting_all
from highwater.pipeline.messaging.levels import DELAY_PREFIX, ROCKETMQ_LEVELS_MS, level_of, parse_delays_ms
from highwater.pipeline.messaging.mover import Mover
from highwater.pipeline.messaging.moving import MOVERS, Poison, due_ms
from highwater.pipeline.messaging.record import Record
from highwater.pipeline.messaging.stopping import stop_signals
from highwater.pipeline.messaging.topics import Topics

retry = typer.Typer(
    no_args_is_help=True, help="List retried records that wait or are parked, and run the mover that delivers them."
)
delay = typer.Typer(no_args_is_help=True, help="List delayed records that wait, and run the mover that delivers them.")

_PARKED = ".retry.parked"
_LATE_MS = 10_000


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
    found: list[tuple[str, int, int | None, int | None]] = []
    for name, count in sorted(topics.all().items(), key=lambda item: (level_of(item[0]) or 0, item[0])):
        if wanted(name):
            records = _waiting_in(client, topics, name, count)
            due = [each for record in records if (each := _due_ms(record)) is not None]
            found.append((name, len(records), min(due, default=None), max(due, default=None)))
    columns = (
        PrintedColumn("topic", "Topic"),
        PrintedColumn("records", "Records"),
        PrintedColumn("next_due_ms", "Next due", _time_text),
        PrintedColumn("last_due_ms", "Last due", _time_text),
    )
    none = "There are no such topics."
    print_by_topic(found, columns, answer=lambda: _answer(found), none=none, as_json=as_json)


def _answer(found: Sequence[tuple[str, int, int | None, int | None]]) -> str:
    """`5 records wait in 3 topics; the next one is due in 12 s.`"""
    waiting = sum(count for _, count, _, _ in found)
    topics = plural(len(found), "topic")
    if not waiting:
        return f"Nothing waits in {topics}."
    start = f"{plural(waiting, 'record')} {'waits' if waiting == 1 else 'wait'} in {topics}"
    due_ms = min((next_ms for name, _, next_ms, _ in found if next_ms and not name.endswith(_PARKED)), default=None)
    if due_ms is None:
        return f"{start}."
    if due_ms > now_ms() - _LATE_MS:
        return f"{start}; the next one is due {from_now_text(max(due_ms, now_ms()))}."
    return f"{start}; one was due {from_now_text(due_ms)}: does a mover run?"


def _time_text(time_ms: int | None) -> str:
    return "-" if time_ms is None else time_text(time_ms)


def _due_ms(record: Record) -> int | None:
    try:
        return headers.whole_number(record, headers.DUE_MS) if record.topic.endswith(_PARKED) else due_ms(record)
    except (Poison, ValueError):
        return None


def _waiting_in(client: Mapping[str, Any], topics: Topics, name: str, count: int) -> list[Record]:
    if name.endswith(_PARKED):
        latest = {(each.partition, each.key): each for each in records_in(client, topics, name, count)}
        return [each for each in latest.values() if each.value is not None]
    partitions = [TopicPartition(name, number) for number in range(count)]
    consumer = Consumer({**client, "group.id": MOVERS, "enable.auto.commit": False})
    try:
        committed = consumer.committed(partitions, REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise refusal(name, error) from None
    finally:
        consumer.close()
    moved = {(each.topic, each.partition): each.offset for each in committed}
    return list(records_in(client, topics, name, count, moved))


@delay.command("run")
@retry.command("run")
def run(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name of this mover. A named mover resumes at once after a crash; only one mover with a given name "
            "can run.",
        ),
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
    isolation.level=read_committed, and never early. Exit codes: 0 stopped, 1 cannot continue, 2 usage error.
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
