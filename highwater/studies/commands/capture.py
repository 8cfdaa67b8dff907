"""`highwater capture …`: a load as a trace without its records; how far two traces are apart.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from highwater.bench.commands.common import AsJson, one_line_errors, parsed
from highwater.common.exit_codes import EXIT_NO
from highwater.common.spark_master import checked_master

if TYPE_CHECKING:
    from pyspark import SparkContext

    from highwater.studies.capture.distances import Distance
    from highwater.studies.capture.on_spark import StartSpark
    from highwater.studies.capture.settings import CaptureSettings
    from highwater.studies.capture.statistics import Level, Statistics
    from highwater.studies.capture.topic import GroupPace

Engine = Literal["local", "spark"]
_DEFAULT_RATE: Final = "10MiB/s"
_OFFSETS: Final = re.compile(r"(\d*):(\d*)")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _CaptureUnlessNamed(TyperGroup):
    """`highwater capture orders …` is `highwater capture from orders …`: a source needs no verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["from", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_CaptureUnlessNamed,
    no_args_is_help=True,
    help="Capture what a topic's load is like, without a byte of its records, and replay it.\n\n"
    "highwater capture SOURCE… --out DIR is short for capture from SOURCE… --out DIR.",
)


@app.command(name="from")
def capture(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE…", help="A topic, or log directories (Highwater's or Apache Kafka's) on disk."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The new directory of the trace.")],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…", help="Brokers of the topic's cluster; without this option SOURCE is on disk."
        ),
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS and SASL properties of a client of the cluster.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Topic to capture, if the log directories have several.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHEN", help="Start of the capture: a time (2026-11-27T14:00, UTC) or an age (2h)."
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="WHEN", help="End of the capture, written as for --from; default: now."),
    ] = None,
    offsets: Annotated[
        str | None, typer.Option(metavar="A:B", help="Capture offsets A to B of each partition, without B itself.")
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Capture live what is written from now on, for this time."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Start at the offsets that this group committed; with --for, also record its pace."
        ),
    ] = None,
    level: Annotated[
        int,
        typer.Option(
            min=0, max=1, help="Detail. 0: only headers of batches; 1: also sizes, keys and headers of records."
        ),
    ] = 1,
    read_rate: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE/s", help=f"Highest read rate; default: {_DEFAULT_RATE} from a cluster, no limit on disk."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the workload; the topic's is not stored.")
    ] = "captured",
    engine: Annotated[
        Engine, typer.Option(help="Read in this process, or in tasks on Spark (for a large topic).")
    ] = "local",
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: local[2].", callback=checked_master)
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Spark configuration, for --engine spark; may be repeated."),
    ] = None,
) -> None:
    """Write a trace of a load: arrivals, batches, sizes, popularity of keys, compressibility, partitions.

    No key, no value, no name of a header, a client or a host is in it. A topic is read without a group and without a
    commit; a group that is named is asked for its offsets and not joined.
    """
    with one_line_errors():
        from highwater.bench.workload.trace_directory import check_new
        from highwater.common.errors import UsageError
        from highwater.common.quantities import BYTE_RATE
        from highwater.pipeline.errors import PipelineError
        from highwater.studies.capture.counts import SpanError
        from highwater.studies.capture.settings import CaptureSettings

        check_new(out)
        if not _NAME.fullmatch(name):
            raise UsageError(f"--name: {name!r} is not a name of a workload; use letters, digits, '.', '_' and '-'")
        limits = _limits(start, end, offsets, duration, group)
        on_disk = bootstrap_servers is None
        _check_engine(engine, master, conf, duration)
        try:
            if on_disk:
                _check_on_disk(sources, duration, group, command_config)
            elif len(sources) > 1 or topic is not None:
                raise UsageError("name one topic as SOURCE; several sources and --topic are for log directories")
            level_wanted: Level = 1 if level else 0
            read_rate = read_rate or (None if on_disk else _DEFAULT_RATE)
            rate = None if read_rate is None else float(parsed("--read-rate", BYTE_RATE.above_zero, read_rate))
            settings = CaptureSettings(level_wanted, secrets.token_bytes(32), rate)
            pace = None
            start_spark = _spark(engine, master, conf)
            if bootstrap_servers is None:
                statistics = _from_files([Path(each) for each in sources], topic, settings, limits, start_spark)
            else:
                options = _source_options(bootstrap_servers, command_config)
                typer.echo(
                    f"reading topic {sources[0]}, {read_rate} at most; Ctrl-C ends the capture without a trace",
                    err=True,
                )
                statistics, pace = _from_topic(sources[0], options, settings, limits, start_spark)
            _write(out, statistics, pace, name, on_disk=on_disk)
        except (PipelineError, SpanError) as error:
            raise UsageError(str(error)) from None


