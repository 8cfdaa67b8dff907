"""Reads JSON as frozen dataclasses: each value is of its field's type, or the document is damaged."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar

_TOO_LARGE: Final = 1 << 63
_Made = TypeVar("_Made")


class DamagedError(ValueError):
    """What is wrong with a document, such as `cpu.count is missing`."""


def parse_json(text: str | bytes) -> Any:
    """Raises ValueError for what is no JSON, however deep it is nested."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_as(kind: type[_Made], told: Any) -> _Made:
    """`told` as a dataclass; keys that it does not have are left out. Raises DamagedError."""
    made = _value(kind, told, "")
    assert isinstance(made, kind)
    return made


def _value(kind: Any, told: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        inner = next(each for each in typing.get_args(kind) if each is not types.NoneType)
        return None if told is None else _value(inner, told, where)
    if is_dataclass(kind) and isinstance(told, dict):
        return _object(kind, told, where)
    if origin is tuple and isinstance(told, list):
        inner = typing.get_args(kind)[0]
        return tuple(_value(inner, each, where) for each in told)
    if origin is Mapping and isinstance(told, dict):
        inner = typing.get_args(kind)[1]
        return {str(name): _value(inner, each, f"{where}.{name}") for name, each in told.items()}
    if kind in (str, bool) and isinstance(told, kind):
        return told
    # Not NaN, not infinite, and no larger than a database can hold.
    is_number = isinstance(told, int | float) and not isinstance(told, bool) and abs(told) < _TOO_LARGE
    if kind is int and is_number and told == told // 1:
        return int(told)
    if kind is float and is_number:
        return float(told)
    raise DamagedError(f"{where.lstrip('.') or 'the document'} has another type")


def _object(kind: Any, told: Mapping[str, Any], where: str) -> Any:
    kinds = _types_of(kind)
    known = {name: _value(kinds[name], told[name], f"{where}.{name}") for name in kinds if name in told}
    try:
        return kind(**known)
    except TypeError:
        missing = ", ".join(each.name for each in fields(kind) if each.name not in told)
        raise DamagedError(f"{missing} of {where.lstrip('.') or 'the document'} missing") from None


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
