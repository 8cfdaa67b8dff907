"""Makes `--help` leave out what says nothing: the type of a flag, and parentheses around a default.

This module needs typer, which is there for commands alone.
"""

from __future__ import annotations

from typing import Any, Final

import typer.core

_default_by_typer: Final = typer.core._get_default_string


def show_plain_help() -> None:
    """Make the help of all commands of this process plain."""
    core: Any = typer.core
    core.TyperOption.display_type_rich = _type_of_value
    core._get_default_string = _default_of


def _type_of_value(option: Any, ctx: Any) -> str | None:
    if option.is_flag:
        return None
    return option.metavar or str(option.display_type(ctx)).replace(" range", "")


def _default_of(parameter: Any, **given: Any) -> str:
    words = parameter.show_default
    return words if isinstance(words, str) else _default_by_typer(parameter, **given)