def _check_engine(engine: Engine, master: str | None, conf: list[str] | None, duration: str | None) -> None:
    from highwater.common.errors import UsageError

    if engine == "spark":
        if duration is not None:
            raise UsageError("--for reads what is written now, which one process does; leave --engine spark out")
        return
    for option, value in (("--master", master), ("--conf", conf)):
        if value is not None:
            raise UsageError(f"{option} is for --engine spark")


def _spark(engine: Engine, master: str | None, conf: list[str] | None) -> StartSpark | None:
    """None: this process reads."""
    if engine == "local":
        return None
    from highwater.bench.commands.common import pairs_of
    from highwater.studies.spark_session import DEFAULT_MASTER

    return partial(_context, master or DEFAULT_MASTER, pairs_of(conf, "--conf"))


@contextlib.contextmanager
def _context(master: str, conf: dict[str, str]) -> Iterator[SparkContext]:
    from highwater.studies.spark_session import spark_session

    with spark_session("highwater-capture", master, conf) as session:
        yield session.sparkContext


class _Limits:
    """What the options of the range say."""

    def __init__(self) -> None:
        self.start_ms: int | None = None
        self.end_ms: int | None = None
        self.start_offset: int | None = None
        self.end_offset: int | None = None
        self.for_s: float | None = None
        self.group: str | None = None


def _limits(
    start: str | None, end: str | None, offsets: str | None, duration: str | None, group: str | None
) -> _Limits:
    from highwater.common.errors import UsageError
    from highwater.common.quantities import parse_duration_s

    limits = _Limits()
    limits.start_ms, limits.end_ms = _time_ms("--from", start), _time_ms("--to", end)
    if limits.start_ms is not None and limits.end_ms is not None and limits.start_ms >= limits.end_ms:
        raise UsageError(f"--from {start} is not before --to {end}")
    if offsets is not None:
        match = _OFFSETS.fullmatch(offsets)
        if match is None or offsets == ":" or (match[1] and match[2] and int(match[1]) >= int(match[2])):
            raise UsageError(f"--offsets: {offsets!r} is not a range A:B with A below B, for example 1000:2000")
        limits.start_offset, limits.end_offset = (int(each) if each else None for each in match.groups())
    if duration is not None:
        if start is not None or end is not None or offsets is not None:
            raise UsageError("--for is of what is written from now on; leave --from, --to and --offsets out")
        limits.for_s = parsed("--for", parse_duration_s, duration)
        if not limits.for_s:
            raise UsageError("--for: 0s is not a time to capture anything in")
    if group is not None and (start is not None or offsets is not None):
        raise UsageError("--group begins at what the group has committed; leave --from and --offsets out")
    limits.group = group
    return limits


