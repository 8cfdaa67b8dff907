"""Man pages of all commands, written from the program: `python -m tools.release.man_pages DIRECTORY`.

highwater(1) has the commands and all exit codes; highwater-broker-start(1) is the page of one command. What they say is
that of docs/commands.md (tests/commands_page.py) and of docs/exit-codes.md.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from highwater.cli import app
from highwater.common.distribution import version
from tests.commands_page import bounds, default, exit_codes, names, paragraphs, shown

_EXIT_CODES: Final = Path(__file__).parents[2] / "docs/exit-codes.md"
_WIDTH: Final = 70
# What help does not say, for a command and all below it.
_ENVIRONMENT: Final = {
    "highwater": {
        "NO_COLOR": "If set, help and tables have no colours.",
        "XDG_CACHE_HOME": "What is fetched or built once is kept in the folder highwater below it; default: ~/.cache.",
    },
    "highwater bench": {"JAVA_HOME": "The Java that Spark and ZooKeeper run on."},
    "highwater broker cluster": {"JAVA_HOME": "The Java that ZooKeeper runs on."},
    "highwater broker start": {"NOTIFY_SOCKET": "Where systemd is notified: Type=notify is the type of its unit."},
    "highwater pipeline": {"JAVA_HOME": "The Java that Spark runs on."},
    "highwater tune agent": {"HIGHWATER_AGENT_TOKEN": "The token, if --token-file is not given."},
}
_FILES: Final = {
    "highwater broker start": {
        "/etc/highwater/broker.properties": "What highwater-broker.service of the Debian package starts with.",
        "/var/lib/highwater/log": "Its log directory.",
    },
    "highwater tune": {"/var/lib/highwater-tuning": "The journal of changes, with which rollback undoes them."},
}


def write_man_pages(directory: Path, day: str) -> None:
    """Write a page for each command. day: as 2026-01-31."""
    particular = _particular_exit_codes()
    for command, context in _below(*_root()):
        name = context.command_path.replace(" ", "-")
        text = "\n".join(_page(command, context, particular, f'.TH {name.upper()} 1 {day} "highwater {version()}"'))
        (directory / f"{name}.1").write_text(f"{text}\n", "utf-8")


def _below(command: Any, context: typer.Context) -> Iterator[tuple[Any, typer.Context]]:
    yield command, context
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            each: Any = command.get_command(context, name)
            yield from _below(each, typer.Context(each, info_name=name, parent=context))


def _page(command: Any, context: typer.Context, particular: dict[str, dict[str, str]], head: str) -> Iterator[str]:
    path = context.command_path
    said, parameters = paragraphs(command), shown(command)
    yield from (head, ".SH NAME", _text(f"{path.replace(' ', '-')} \\- {said[0].rstrip('.')}"))
    needed = [names(each, context).strip("`") for each in parameters if each.required or _is_argument(each)]
    rest = ["COMMAND", "[ARGUMENTS]"] if isinstance(command, TyperGroup) else ["[OPTIONS]"]
    yield from (".SH SYNOPSIS", f".B {_text(path)}", _text(" ".join([*needed, *rest])))
    yield ".SH DESCRIPTION"
    for number, each in enumerate(said):
        yield from ([".PP"] if number else [])
        yield _text(each)
    for title, chosen in (
        ("ARGUMENTS", [each for each in parameters if _is_argument(each)]),
        ("OPTIONS", [each for each in parameters if not _is_argument(each)]),
    ):
        entries = [(names(each, context).replace("`", ""), _says(each)) for each in chosen]
        if title == "OPTIONS":
            entries.append(("--help", "Show the help of the command, and exit."))
        yield from _section(title, entries)
    if isinstance(command, TyperGroup):
        below = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        yield from _section("COMMANDS", [(f"{path} {name}", paragraphs(each)[0]) for name, each in below])
    codes = {str(code): " ".join(texts) for code, texts in exit_codes().items()} if path == "highwater" else {}
    yield from _section("EXIT STATUS", (codes or particular[_nearest(path, particular)]).items())
    if path != "highwater":
        yield from (".PP", "highwater(1) has the meaning of each number.")
    for title, table in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        found = [entry for start, entries in table.items() if _is_below(path, start) for entry in entries.items()]
        yield from _section(title, found)
    if isinstance(command, TyperGroup) or context.parent is not None:
        others = [context.parent.command_path] if context.parent is not None else []
        others += [f"{path} {name}" for name, _ in below] if isinstance(command, TyperGroup) else []
        yield ".SH SEE ALSO"
        yield _text(", ".join(f"{each.replace(' ', '-')}(1)" for each in others))


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _is_below(path: str, start: str) -> bool:
    return f"{path} ".startswith(f"{start} ")


def _says(parameter: Any) -> str:
    words = default(parameter).replace("`", "")
    note = {"": "", "required": "Required."}.get(words, f"Default: {words}.")
    return " ".join(filter(None, (parameter.help or "", bounds(parameter), note)))


def _section(title: str, entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    lines = [line for name, text in entries for line in (".TP", f".B {_text(name)}", _text(text))]
    if lines:
        yield from (f".SH {title}", *lines)


def _text(text: str) -> str:
    """Return the text so that roff shows it as it is: hyphens of options can be searched for and copied."""
    escaped = re.sub(r"\\(?!- )", r"\\e", text.replace("`", ""))
    escaped = re.sub(r"(?<![\w-])-[-\w]+", lambda option: option[0].replace("-", r"\-"), escaped)
    lines = textwrap.wrap(escaped, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return re.sub(r"^(?=[.'])", r"\\&", "\n".join(lines), flags=re.MULTILINE)


def _particular_exit_codes() -> dict[str, dict[str, str]]:
    """What a number means for a command, from the second table of the page; a group is there for all below it."""
    found: dict[str, dict[str, str]] = {"highwater": {"0": "Done.", "1": "It failed.", "2": "A usage error."}}
    known = {context.command_path for _, context in _below(*_root())}
    paths: list[str] = []
    for row in re.findall(r"^\| (.*?) ?\| ([\d, ]+) \| (.*) \|$", _EXIT_CODES.read_text("utf-8"), re.MULTILINE):
        if row[0]:
            paths = list(_paths(re.findall(r"`(.+?)`", row[0]), known))
        words = re.sub(r"\[(.+?)\]\(.*?\)", r"\1", row[2]).replace("`", "")
        for path in paths:
            found.setdefault(path, {})[row[1]] = words
    return found


def _root() -> tuple[Any, typer.Context]:
    root: Any = typer.main.get_command(app)
    return root, typer.Context(root, info_name="highwater")


def _paths(cells: list[str], known: set[str]) -> Iterator[str]:
    """The commands that a row names, as `bench run`, `calibrate`: the first of them also says the group."""
    group = f"highwater {cells[0].split()[0]}"
    for cell in cells:
        name = cell.removesuffix(" …")
        yield next(path for path in (f"highwater {name}", f"{group} {name}") if path in known)


def _nearest(path: str, known: Iterable[str]) -> str:
    return max((each for each in known if _is_below(path, each)), key=len)


if __name__ == "__main__":
    epoch_s = int(os.environ["SOURCE_DATE_EPOCH"])
    write_man_pages(Path(sys.argv[1]), datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d"))
