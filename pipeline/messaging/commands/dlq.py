"""`highwater broker dlq`: looks at dead letters, writes them back exactly once, or drops them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from highwater.admin.client import DEFAULT_BOOTSTRAP, BootstrapOption, Cluster, CommandConfigOption, Partition
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_json_line,
    print_table,
    say,
    time_text,
)
from highwater.common.retry_topics import DEAD_LETTER_PREFIX
from highwater.common.topic_partition import partition_name
from highwater.common.units import count_text, plural
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.commands.by_topic import PrintedColumn, from_now_text, print_by_topic, records_in
from highwater.pipeline.messaging.commands.common import ROW_COLUMNS, WhereOption, json_of, reporting_all, row_of
from highwater.pipeline.messaging.filter import parse_filter
from highwater.pipeline.messaging.reading import read_range
from highwater.pipeline.messaging.record import Record
from highwater.pipeline.messaging.replay import GROUP_PREFIX, Replay
from highwater.pipeline.messaging.topics import Topics

app = typer.Typer(no_args_is_help=True, help="Dead letters: list, show, replay exactly once, drop.")

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="A topic of dead letters, dlq.<topic>.<group>.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]


@app.command("list")
def list_(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the topics of dead letters, with the number and the reasons of their records."""
    with reporting_all():
        client = Cluster(bootstrap_server, command_config).client_config
        topics = Topics(client)
        found: list[tuple[str, int, Counter[str], int]] = []
        for name, count in sorted(topics.all().items()):
            if name.startswith(DEAD_LETTER_PREFIX):
                records = list(records_in(client, topics, name, count))
                newest_ms = max((record.timestamp_ms for record in records), default=-1)
                found.append((name, len(records), _reasons(records), newest_ms))
        columns = (
            PrintedColumn("topic", "Topic"),
            PrintedColumn("records", "Records"),
            PrintedColumn("dispositions", "Why", _reasons_text),
            PrintedColumn("newest_ms", "Newest", time_text),
        )
        none = "There are no topics of dead letters."
        print_by_topic(found, columns, answer=lambda: _answer(found), none=none, as_json=as_json)


def _answer(found: Sequence[tuple[str, int, Counter[str], int]]) -> str:
    """`3 dead letters in 2 topics: 2 exhausted, 1 rejected; the newest died 4 min ago.`"""
    dead = sum(count for _, count, _, _ in found)
    topics = plural(len(found), "topic")
    if not dead:
        return f"No dead letters in {topics}."
    reasons: Counter[str] = sum((each for _, _, each, _ in found), Counter())
    newest = from_now_text(max(newest_ms for *_, newest_ms in found))
    return f"{plural(dead, 'dead letter')} in {topics}: {_reasons_text(reasons)}; the newest died {newest}."


