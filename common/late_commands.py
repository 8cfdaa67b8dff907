"""A group of commands that imports the module of a command when it is called, and not to list it.

This module needs typer, which is there for commands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class Late:
    """A command, or a group of them, that is not imported yet."""

    place: str
    """Its module and the name in it, as in an entry point: a function, or the Typer of a group."""
    help: str
    """The first paragraph of its help, for the list of commands."""
    guests: Mapping[str, Late] = field(default_factory=dict)
    """Commands of other rooms in this group."""

    def command(self, name: str) -> Any:
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            return _command(found, name)
        group = typer.main.get_group(found)
        group.name = name
        if self.guests:
            assert isinstance(group, LateGroup), f"{self.place} is a group without late commands"
            group.add_late(self.guests)
        return group


class LateGroup(TyperGroup):
    """Its own commands, and those of `late_commands`, of which `commands` has what the list of commands shows."""

    late_commands: ClassVar[Mapping[str, Late]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._late: dict[str, Late] = {}
        self.add_late(self.late_commands)

    def add_late(self, commands: Mapping[str, Late]) -> None:
        self._late.update(commands)
        self.commands.update({name: TyperCommand(name, help=late.help) for name, late in commands.items()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        late = self._late.get(cmd_name)
        return super().get_command(ctx, cmd_name) if late is None else late.command(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._as_listed().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        listed = self._as_listed()
        return listed.shell_complete(typer.Context(listed, parent=ctx.parent), incomplete)

    def _as_listed(self) -> TyperGroup:
        return TyperGroup(
            name=self.name,
            help=self.help,
            params=self.params,
            commands=dict(self.commands),
            rich_markup_mode=self.rich_markup_mode,
        )


def late_app(commands: Mapping[str, Late], **settings: Any) -> typer.Typer:
    """Return a Typer of late commands, to which others may be added. settings: typer's, such as `help`."""
    group = type("_LateApp", (LateGroup,), {"late_commands": commands})
    app = typer.Typer(cls=group, no_args_is_help=True, **settings)
    app.callback()(_no_options)  # without one, typer takes a group for its only command
    return app


def _no_options() -> None:
    """Stand for the options of a group that has none."""


def _command(function: Any, name: str) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    # Each paragraph on one line, for the terminal to break where it is narrow.
    paragraphs = (" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))
    app.command(help="\n\n".join(paragraphs))(function)
    command = typer.main.get_command(app)
    command.name = name
    return command