def _time_ms(option: str, text: str | None) -> int | None:
    from highwater.common.errors import UsageError
    from highwater.common.quantities import DURATION
    from highwater.common.units import NANOSECONDS

    if text is None:
        return None
    if (age_ns := DURATION.amount(text)) is not None:
        return int(time.time() * 1000 - float(age_ns / NANOSECONDS["ms"]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is neither a time like 2026-11-27T14:00 nor an age like 2h") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _check_on_disk(sources: list[str], duration: str | None, group: str | None, command_config: Path | None) -> None:
    from highwater.common.errors import UsageError

    for option, value in (("--for", duration), ("--group", group), ("--command-config", command_config)):
        if value is not None:
            raise UsageError(f"{option} needs a running cluster; name it with --bootstrap-servers")
    for source in sources:
        if not Path(source).exists():
            raise UsageError(f"{source} is not on this disk; to capture a topic, name its cluster: --bootstrap-servers")


def _from_files(
    sources: list[Path], topic: str | None, settings: CaptureSettings, limits: _Limits, start_spark: StartSpark | None
) -> Statistics:
    from highwater.spark_loadgen.compression import compressions
    from highwater.studies.capture.log_files import partition_folders, read_folders
    from highwater.studies.capture.observing import OFFSET_MAX, Window

    name, folders = partition_folders(sources, topic)
    window = Window(limits.start_offset or 0, limits.end_offset or OFFSET_MAX, limits.start_ms, limits.end_ms)
    if start_spark is None:
        statistics = settings.statistics()
        read_folders(name, folders, statistics, window, compressions(), settings.limit_of_one(1))
        return statistics
    from highwater.studies.capture.on_spark import files_on_spark

    return files_on_spark(start_spark, name, folders, window, settings)


def _source_options(bootstrap_servers: str, command_config: Path | None) -> dict[str, str]:
    """Options of the source `highwater`."""
    from highwater.bench.workload.command_config import read_command_config
    from highwater.common.errors import UsageError
    from highwater.pipeline.errors import SettingsError
    from highwater.pipeline.kafka.settings import options_of

    connection = {} if command_config is None else read_command_config(command_config)
    try:
        return options_of({"bootstrap.servers": bootstrap_servers, "client.id": "highwater-capture", **connection})
    except SettingsError as error:
        raise UsageError(f"--command-config: {error}") from None


def _from_topic(
    topic: str, options: dict[str, str], settings: CaptureSettings, limits: _Limits, start_spark: StartSpark | None
) -> tuple[Statistics, GroupPace | None]:
    from highwater.studies.capture.topic import TopicRange, TopicReader

    wanted = TopicRange(
        topic, limits.start_ms, limits.end_ms, limits.start_offset, limits.end_offset, limits.for_s, limits.group
    )
    if start_spark is not None:
        from highwater.studies.capture.on_spark import topic_on_spark

        return topic_on_spark(start_spark, options, wanted, settings), None
    from highwater.pipeline.kafka.client import Client
    from highwater.pipeline.kafka.settings import settings_of
    from highwater.spark_loadgen.compression import compressions

    with Client(settings_of(options)) as client:
        reader = TopicReader(client, wanted, settings.statistics(), compressions(), settings.limit_of_one(1))
        reader.read()
    return reader.statistics, reader.pace


def _write(out: Path, statistics: Statistics, pace: GroupPace | None, name: str, *, on_disk: bool) -> None:
    from highwater.bench.workload.trace_directory import WORKLOAD, Group, write_trace
    from highwater.common.units import count_text, duration_text, rate_text, size_text
    from highwater.studies.capture.fitting import workload_text
    from highwater.studies.capture.summing import parts_of

    group = Group(consumed=pace.consumed, lag=pace.lag) if pace is not None and pace.consumed else None
    manifest, distributions, arrivals = parts_of(statistics, "files" if on_disk else "topic", group)
    trace = write_trace(out, manifest, distributions, arrivals, lambda whole: {WORKLOAD: workload_text(whole, name)})
    lasts_s = manifest.lasts_ms / 1000
    typer.echo(
        f"{out}: {count_text(manifest.records)} records in {duration_text(lasts_s)} from {manifest.starts_at} on, "
        f"{rate_text(manifest.records / lasts_s)}, {manifest.partitions} partitions; "
        f"{size_text(statistics.read_bytes)} were read"
    )
    for note in trace.manifest.notes:
        typer.echo(f"note: {note}", err=True)
    # Plain processes, because Spark on a host with few cores has too few slots for the clients of many loads.
    workload = shlex.quote(str(out / WORKLOAD))
    typer.echo(f"replay it with: highwater bench run {workload} --launcher process --out RESULTS")


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="TRACE_A", help="The trace that was replayed.")],
    after: Annotated[Path, typer.Argument(metavar="TRACE_B", help="A trace of the replay.")],
    speed: Annotated[float, typer.Option(min=0.0001, help="How many times faster than A the replay B ran.")] = 1.0,
    share: Annotated[float, typer.Option(min=0.000001, help="Share of A's records that the replay B sent.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Print the distances between two traces. Exit status 0 if all are within their bounds, 1 if one is not."""
    with one_line_errors():
        from highwater.bench.workload.trace_directory import read_trace
        from highwater.studies.capture.distances import distances

        one, other = read_trace(before), read_trace(after)
        found = distances(one, other, speed, share)
        if as_json:
            typer.echo(json.dumps([_as_json(distance) for distance in found], indent=2))
        else:
            _print(found)
            for path, trace in ((before, one), (after, other)):
                for note in trace.manifest.notes:
                    typer.echo(f"note: {path}: {note}", err=True)
        if not all(distance.within for distance in found):
            raise typer.Exit(EXIT_NO)


def _as_json(distance: Distance) -> dict[str, object]:
    return {
        "name": distance.name,
        "distance": distance.distance,
        "bound": distance.bound,
        "within": distance.within,
        "before": distance.before,
        "after": distance.after,
    }


def _print(found: list[Distance]) -> None:
    from highwater.common.units import NONE, significant

    rows: list[tuple[str, ...]] = [("", "distance", "bound", "A", "B", "")]
    for each in found:
        figures = [NONE if value is None else significant(value) for value in (each.bound, each.before, each.after)]
        judged = "" if each.bound is None else "within" if each.within else "outside"
        rows.append((each.name, significant(each.distance), *figures, judged))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        figures = [cell.rjust(width) for cell, width in zip(cells[:-1], widths[1:-1], strict=True)]
        typer.echo("  ".join([name.ljust(widths[0]), *figures, cells[-1]]).rstrip())
