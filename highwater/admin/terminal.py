"""The output of every command: tables for people, JSON for programs, one line for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.common.command_errors import errors_in_one_line
from highwater.common.exit_codes import EXIT_NO, EXIT_USAGE
from highwater.common.log_lines import escaped_json, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from highwater.common.figure_table import FigureTable

ANONYMOUS: Final = "User:ANONYMOUS"
"""Who comes without a login and without a certificate, as brokers name it."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


class CommandError(Exception):
    """Why a command failed, in one line that names the cause and what to do."""

    exit_code = EXIT_NO


class UsageError(CommandError):
    """The options of a command are wrong, or no broker answers."""

    exit_code = EXIT_USAGE


_DENIED: Final = "AUTHORIZATION_FAILED"
_principals: ContextVar[tuple[str, ...]] = ContextVar("principals", default=())


def acts_as(principal: str) -> None:
    """Name the principal of this command, for an error that says that it may not do something."""
    if principal not in _principals.get():
        _principals.set((*_principals.get(), principal))


def _way_out(text: str) -> str:
    principals = _principals.get()
    if not principals or _DENIED not in text:
        return ""
    who = " or ".join(principals)
    way_out = "a user of super.users can give the right (highwater broker acls --add)"
    if who == ANONYMOUS:
        way_out = "log in as a user who has the right, or as one of super.users (--command-config FILE)"
    return f"; this client is {who}: {way_out}"


@contextmanager
def reporting() -> Iterator[None]:
    """Turn an exception that ends a command into one line and an exit code."""
    _principals.set(())
    kinds: dict[type[Exception], int] = {kind: kind.exit_code for kind in (UsageError, CommandError)}
    with errors_in_one_line(kinds, lambda error: f"{error}{_way_out(str(error))}"):
        yield


def say(text: str) -> None:
    """Print one line, in which no name can command the terminal; `reporting` flushes."""
    sys.stdout.write(one_line(text) + "\n")


def say_aside(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(one_line(text), err=True)


def say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def print_json(document: Any) -> None:
    sys.stdout.write(escaped_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")


def print_json_line(document: Any) -> None:
    sys.stdout.write(escaped_json(json.dumps(document, ensure_ascii=False, separators=(",", ":"))) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """Print a table. Numbers are aligned right; None shows as a dash. Text is never cut off."""
    from rich.text import Text

    console = table_console()
    if title:
        console.print(Text(one_line(title), style="bold"))
    table(columns, rows).print_to(console)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, leaves_out: Sequence[str] | None = None
) -> FigureTable:
    """Return the table that `print_table` prints. `leaves_out`: of a screen, as FigureTable has it."""
    from rich.text import Text

    from highwater.common.figure_table import FigureTable

    made = FigureTable(gap=2, leaves_out=leaves_out)
    for slot, name in enumerate(columns):
        is_number = bool(rows) and all(row[slot] is None or isinstance(row[slot], int | float) for row in rows)
        (made.add_figures if is_number else made.add_names)(name)
    for row in rows:
        made.add_row(*("-" if cell is None else Text(one_line(str(cell))) for cell in row))
    return made


def table_console() -> Console:
    """Return a console for standard output that prints tables in full."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if not sys.stdout.isatty():
        # No terminal: a program reads the output and wants each row on one line.
        console.width = 10_000
    return console


def time_text(timestamp_ms: int) -> str:
    """Return a time in UTC as `--to-datetime` takes it."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def bytes_text(data: bytes | None) -> str:
    """Return any bytes as text on one line."""
    if data is None:
        return "null"
    return printable(data.decode(errors="backslashreplace"))


def printable(text: str) -> str:
    """Return a text on one line: what a terminal would obey is written as an escape."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def require_terminal() -> None:
    """Raises UsageError where nobody can be asked: what destroys something then needs --force."""
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to confirm this on: give --force")


def confirmed(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    sys.stdout.flush()
    return typer.confirm(question, err=True)


def json_bytes(name: str, data: bytes | None) -> dict[str, Any]:
    """Return bytes as a JSON member: text if they are UTF-8, else base64 under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        import base64

        return {f"{name}_base64": base64.b64encode(data).decode()}
