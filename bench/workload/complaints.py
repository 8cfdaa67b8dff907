"""Turns an error of pydantic into one line: the key, the fault, the expected value."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from highwater.bench.workload.model import Workload
from highwater.bench.workload.values import SHAPE_TAGS, KeyFaultError
from highwater.common.nearest import nearest
from highwater.common.yaml_nodes import Location, dotted

# Parts of pydantic's locations that are not keys: members of a union, and a mark for the key of a mapping.
_NOT_KEYS: Final = {"str", "int", "float", "bool", "[key]", *SHAPE_TAGS}


def complaint(error: ValidationError, root: type[BaseModel] = Workload) -> tuple[Location, str]:
    """Returns the fault to show: an unknown key first, because a misspelt key is often the cause of a missing one.

    `root` is the model of the whole file.
    """
    details = error.errors()
    return describe(min(details, key=lambda item: item["type"] != "extra_forbidden"), root)


def location_of(item: ErrorDetails) -> Location:
    """Returns pydantic's location without its marks for members of a union, and with the key of a KeyFaultError."""
    location = tuple(part for part in item["loc"] if part not in _NOT_KEYS)
    problem = item.get("ctx", {}).get("error")
    return (*location, *problem.key) if isinstance(problem, KeyFaultError) else location


def describe(item: ErrorDetails, root: type[BaseModel] = Workload) -> tuple[Location, str]:
    location = location_of(item)
    key = dotted(location)
    value, context = item["input"], item.get("ctx", {})
    match item["type"]:
        case "extra_forbidden":
            known = list(dict.fromkeys(str(key) for model in _models_at(location[:-1], root) for key in _fields(model)))
            near = nearest(str(location[-1]), known)
            hint = f'did you mean "{near}"?' if near else f"known here: {', '.join(known)}"
            return location, f"{key}: unknown key; {hint}"
        case "shape":
            return location, f"{key}: {value!r} is not {item['msg']}"
        case "missing":
            return location, f"{key} is missing"
        case "value_error":
            return location, f"{key}: {context['error']}" if key else str(context["error"])
        case _ if value is None:
            return location, f"{key} has no value"
        case "literal_error":
            return location, f"{key}: {value!r} is not {context['expected']}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return location, f"{key}: {value!r} is not a mapping of keys to values"
        case "too_short":
            return location, f"{key}: {value!r} is empty"
        case "list_type":
            return location, f"{key}: {value!r} is not a list"
        case _ if isinstance(value, list):
            return location, f"{key}: a list; to compare several values, list them under matrix:"
        case "greater_than_equal":
            return location, f"{key}: {value!r} is less than {context['ge']}"
        case "less_than_equal":
            return location, f"{key}: {value!r} is more than {context['le']}"
        case "greater_than":
            return location, f"{key}: {value!r} is not more than {context['gt']}"
        case "string_pattern_mismatch":
            return location, f"{key}: {value!r} does not match {context['pattern']}"
        case "int_type" | "int_from_float":
            return location, f"{key}: {value!r} is not a whole number"
        case "float_type":
            return location, f"{key}: {value!r} is not a number"
        case "string_type":
            return location, f"{key}: {value!r} is not text; put it in quotes"
        case "bool_type":
            return location, f"{key}: {value!r} is not true or false"
    return location, f"{key}: {value!r}: {item['msg']}"


# --- the models behind keys -------------------------------------------------------------------------------------------


def scalar_locations(location: Location) -> Iterator[Location]:
    """Every key below `location` that accepts a scalar, and every mapping of free names to scalars."""
    for model in _models_at(location, Workload):
        for key, annotation in _fields(model).items():
            members = list(_members(annotation))
            if any(_is_scalar(member) or member is dict for member in members):
                yield (*location, key)
            if any(_is_model(member) for member in members):
                yield from scalar_locations((*location, key))


def _models_at(location: Location, root: type[BaseModel]) -> list[type[BaseModel]]:
    """The possible models of the part at `location`: several where a key accepts one of several shapes."""
    models: list[type[BaseModel]] = [root]
    for part in location:
        annotations = [_fields(model)[part] for model in models if part in _fields(model)]
        if annotations:  # else a name in a mapping or a place in a list, whose values have these models
            models = [member for annotation in annotations for member in _members(annotation) if _is_model(member)]
    return models


def _fields(model: type[BaseModel]) -> dict[str | int, Any]:
    """The keys of a part, as they are in a file, with their annotations."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _members(annotation: Any) -> Iterator[Any]:
    """The types that an annotation allows, including models in mappings and lists."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _members(arguments[0])
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from _members(argument)
    elif origin in (dict, list):
        models = [member for argument in arguments for member in _members(argument) if _is_model(member)]
        yield from models or [origin]
    else:
        yield annotation


def _is_model(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, BaseModel)


def _is_scalar(member: Any) -> bool:
    return member not in (dict, list, types.NoneType) and not _is_model(member)
