"""The commands `highwater monitor …` and `highwater top`; what they need is imported when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.common.command_errors import errors_in_one_line
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_NO, EXIT_USAGE
from highwater.common.log_lines import one_line
from highwater.monitor.errors import MonitorError

if TYPE_CHECKING:
    from highwater.monitor.config import MonitorConfig
    from highwater.monitor.users import Users

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="See what a cluster does, what it did, and what is wrong.\n\n"
    "Exit codes: 0 done; 1 the cluster has an error (top --once); 2 usage error; 130 interrupted.",
)
user_app = typer.Typer(no_args_is_help=True, help="Manage the users who may log in to the pages.")
app.add_typer(user_app, name="user")

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to connect to first; one that answers is enough.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config", metavar="FILE", help="A file of client properties (TLS, SASL), as Kafka's tools take it."
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="The monitor's YAML file.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Folder of users and history; by default one for each cluster, below your home."
    ),
]


@contextmanager
def _reporting() -> Iterator[None]:
    """Turn an error into one line and an exit status."""
    from highwater.monitor.users import UsersError

    with errors_in_one_line(dict.fromkeys((MonitorError, UsageError, UsersError), EXIT_USAGE)):
        yield


@app.command()
def serve(
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    config: ConfigFile = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of the pages; 127.0.0.1:9644 by default.")
    ] = None,
    data: Data = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...[/CHROOT]", help="ZooKeeper of the cluster, written as in zookeeper.connect."
        ),
    ] = None,
    zookeeper_config: Annotated[
        Path | None,
        typer.Option(
            "--zookeeper-config",
            metavar="FILE",
            help="TLS and login for ZooKeeper; takes the brokers' zookeeper.ssl.* and related properties.",
        ),
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="Let operators change the cluster on pages; each change is confirmed.")
    ] = False,
    tls_certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Serve the pages over TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy on this host terminates TLS; its headers are trusted.")
    ] = False,
    base_path: Annotated[
        str | None, typer.Option(metavar="/PATH", help="Path of the pages, which a proxy must pass on as it is.")
    ] = None,
) -> None:
    """Watch a cluster, keep its history, and serve the pages, until SIGTERM or Ctrl-C.

    Prints the address, and a link for the first login while there are no users.
    """
    with _reporting():
        from highwater.monitor.config import with_options
        from highwater.monitor.serve_command import serve as run

        found = with_options(
            _config(bootstrap, config),
            listen=listen,
            data=data,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            is_behind_proxy=behind_proxy,
            base_path=base_path,
            client=_properties(command_config),
            zookeeper=zookeeper,
            zookeeper_client=_properties(zookeeper_config),
            has_actions=actions,
        )
        run(found, os.environ)


@app.command()
def top(
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    config: ConfigFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once, in full, and exit.")] = False,
    interval: Annotated[float, typer.Option(min=1, max=300, help="Seconds between two updates.")] = 5.0,
) -> None:
    """Show the cluster in the terminal: what is wrong first, then brokers, groups and topics.

    It needs no `monitor serve`, and writes nothing. With --once: exit status 1 if something is an error.
    """
    with _reporting():
        from highwater.monitor.config import with_options
        from highwater.monitor.top_command import run

        found = with_options(_config(bootstrap, config), client=_properties(command_config))
        is_well = run(found, is_once=once, interval_s=interval)
    if not is_well:
        raise typer.Exit(EXIT_NO)


@app.command()
def demo(
    brokers: Annotated[int, typer.Option(min=1, max=5, help="Number of brokers.")] = 3,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the pages; port 0 takes a free one.")] = (
        "127.0.0.1:9644"
    ),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser, if there is one.")] = True,
) -> None:
    """Start a small cluster with load, and the monitor on it; Ctrl-C ends all of it and removes its files."""
    with _reporting():
        from highwater.monitor.demo import run

        run(brokers, listen, opens_browser=browser)


@app.command("export")
def export(
    parquet: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for one Parquet file of each table.")],
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    data: Data = None,
) -> None:
    """Write the history as files that others can read, while the monitor runs or not.

    Select the history as in `serve`: with -b, -c or --data.
    """
    with _reporting():
        from highwater.common.units import count_text
        from highwater.monitor.history.database import open_to_read
        from highwater.monitor.history.export import export_parquet

        found = _data_config(bootstrap, config, data)
        database = open_to_read(found.history.address, found.folder(os.environ))
        try:
            for path, rows in export_parquet(database, parquet):
                typer.echo(f"{path}: {count_text(rows)} rows")
        finally:
            database.close()


@app.command()
def attach(
    result: Annotated[Path, typer.Argument(metavar="DIR", help="A result directory of bench run.")],
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    data: Data = None,
) -> None:
    """Copy what the history has of a bench run's time into the run's result directory, for its report.

    Select the history as in `serve`: with -b, -c or --data. The monitor may run
    meanwhile.
    """
    with _reporting():
        from highwater.common.units import count_text, plural
        from highwater.monitor.bench_window import attach as run
        from highwater.monitor.history.database import open_to_read
        from highwater.monitor.history.reader import HistoryReader
        from highwater.results.files import ResultDirectoryError

        found = _data_config(bootstrap, config, data)
        database = open_to_read(found.history.address, found.folder(os.environ))
        try:
            window = run(result, HistoryReader(database), database.shown)
        except ResultDirectoryError as error:
            raise MonitorError(str(error)) from None
        finally:
            database.close()
        counts = f"{count_text(len(window.lines))} series, {plural(len(window.events), 'event')}"
        typer.echo(f"{result}: {counts} of {window.cluster}; now: highwater report {result}")


@app.command("load-file")
def load_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The load file to write; it must not exist.")],
    days: Annotated[float, typer.Option(min=1, max=730, help="Days of the history to use, back from its end.")] = 14.0,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    config: ConfigFile = None,
    data: Data = None,
) -> None:
    """Write a load file for `highwater plan` from the history: what the cluster carries, and how that grows.

    Select the history as in `serve`: with -b, -c or --data. With -b or -c the
    cluster is also asked for the settings of its topics. Values that are not known are marked in the file.
    """
    with _reporting():
        from highwater.monitor.config import with_options
        from highwater.monitor.load_command import run

        found = with_options(_data_config(bootstrap, config, data), client=_properties(command_config))
        typer.echo(run(file, found, days, os.environ))


# -- Users -------------------------------------------------------------------------------------------------------------

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@user_app.command("add")
def add_user(
    name: Name,
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "viewer",
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File whose first line is the password; without it you are asked."),
    ] = None,
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    data: Data = None,
) -> None:
    """Add a user who may log in. Select the monitor as in `serve`: with -b, -c or --data."""
    with _reporting():
        from highwater.common.nearest import did_you_mean
        from highwater.monitor.users import Role

        roles = {each.title: each for each in Role}
        if role not in roles:
            hint = did_you_mean(role, roles) or f"; use one of {', '.join(roles)}"
            raise UsageError(f"--role {role}: there is no such role{hint}")
        password = _password(password_file)
        with _users(bootstrap, config, data, is_made=True) as users:
            users.add(name, password, roles[role])
        typer.echo(f"{name} may log in as {role}")


@user_app.command("list")
def list_users(bootstrap: Bootstrap = None, config: ConfigFile = None, data: Data = None) -> None:
    """List the users who may log in."""
    with _reporting(), _users(bootstrap, config, data) as users:
        found = users.users()
        for each in found:
            notes = ["disabled"] * each.is_disabled + [f"by {each.issuer}"] * bool(each.issuer)
            typer.echo("\t".join(map(one_line, [each.name, each.role.title, *notes])))
        if not found:
            typer.echo("There are no users: `highwater monitor serve` prints a link for the first login.", err=True)


@user_app.command("remove")
def remove_user(name: Name, bootstrap: Bootstrap = None, config: ConfigFile = None, data: Data = None) -> None:
    """Remove a user and end the user's sessions."""
    with _reporting(), _users(bootstrap, config, data) as users:
        users.remove(name)
        typer.echo(f"{name} is removed")