@app.command()
def show(
    topic: TopicArgument,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    where: WhereOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many, the oldest first.")] = 20,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show dead letters and the reason of each; with --json each as one line."""
    with reporting_all():
        takes = parse_filter(where) if where is not None else lambda _: True
        client = Cluster(bootstrap_server, command_config).client_config
        topics = Topics(client)
        records = filter(takes, records_in(client, topics, topic, topics.need(topic)))
        shown = list(islice(records, limit))
        if as_json:
            for record in shown:
                print_json_line(json_of(record))
        elif not shown:
            say(f"{topic} has no dead letters{' that match' if where else ''}.")
        else:
            print_table(ROW_COLUMNS, [row_of(record) for record in shown])
            if next(records, None) is not None:
                say(f"There are more than these {limit}: --limit shows more.")


@app.command()
def replay(
    topic: TopicArgument,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    where: WhereOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="Topic to write to, such as the group's TOPIC.GROUP.retry.",
            show_default="the origin",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name under which the replay's progress is stored.",
            show_default="one that follows from --where and --to",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write dead letters back to where they came from, or to a topic, each exactly once; they also stay.

    An interrupted replay continues when the same command is run again. After it has finished, the same command writes
    only new dead letters. With another --where, --to or --name it is another replay, which begins at the start.
    """
    with reporting_all():
        cluster = Cluster(bootstrap_server, command_config)
        run = Replay(cluster.client_config, topic, where=where, to=to, name=name)
        try:
            targets = Counter((target, record.text(headers.DISPOSITION)) for record, target in run.check(run.records()))
            if not as_json:
                _say_before(run, targets, _others(cluster, topic, run.group))
            count = 0 if dry_run else run.run(lambda count: _progress(count, targets.total()))
        finally:
            run.close()
        if as_json:
            by_target: Counter[str] = Counter()
            for (target, _), number in targets.items():
                by_target[target] += number
            print_json({"topic": topic, "replay": run.group, "found": dict(by_target), "written": count})
        elif dry_run:
            say("Nothing is written: this was a dry run.")
        else:
            say(f"{count_text(count)} written.")


def _say_before(run: Replay, targets: Mapping[tuple[str, str | None], int], others: list[str]) -> None:
    if run.has_begun:
        say("This replay has begun before: what it wrote is not written again.")
    for other in others:
        say(f"Another replay of this topic wrote records too, perhaps the same ones: {other}.")
    if targets:
        print_table(
            ("To", "Disposition", "Records"), [(*target, count) for target, count in sorted(targets.items(), key=str)]
        )
    else:
        say("There is nothing to write.")
    sys.stdout.flush()


def _progress(count: int, total: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{count_text(count)} of {count_text(total)}", err=True, nl=count >= total)


def _others(cluster: Cluster, topic: str, group: str) -> list[str]:
    start = f"{GROUP_PREFIX}{topic}."
    listed: Any = cluster.admin.list_consumer_groups().result()
    names = (each.group_id for each in listed.valid)
    return sorted(name.removeprefix(start) for name in names if name.startswith(start) and name != group)


@app.command()
def drop(
    topic: TopicArgument,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    all_: Annotated[bool, typer.Option("--all", help="Drop all dead letters.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Drop only from this partition.")] = None,
    before_offset: Annotated[
        int | None,
        typer.Option("--before-offset", min=0, help="Drop dead letters before this offset; needs --partition."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="Drop records that became dead letters before this time, such as 2026-01-31T12:00:00Z.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRunOption = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Permanently delete the oldest dead letters of each partition, up to an offset or a time, after asking."""
    with reporting_all():
        if sum((all_, before_offset is not None, before is not None)) != 1:
            raise UsageError("give one of --all, --before-offset, --before")
        if before_offset is not None and partition is None:
            raise UsageError("--before-offset needs --partition: offsets are counted by partition")
        if not topic.startswith(DEAD_LETTER_PREFIX):
            raise UsageError(f"{topic} is not a topic of dead letters: these begin with {DEAD_LETTER_PREFIX}")
        client = Cluster(bootstrap_server, command_config).client_config
        topics = Topics(client)
        count = topics.need(topic)
        if partition is not None and partition >= count:
            raise UsageError(f"{topic} has no partition {partition}; it has {count}, from 0 on")
        numbers = range(count) if partition is None else [partition]
        up_to = _up_to(topics, [(topic, number) for number in numbers], before_offset, before)
        starts = topics.starts(up_to)
        found = Counter((record.topic, record.partition) for record in read_range(client, starts, up_to))
        if not as_json:
            rows = [(partition_name(*each), offset, found[each]) for each, offset in up_to.items()]
            print_table(("Partition", "Up to offset", "Records"), rows)
            sys.stdout.flush()
        if not dry_run and found:
            _ask(topic, found.total(), yes=yes)
            topics.delete_before({each: offset for each, offset in up_to.items() if offset > starts[each]})
        dropped = 0 if dry_run else found.total()
        if as_json:
            print_json({"topic": topic, "found": found.total(), "dropped": dropped})
        else:
            say("Nothing is dropped: this was a dry run." if dry_run else f"{count_text(dropped)} dropped.")


def _up_to(
    topics: Topics, partitions: list[Partition], before_offset: int | None, before: str | None
) -> dict[Partition, int]:
    ends = topics.ends(partitions)
    if before_offset is not None:
        for partition, end in ends.items():
            if before_offset > end:
                raise UsageError(f"{partition_name(*partition)} ends at offset {end}: --before-offset is beyond that")
        return dict.fromkeys(partitions, before_offset)
    if before is None:
        return ends
    try:
        moment = datetime.fromisoformat(before)
    except ValueError:
        raise UsageError(f"--before {before}: write a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise UsageError(f"--before {before}: write Z at its end for UTC")
    return topics.at_time(partitions, round(moment.timestamp() * 1000))


def _ask(topic: str, count: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on: give --yes")
    if not typer.confirm(f"Delete {plural(count, 'dead letter')} of {topic} for good?"):
        raise CommandError("nothing is dropped")


def _reasons(records: Iterable[Record]) -> Counter[str]:
    return Counter(record.text(headers.DISPOSITION) or "not said" for record in records)


def _reasons_text(reasons: Counter[str]) -> str:
    return ", ".join(f"{count_text(count)} {reason}" for reason, count in reasons.most_common())
