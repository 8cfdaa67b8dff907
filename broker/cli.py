"""The commands `highwater broker …`. What they need is imported when they run, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Final = {
    "topics": "Create, list, describe, alter and delete topics.",
    "produce": "Write the lines of standard input to a topic.",
    "consume": "Write the records of a topic to standard output.",
    "groups": "Consumer groups: list, describe, reset or delete offsets, delete.",
    "transactions": "What transactional producers are doing; abort what hangs.",
    "configs": "Show and change the settings of topics, brokers, users and clients.",
    "acls": "Who may do what: list, add and remove ACLs.",
    "users": "Users who log in with SCRAM: list, create, change, delete.",
    "cluster": "Whether a cluster is healthy, and its brokers; run one on this host.",
    "monitoring": "Write a Prometheus configuration, alerts and a Grafana dashboard.",
    "elect": "Have leaders elected: the preferred ones, or any that lives.",
    "reassign": "Move replicas to other brokers.",
    "mirror": "Copy topics from one cluster to another, and keep copying.",
    "log-dirs": "How much disk each partition takes.",
    "check-config": "Say whether a broker would start with a configuration file.",
    "dump-log": "Print and check the files of a log; needs no broker.",
}
"""The commands beside `start`, with what the list of commands says of each."""
OF_BROKERS_HERE: Final = ("cluster", "monitoring", "check-config", "dump-log")
"""Commands of the folder broker/commands; the others are in the room `admin`."""


class _CommandGroup(TyperGroup):
    """Imports the file of a command when the command is called, not to list it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        folder = "broker.commands" if cmd_name in OF_BROKERS_HERE else "admin"
        found = getattr(import_module(f"highwater.{folder}.{name}"), name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        command_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        command_app.command(name=cmd_name)(found)
        return typer.main.get_command(command_app)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        listed = TyperGroup(
            name=self.name,
            help=self.help,
            params=self.params,
            commands={
                **self.commands,
                **{name: TyperCommand(name, help=text) for name, text in COMMANDS.items()},
            },
            rich_markup_mode=self.rich_markup_mode,
        )
        listed.format_help(ctx, formatter)


app = typer.Typer(
    cls=_CommandGroup, no_args_is_help=True, help="A log broker that speaks Kafka's protocol and needs no JVM."
)


@app.callback()
def _group() -> None:
    """Make `start` a command of a group even while it is the only one written here."""


@app.command()
def start(
    log_dir: Annotated[
        Path | None, typer.Option("--log-dir", help="Where the log is kept; made if missing. Also: log.dirs.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.", show_default="9092"),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on and to tell clients.", show_default="127.0.0.1"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A server.properties file with Kafka's property names.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="One property; may be repeated.")
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            metavar="N|auto",
            help="Run in so many processes; auto: one for each core.",
            show_default="one",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Start a broker and run it until SIGTERM or SIGINT; another, a second later, stops it at once.

    When it accepts connections it prints one line, "ready: listening on HOST:PORT (…)", on standard output. Its log
    goes to standard error. Options win over --property, and that over --config. Exit codes: 0 stopped cleanly, 1 failed
    while running, 2 could not start.
    """
    import logging

    from highwater.broker.server import broker
    from highwater.broker.server.start_check import SETUP_ERRORS
    from highwater.broker.settings.config import BrokerConfig, Setting, parse_property_option, read_properties_file
    from highwater.common.command_errors import fail
    from highwater.common.exit_codes import EXIT_NO
    from highwater.common.log_lines import log_to_standard_error

    log_to_standard_error(level=logging.DEBUG if verbose else logging.INFO)
    try:
        settings = read_properties_file(config) if config is not None else []
        settings += [parse_property_option(text) for text in properties or ()]
        if log_dir is not None:
            settings.append(Setting("--log-dir", "log.dirs", str(log_dir)))
        if port is not None or host is not None:
            address = host or "127.0.0.1"
            bracketed = f"[{address}]" if ":" in address else address
            listener = f"PLAINTEXT://{bracketed}:{9092 if port is None else port}"
            settings.append(Setting("--host and --port", "listeners", listener))
        if processes is not None:
            settings.append(Setting("--processes", "highwater.processes", processes))
        checked = BrokerConfig(settings)
        if checked.is_set("highwater.processes"):
            from highwater.broker.server import parent  # only who starts several pays for it

            exit_code = parent.run(settings)
        else:
            exit_code = broker.run(checked)
    except SETUP_ERRORS as error:
        fail(error)
    except KeyboardInterrupt:
        typer.echo("interrupted before it was ready", err=True)
        raise typer.Exit(EXIT_NO) from None
    raise typer.Exit(exit_code)
