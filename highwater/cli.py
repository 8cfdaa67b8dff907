"""The console command `highwater`: mounts the command groups of the rooms and does nothing else."""

from __future__ import annotations

import atexit
import signal
import sys
from functools import reduce
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from highwater.common.plain_letters import show_all

# Command -> its room's module, and what of it is mounted.
ROOMS: Final = {
    "advise": ("highwater.bench.commands.advise", "advise"),
    "bench": ("highwater.bench.cli", "app"),
    "broker": ("highwater.broker.cli", "app"),
    "capture": ("highwater.bench.commands.capture", "app"),
    "monitor": ("highwater.monitor.cli", "app"),
    "pipeline": ("highwater.pipeline.cli", "app"),
    "plan": ("highwater.bench.cli", "plan"),
    "report": ("highwater.reports.cli", "report"),
    "top": ("highwater.monitor.cli", "top"),
    "tune": ("highwater.tuning.cli", "app"),
}
# Verbs that one room brings to another's commands, by the group that they join: the two do not know each other.
# Verb -> the module, what of it is mounted, and what the list of commands says of it.
_MESSAGING: Final = "highwater.pipeline.messaging.commands"
GUESTS: Final[dict[str, dict[tuple[str, ...], dict[str, tuple[str, str, str]]]]] = {
    "tune": {
        (): {
            "agent": (
                "highwater.bench.commands.agent",
                "agent",
                "Serve the state of this host to a monitor: load, memory, disks, tuning and drift.",
            ),
            "prove": (
                "highwater.bench.commands.prove",
                "prove",
                "Measure the effect of settings on this host: off and on in turn.",
            ),
        }
    },
    "bench": {
        ("history",): {
            "report": ("highwater.reports.cli", "history_report", "Write a history as one HTML file."),
        }
    },
    "broker": {
        (): {
            "dlq": (f"{_MESSAGING}.dlq", "app", "Dead letters: list, show, replay exactly once, drop."),
            "retry": (f"{_MESSAGING}.waiting", "retry", "Records that are tried again: what waits; run the mover."),
            "delay": (f"{_MESSAGING}.waiting", "delay", "Delayed records: what waits; run the mover."),
            "trace": (f"{_MESSAGING}.trace", "trace", "Print the way of one record over topics."),
        }
    },
}
# What each extra brings, as it is imported: without them a host has its broker and its tuner all the same.
# pydantic is no sign of one, as typer brings that too.
EXTRAS: Final = {
    "advise": frozenset({"optuna"}),
    "bench": frozenset({"hdrh", "jinja2", "markupsafe", "numpy", "pyspark", "scipy", "yaml"}),
    "monitor": frozenset({"jinja2", "markupsafe", "sqlalchemy", "starlette", "uvicorn", "yaml"}),
    "pipeline": frozenset({"google", "numpy", "pandas", "pyarrow", "pyspark", "yaml"}),
}
# Which extras a command may lack, the nearest first. Live figures, a part of bench, need both.
_EXTRAS_OF: Final = {
    "advise": ("bench", "advise"),
    "monitor": ("monitor", "pipeline"),
    "pipeline": ("pipeline", "bench"),
    "top": ("monitor",),
}


class _Rooms(TyperGroup):
    """Imports a room when its command is asked for: a broker that starts waits for no other room."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ROOMS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in ROOMS:
            return None
        module, name = ROOMS[cmd_name]
        found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            command: Any = typer.main.get_group(found)
            for path, guests in GUESTS.get(cmd_name, {}).items():
                group = reduce(lambda parent, part: parent.commands[part], path, command)
                group.commands = _WithGuests(group.commands, guests)
            command.name = cmd_name
            return command
        return _alone(found, cmd_name)


class _WithGuests(dict[str, Any]):
    """The commands of a group and its guests: a guest is imported when it is looked up, and not to be listed."""

    def __init__(self, commands: dict[str, Any], guests: dict[str, tuple[str, str, str]]) -> None:
        listed = {verb: TyperCommand(verb, help=text) for verb, (_, _, text) in guests.items()}
        super().__init__(commands | listed)
        self._guests = guests

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self._guests:
            return super().get(name, default)
        module, guest, _ = self._guests[name]
        found = getattr(import_module(module), guest)
        if not isinstance(found, typer.Typer):
            return _alone(found, name)
        group = typer.main.get_group(found)
        group.name = name
        return group


def _alone(function: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    # Each paragraph on one line, for the terminal to break where it is narrow.
    paragraphs = (" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))
    app.command(help="\n\n".join(paragraphs))(function)
    command = typer.main.get_command(app)
    command.name = name
    return command


app = typer.Typer(
    cls=_Rooms,
    name="highwater",
    help="Benchmark and tune hosts for Kafka-protocol log brokers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib import metadata  # here, as no other call needs it

        typer.echo(f"highwater {metadata.version('highwater')}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Make it a group: its commands are the rooms'."""


def main() -> None:
    """Entry point of the console command. A mistake in the call itself gets one line and exit status 2."""
    # An impatient Ctrl-C while Python takes itself down would kill it, whatever status it was about to give.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        show_all(stream)
    try:
        status = app(standalone_mode=False)
    except typer.Abort:
        status = 130
    except TyperException as error:
        message = error.format_message().strip()
        if message:  # a group called without a command has printed its help, and has nothing to add
            typer.echo(f"error: {message}", err=True)
        status = error.exit_code
    except ModuleNotFoundError as error:
        order = _EXTRAS_OF.get(sys.argv[1] if sys.argv[1:] else "", ("bench", "pipeline"))
        package = (error.name or "").partition(".")[0]
        extra = next((name for name in order if package in EXTRAS[name]), None)
        if extra is None:
            raise
        command = " ".join(("highwater", *sys.argv[1:2]))
        from highwater.common.extras import how_to_install  # here, as no other call needs it

        typer.echo(f"error: {command} needs {error.name}: {how_to_install(extra)}", err=True)
        status = 2
    sys.exit(status)