@contextmanager
def _users(bootstrap: str | None, config: Path | None, data: Path | None, *, is_made: bool = False) -> Iterator[Users]:
    """A folder that has no users yet gets a place for them if `is_made`, or if a file of a monitor names the folder."""
    from highwater.monitor.users import FILE_OF_USERS, users_in

    found = _data_config(bootstrap, config, data)
    folder = found.folder(os.environ)
    if not (is_made or config or (folder / FILE_OF_USERS).exists()):
        raise UsageError(f"{folder}: no monitor keeps users there; name the folder that `monitor serve` prints")
    users = users_in(folder, found.web.issuer, has_local=found.web.has_local_users)
    try:
        yield users
    finally:
        users.close()


def _password(file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask for the password: give --password-file FILE")
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        return file.read_text("utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot read the password: {getattr(error, 'strerror', error)}") from None


# -- Options -----------------------------------------------------------------------------------------------------------


def _config(bootstrap: str | None, file: Path | None) -> MonitorConfig:
    from dataclasses import replace

    from highwater.monitor.config import MonitorConfig, read_config

    if file is None:
        if bootstrap is None:
            raise UsageError("which cluster? give -b HOST:PORT, or -c FILE with bootstrap_servers")
        return MonitorConfig(bootstrap)
    import yaml

    found = read_config(file, yaml, os.environ)
    if bootstrap is not None:
        found = replace(found, bootstrap_servers=bootstrap)
    if not found.bootstrap_servers:
        raise UsageError(f"{file}: bootstrap_servers is missing; give it there or with -b HOST:PORT")
    return found


def _data_config(bootstrap: str | None, file: Path | None, data: Path | None) -> MonitorConfig:
    """Return the configuration of a command that needs the data alone: --data is enough."""
    from highwater.monitor.config import MonitorConfig, with_options

    if bootstrap is None and file is None and data is None:
        raise UsageError("which monitor? give --data DIR, or -b HOST:PORT or -c FILE as for serve")
    found = MonitorConfig("") if bootstrap is None and file is None else _config(bootstrap, file)
    return with_options(found, data=data)


def _properties(file: Path | None) -> Mapping[str, str]:
    from highwater.common.java_properties import MalformedEscape, parse_properties

    if file is None:
        return {}
    try:
        return {each.name: each.value for each in parse_properties(file.read_text("utf-8"))}
    except MalformedEscape as error:
        raise UsageError(f"{file}:{error.line}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot read it: {getattr(error, 'strerror', error)}") from None
