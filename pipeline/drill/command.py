"""`highwater pipeline drill`: its options, its output, its exit status."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.common.command_errors import errors_in_one_line
from highwater.common.errors import MissingDependencyError
from highwater.common.exit_codes import EXIT_STEP_FAILED, EXIT_USAGE
from highwater.common.extras import how_to_install
from highwater.common.java_properties import parse_properties
from highwater.common.nearest import did_you_mean
from highwater.common.spark_master import checked_master
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import as_librdkafka_has_it
from highwater.pipeline.drill import kinds
from highwater.pipeline.drill.cluster import DrillCluster
from highwater.pipeline.drill.drill import Asked, drill
from highwater.pipeline.drill.errors import DrillSetupError
from highwater.pipeline.drill.kinds import KINDS, Kind
from highwater.pipeline.drill.model import RANDOM, Moment, Victim
from highwater.pipeline.drill.outputs import FileOutput, Output, TopicOutput
from highwater.pipeline.drill.servers import CommandServer, Server
from highwater.pipeline.drill.track import PARTITIONS
from highwater.pipeline.drill.user_file import load
from highwater.pipeline.drill.verdict import table
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.kafka.settings import options_of

_VICTIM_NAMES: Final = ", ".join(victim.value for victim in Victim)
_NAMES: Final = tuple(name for name in KINDS if name != kinds.FILE)


def run_drill(
    sink: Annotated[
        str,
        typer.Option(
            "--sink",
            metavar="SINK",
            help=f"{', '.join(_NAMES)}, or a Python file with write(frame, batch_id, folder) and read(folder).",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for results; a stopped drill continues there.")] = None,
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT,...", help="Brokers of your cluster; without this option the drill starts a broker."
        ),
    ] = "",
    command_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file of client properties (TLS, SASL), as Kafka's tools take it."),
    ] = None,
    query: Annotated[
        str,
        typer.Option(
            metavar="FILE.py", help="File with your query: transform(frame) returns one row for each row, with its key."
        ),
    ] = "",
    database: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="HIGHWATER_DATABASE",
            help="URL of the database; HIGHWATER_DATABASE keeps it out of the process list.",
        ),
    ] = "",
    directory: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Parent of the folder of a Parquet, Delta or Iceberg sink. Default: temporary."
        ),
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds that have to count.")] = 40,
    points: Annotated[str, typer.Option(metavar="NAME,...", help="Crash points, and `random`. Default: all.")] = "",
    victims: Annotated[
        str,
        typer.Option(metavar="NAME,...", help=f"Victims to kill: {_VICTIM_NAMES}. Default: all that can be killed."),
    ] = "",
    kill_broker: Annotated[
        str, typer.Option(metavar="COMMAND", help="Command that kills a broker of your cluster and starts it again.")
    ] = "",
    kill_database: Annotated[
        str, typer.Option(metavar="COMMAND", help="Command that kills the database server and starts it again.")
    ] = "",
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark master; default: local[2].", callback=checked_master)
    ] = "",
    without: Annotated[
        str, typer.Option(metavar="SAFEGUARD", help="Remove a safeguard: the drill has to notice.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Seed of the drill's plan; the same seed repeats the plan.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave topics, tables and checkpoints in place.")] = False,
) -> None:
    """Check that a pipeline delivers exactly once: kill its parts at named crash points, then count every record.

    Reads a topic with format("highwater") through your query into a sink, both made for the drill and removed at its
    end, and kills a victim in each round. The last line is the verdict.

    Exit codes: 0 proven; 2 usage error; 4 not proven: some crash points were not hit often enough; 5 the drill failed;
    10 records were lost or duplicated.
    """
    folder = out or Path("results") / f"drill-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    mistakes = dict.fromkeys((DrillSetupError, MissingDependencyError, SettingsError), EXIT_USAGE)
    exit_codes = mistakes | {PipelineError: EXIT_STEP_FAILED}
    with errors_in_one_line(exit_codes, interrupted=f"stopped; --out {folder} continues"):
        asked = _asked(
            sink,
            folder,
            bootstrap_servers,
            command_config,
            query,
            database,
            directory,
            rounds,
            points,
            victims,
            {Victim.BROKER: kill_broker, Victim.DATABASE: kill_database},
            master,
            without,
            random.SystemRandom().randrange(2**32) if seed is None else seed,
            keep,
        )
        typer.echo(f"seed {asked.seed}; results in {folder}")
        ((verdict, results),) = drill([asked], typer.echo)
    typer.echo(table(results, verdict))
    typer.echo(verdict.sentence)
    raise typer.Exit(verdict.exit_status)


def _asked(
    sink: str,
    out: Path,
    bootstrap_servers: str,
    command_config: Path | None,
    query: str,
    database: str,
    directory: str,
    rounds: int,
    points: str,
    victims: str,
    commands: dict[Victim, str],
    master: str,
    without: str,
    seed: int,
    keep: bool,
) -> Asked:
    kind_name = kinds.FILE if sink.endswith(".py") else sink
    if kind_name not in _NAMES and kind_name != kinds.FILE:
        known = ", ".join(_NAMES)
        raise DrillSetupError(f"--sink {sink} is neither one of {known} nor a Python file{did_you_mean(sink, _NAMES)}")
    kind = KINDS[kind_name]
    if without and without not in kind.safeguards:
        raise DrillSetupError(f"--without {without}: the safeguards of {sink} are {', '.join(kind.safeguards)}")
    if query:
        load(Path(query), ["transform"])
    properties = _properties(bootstrap_servers, command_config)
    servers: dict[Victim, Server] = {victim: CommandServer(text) for victim, text in commands.items() if text}
    return Asked(
        kind=kind_name,
        rounds=rounds,
        seed=seed,
        out=out,
        make_output=output_of(kind_name, sink, database, directory),
        properties=properties,
        source=options_of(properties) if properties else {},
        servers=servers,
        transform=str(Path(query).resolve()) if query else "",
        moments=_moments(points, kind),
        victims=_victims(victims),
        master=master,
        without=without,
        keeps=keep,
    )


def _properties(bootstrap_servers: str, command_config: Path | None) -> dict[str, str]:
    if not bootstrap_servers:
        if command_config is not None:
            raise DrillSetupError("--command-config needs --bootstrap-servers")
        return {}
    try:
        lines = parse_properties(command_config.read_text("utf-8")) if command_config is not None else []
    except (OSError, ValueError) as error:
        raise DrillSetupError(f"{command_config} cannot be read: {error}") from None
    try:
        given = as_librdkafka_has_it({line.name: line.value for line in lines})
    except ClientSettingsError as error:
        raise DrillSetupError(f"{command_config}: {error}") from None
    return {**given, "bootstrap.servers": bootstrap_servers}


def output_of(kind: str, sink: str, database: str, directory: str = "") -> Callable[[str, Path, DrillCluster], Output]:
    if kind == kinds.FILE:
        path = Path(sink)
        load(path, ["write", "read"])
        return lambda name, folder, cluster: FileOutput(kind, path, folder / "output")
    if kind in (kinds.TOPIC_BATCH, kinds.TOPIC_PARTITION):
        return lambda name, folder, cluster: TopicOutput(kind, f"{name}-output", PARTITIONS, cluster)
    if kind == kinds.PARQUET:
        from highwater.pipeline.drill.parquet_output import ParquetOutput

        return lambda name, folder, cluster: ParquetOutput(kind, (Path(directory) if directory else folder) / name)
    if kind in (kinds.DELTA, kinds.ICEBERG):
        try:
            from highwater.pipeline.drill.lake_tables_output import LakeTableOutput
        except ImportError as error:
            raise DrillSetupError(f"--sink {kind} needs {error.name}: {how_to_install('delta,iceberg')}") from None

        return lambda name, folder, cluster: LakeTableOutput(kind, (Path(directory) if directory else folder) / name)
    if not database and kind != kinds.SQLITE:
        raise DrillSetupError(f"--sink {kind} needs --database URL, such as {kind}://USER@HOST:PORT/DATABASE")
    scheme = database.partition(":")[0]
    if database and scheme != kind and (kind, scheme) != (kinds.MARIADB, "mysql"):
        raise DrillSetupError(f"--sink {kind} does not fit a database URL that begins with {scheme}:")
    from highwater.pipeline.drill.table_output import TableOutput  # only who drills a database needs its client

    return lambda name, folder, cluster: TableOutput(
        kind, database or f"sqlite:{folder / 'output.db'}", name.replace("-", "_")
    )


def _moments(text: str, kind: Kind) -> tuple[Moment, ...]:
    known = {point.value: point for point in kind.points}
    found: list[Moment] = []
    for name in filter(None, (each.strip() for each in text.split(","))):
        if name != RANDOM and name not in known:
            raise DrillSetupError(
                f"--points {name} is none of {', '.join((*known, RANDOM))}{did_you_mean(name, known)}"
            )
        found.append(known.get(name))
    return tuple(found)


def _victims(text: str) -> tuple[Victim, ...]:
    known = {victim.value: victim for victim in Victim}
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if name not in known:
            raise DrillSetupError(f"--victims {name} is none of {', '.join(known)}{did_you_mean(name, known)}")
    return tuple(known[name] for name in names)
