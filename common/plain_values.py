"""Reads plain values of options and arguments without pydantic, which takes long to import.

typer asks pydantic about every parameter of a command, even about one that was not given. This module needs typer,
which is there for commands alone.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer.core

_NOT_PLAIN: Final = object()
_MOST_DIGITS: Final = 18


def read_plain_values() -> None:
    """Make the commands of this process read plain values here. typer reads the others, and refuses wrong ones."""
    typer.core.build_runtime_param = _Reader  # type: ignore[assignment,attr-defined]


class _Reader:
    """Stands in for typer's reader of one parameter, and makes that for a value that is not plain."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        kind, info = self._descriptor.annotation, self._descriptor.parameter_info
        if info.parser is None and get_origin(kind) in (None, Literal):
            read = _plain_value(value, kind, info)
        elif info.parser is None and get_origin(kind) is list and is_list:
            read = [_plain_value(each, get_args(kind)[0], info) for each in value]
        else:
            read = _NOT_PLAIN
        if read is not _NOT_PLAIN and not (is_list and _NOT_PLAIN in read):
            return read
        from typer._coercion import build_runtime_param

        return build_runtime_param(self._descriptor).coerce(value, param=param, ctx=ctx)


def _plain_value(value: Any, kind: Any, info: Any) -> Any:
    """Return `value` as a `kind`, or _NOT_PLAIN if typer has to look at it. info: typer's, of the parameter."""
    if kind is str:
        return value if isinstance(value, str) else _NOT_PLAIN
    if kind in (int, float):
        if isinstance(value, str) and value.isascii() and len(value) <= _MOST_DIGITS:
            digits = value.replace(".", "", 1) if kind is float else value
            value = kind(value) if digits.isdigit() else value
        is_in_range = type(value) is kind and not (
            (info.min is not None and value < info.min) or (info.max is not None and value > info.max)
        )
        return value if is_in_range else _NOT_PLAIN
    if kind is Path:
        is_checked = info.exists or info.writable or info.resolve_path or info.allow_dash or info.path_type is not None
        is_plain = info.file_okay and info.dir_okay and not is_checked
        return Path(value) if is_plain and (os.access(value, os.R_OK) or not Path(value).exists()) else _NOT_PLAIN
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else _NOT_PLAIN
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((each for each in kind if value is each or value == each.value), _NOT_PLAIN)
    return _NOT_PLAIN
