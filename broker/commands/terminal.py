"""What every command says and how: tables for people, JSON for programs, one line for a mistake."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

_LONGEST_WHOLE_NAME: Final = 56

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


class CommandError(Exception):
    """Why a command was not carried out, in one line that names the thing and the way out."""

    exit_code = EXIT_REFUSED


class UsageError(CommandError):
    """The command cannot be understood as it was given, or nobody is there to carry it out."""

    exit_code = EXIT_USAGE


@contextmanager
def reporting() -> Iterator[None]:
    """Turn what stops a command into one line and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except CommandError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # Whoever read our output has enough. Python flushes standard output once more at its end: into the void.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def say(text: str) -> None:
    """One line of output; `reporting` flushes."""
    sys.stdout.write(text + "\n")


def say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    say(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """Columns of numbers are set to the right; a value of None shows as a dash. Text is never cut off."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for slot, name in enumerate(columns):
        is_number = bool(rows) and all(row[slot] is None or isinstance(row[slot], int | float) for row in rows)
        # Names of settings and the like are for searching and copying: fold what stands beside them instead.
        longest = max((len(str(row[slot])) for row in rows), default=0)
        is_whole = is_number or (slot == 0 and longest <= _LONGEST_WHOLE_NAME)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_whole, overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else Text(str(cell)) for cell in row))
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    if not sys.stdout.isatty():
        # Nothing to fit into: whoever reads this cuts at columns or lines, and wants each row on one.
        console.width = 10_000
    if title:
        console.print(Text(title, style="bold"))
    console.print(table)


def time_text(timestamp_ms: int) -> str:
    """A time as people and `--to-datetime` write it; UTC, so that it says the same everywhere."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def bytes_text(data: bytes | None) -> str:
    """Bytes on one line, whatever is in them."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def json_bytes(name: str, data: bytes | None) -> dict[str, Any]:
    """Bytes as a JSON member: text where they are UTF-8, else base64 under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        import base64

        return {f"{name}_base64": base64.b64encode(data).decode()}


def size_text(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
