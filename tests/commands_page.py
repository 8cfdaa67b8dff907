"""Writes docs/commands.md, the reference of all commands: `make docs`, or `python -m tests.commands_page`.

Names, help, arguments, options and defaults are the program's own, and exit codes those of `common/exit_codes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

from highwater.cli import app

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/commands.md"

HEAD: Final = """\
# All commands

`make docs` writes this page from the program: change the command, not the page. `--help` says the same of each command.
[Exit codes](exit-codes.md) has what a number means for a command in particular. `--help` is an option of every command.
"""


def page() -> str:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    context = typer.Context(root, info_name="highwater")
    found: dict[str, Any] = {name: root.get_command(context, name) for name in root.list_commands(context)}
    lines = [HEAD, "| command | what it does |", "|---|---|"]
    lines += [
        f"| [`highwater {name}`](#highwater-{name}) | {_cell(paragraphs(each)[0])} |" for name, each in found.items()
    ]
    lines += ["", "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {_cell(' '.join(meanings))} |" for code, meanings in exit_codes().items()]
    for name, command in found.items():
        lines += _of_command(command, typer.Context(command, info_name=name, parent=context), "##")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _of_command(command: Any, context: typer.Context, level: str) -> Iterator[str]:
    yield from ("", f"{level} {context.command_path}", "")
    yield from ("\n\n".join(_plain(each) for each in paragraphs(command)), "")
    parameters = shown(command)
    if not isinstance(command, TyperGroup):
        needed = [names(each, context) for each in parameters if each.required or each.param_type_name == "argument"]
        yield f"`{' '.join([context.command_path, *(each.strip('`') for each in needed), '[OPTIONS]'])}`"
    if parameters:
        yield from ("", "| argument or option | default | what it is |", "|---|---|---|")
        yield from (_row(each, context) for each in parameters)
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            below: Any = command.get_command(context, name)
            yield from _of_command(below, typer.Context(below, info_name=name, parent=context), "###")


def shown(command: Any) -> list[Any]:
    """The arguments and options that help shows, but for --help."""
    return [each for each in command.params if not getattr(each, "hidden", False)]


def bounds(parameter: Any) -> str:
    """The least and the most value in parentheses; empty if there are none."""
    words = (("at least", parameter.min), ("at most", parameter.max))
    said = ", ".join(f"{word} {bound}" for word, bound in words if bound is not None)
    return f"({said})" if said else ""


def _row(parameter: Any, context: typer.Context) -> str:
    says = [parameter.help or "", bounds(parameter)]
    assert not getattr(parameter, "multiple", False) or "may be repeated" in says[0], (
        f"{parameter.opts} may be repeated"
    )
    return f"| {_cell(names(parameter, context))} | {_cell(default(parameter))} | {_cell(_plain(' '.join(says)))} |"


def names(parameter: Any, context: typer.Context) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        name += "…" if parameter.nargs == -1 and not name.endswith(("…", "...")) else ""
        return f"`{name}`" if parameter.required else f"`[{name}]`"
    listed = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = parameter.metavar or parameter.display_type(context).replace(" range", "")
    return listed if parameter.is_flag else f"{listed[:-1]} {value}`"


def default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if value is None or value is False or value in ("", (), []):
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def paragraphs(command: Any) -> list[str]:
    return [" ".join(each.split()) for each in (command.help or "").split("\n\n")]


def _plain(text: str) -> str:
    """Return the text so that Markdown shows it as it is."""
    return re.sub(r"(?<!\w)([*_<])|([*_<])(?!\w)|(\[)", r"\\\g<0>", text)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def exit_codes() -> dict[int, list[str]]:
    """Return each code with the first paragraph of each of its meanings, in the order of the file."""
    text = (ROOT / "common/exit_codes.py").read_text("utf-8")
    meanings: dict[int, list[str]] = {}
    for code, meaning in re.findall(
        r'^EXIT_\w+: Final = (\d+)\n"""(.*?)(?:\n\n.*?)?"""$', text, re.MULTILINE | re.DOTALL
    ):
        meanings.setdefault(int(code), []).append(meaning)
    return meanings


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
