"""From a workload file to cells: read it, lay the command line over it, expand the matrix, explain every fault.

A fault is one line: where (`file:line`, or the option), which key, what is wrong and what was expected. An axis value
is checked by putting it into the base workload, so an axis can be any scalar key, and a bad value names its axis.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import itertools
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bench.errors import UsageError
from bench.workload import KeyFaultError, Scalar, Workload
from bench.yaml_document import Document, Location, dotted, read_document

BASE_CELL: Final = "base"
_AXIS_SECTIONS: Final = ("topics", "producers", "consumers", "records", "load", "phases", "system", "storage")


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of axis values, and the workload it makes."""

    name: str
    factors: dict[str, Scalar]
    workload: Workload


@dataclass(frozen=True, slots=True)
class Specification:
    """What a workload file asks for, after the command line's overrides and the expansion of its matrix."""

    file: Path
    workload: Workload
    axes: dict[str, list[Scalar]]
    cells: list[Cell]

    @property
    def sha256(self) -> str:
        """Identity of what is asked, whatever the file's layout and comments."""
        canonical = json.dumps(self.workload.as_document(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def payload_file(self, workload: Workload) -> Path | None:
        """Absolute path of the payload file; the workload file's folder is where a relative one starts."""
        if workload.records.payload_file is None:
            return None
        return (self.file.parent / Path(workload.records.payload_file).expanduser()).resolve()


def load_specification(path: Path, overrides: Mapping[Location, tuple[Any, str]] | None = None) -> Specification:
    """Read `path`; `overrides` are key -> (value, the option that set it), None takes a key away. Raises UsageError."""
    document = read_document(path)
    for location, (value, option) in (overrides or {}).items():
        _put(document.data, location, value)
        document.origins[location] = option
    specification = specify(document, path)
    for cell in specification.cells:
        _check_payload_file(specification, cell, document)
    return specification


def specify(document: Document, path: Path) -> Specification:
    """Validate a document and expand its matrix. Raises UsageError."""
    workload = _validate(document.data, document)
    locations = {axis: _axis_location(axis, document) for axis in workload.matrix}
    for axis, values in workload.matrix.items():
        _check_axis(axis, locations[axis], values, document)
    labels = _labels(locations)
    excluded = [_exclusion(index, item, workload, document) for index, item in enumerate(workload.exclude)]
    cells = list(_cells(workload, locations, labels, excluded, document))
    if not cells:
        raise UsageError(f"{document.origin(('exclude',))}: exclude leaves no combination of the matrix to run")
    axes = {labels[axis]: list(values) for axis, values in workload.matrix.items()}
    return Specification(path, workload, axes, cells)


def _cells(
    workload: Workload,
    locations: Mapping[str, Location],
    labels: Mapping[str, str],
    excluded: list[dict[str, Scalar]],
    document: Document,
) -> Iterator[Cell]:
    for values in itertools.product(*workload.matrix.values()):
        chosen = dict(zip(workload.matrix, values, strict=True))
        if any(all(_same(chosen[axis], value) for axis, value in item.items()) for item in excluded):
            continue
        factors = {labels[axis]: value for axis, value in chosen.items()}
        name = ",".join(f"{label}={_spell(value)}" for label, value in factors.items()) or BASE_CELL
        data = copy.deepcopy(document.data)
        for axis, value in chosen.items():
            _put(data, locations[axis], value)
        try:
            cell_workload = Workload.model_validate(data)
        except ValidationError as error:
            raise UsageError(
                f"{document.origin(('matrix',))}: matrix: the cell {name} cannot be run: {_complaint(error)[1]} "
                "(leave it out with exclude:)"
            ) from None
        yield Cell(name, factors, cell_workload)


def _check_axis(axis: str, location: Location, values: list[Scalar], document: Document) -> None:
    if not values:
        raise UsageError(f"{document.origin(('matrix', axis))}: matrix: {axis} has no values")
    for index, value in enumerate(values):
        where = document.origin(("matrix", axis, index))
        if any(_same(value, earlier) for earlier in values[:index]):
            raise UsageError(f"{where}: matrix: {axis}: {_spell(value)} is listed twice")
        data = copy.deepcopy(document.data)
        _put(data, location, value)
        try:
            Workload.model_validate(data)
        except ValidationError as error:
            # A rule about several keys may hold again once the other axes have their values; cells are checked whole.
            for item in error.errors():
                if _location(item)[: len(location)] == location:
                    raise UsageError(f"{where}: matrix: {_describe(item)[1]}") from None


def _axis_location(axis: str, document: Document) -> Location:
    """`producers.client.compression.type` -> ("producers", "client", "compression.type"). Raises UsageError."""
    where = document.origin(("matrix", axis))
    known = list(_axis_names())
    parts = axis.split(".")
    if len(parts) > 1 and parts[0] in _AXIS_SECTIONS:
        fields = _fields(_part_model(Workload, parts[0]))
        if parts[1] in fields:
            annotation = fields[parts[1]]
            if len(parts) == 2 and not _is_mapping(annotation):
                return (parts[0], parts[1])
            if len(parts) > 2 and _is_mapping(annotation) and parts[1] != "targets":
                return (parts[0], parts[1], ".".join(parts[2:]))
    near = difflib.get_close_matches(axis, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"axes are dotted keys, such as {known[0]} or storage.target"
    raise UsageError(f"{where}: matrix: {axis} is no axis; {hint}")


def _axis_names() -> Iterator[str]:
    yield from (f"producers.client.{name}" for name in ("acks", "batch.size", "compression.type", "linger.ms"))
    for section in _AXIS_SECTIONS:
        for name, annotation in _fields(_part_model(Workload, section)).items():
            if not _is_mapping(annotation):
                yield f"{section}.{name}"


def _labels(locations: Mapping[str, Location]) -> dict[str, str]:
    """Factor names: a property by its own name, unless two axes would then share one; other keys as they are."""
    short = {axis: location[-1] if len(location) == 3 else axis for axis, location in locations.items()}
    names = list(short.values())
    return {axis: str(name) if names.count(name) == 1 else axis for axis, name in short.items()}


def _exclusion(index: int, item: dict[str, Scalar], workload: Workload, document: Document) -> dict[str, Scalar]:
    if not item:
        raise UsageError(f"{document.origin(('exclude', index))}: exclude[{index}] names no axis")
    for axis, value in item.items():
        where = document.origin(("exclude", index, axis))
        if axis not in workload.matrix:
            known = f"its axes are {', '.join(workload.matrix)}" if workload.matrix else "there is no matrix"
            raise UsageError(f"{where}: exclude: {axis} is no axis of the matrix; {known}")
        if not any(_same(value, known) for known in workload.matrix[axis]):
            values = ", ".join(_spell(known) for known in workload.matrix[axis])
            raise UsageError(f"{where}: exclude: {axis}: {_spell(value)} is not one of its values ({values})")
    return item


def _same(one: Scalar, other: Scalar) -> bool:
    """`1` and `"1"` configure the same thing."""
    return _spell(one) == _spell(other)


def _spell(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_payload_file(specification: Specification, cell: Cell, document: Document) -> None:
    path = specification.payload_file(cell.workload)
    if path is None:
        return
    where = document.origin(("records", "payload_file"))
    try:
        with path.open("rb") as file:
            if not file.read(1):
                raise UsageError(f"{where}: records.payload_file: {path} is empty")
    except OSError as error:
        raise UsageError(f"{where}: records.payload_file: cannot read {path}: {error.strerror or error}") from None


def _put(data: dict[str, Any], location: Location, value: Any) -> None:
    *parents, last = location
    for part in parents:
        inner = data.setdefault(str(part), {})
        if not isinstance(inner, dict):
            return  # validation will say what is wrong with it
        data = inner
    if value is None:
        data.pop(str(last), None)
    else:
        data[str(last)] = value


# --- one-line explanations of what pydantic found -------------------------------------------------------------------


def _validate(data: dict[str, Any], document: Document) -> Workload:
    try:
        return Workload.model_validate(data)
    except ValidationError as error:
        location, text = _complaint(error)
        raise UsageError(f"{document.origin(location)}: {text}") from None


def _complaint(error: ValidationError) -> tuple[Location, str]:
    """The fault to show: an unknown key first, because a misspelt key is often the cause of a missing one."""
    details = error.errors()
    return _describe(min(details, key=lambda item: item["type"] != "extra_forbidden"))


def _location(item: ErrorDetails) -> Location:
    """pydantic's location without its own marks for members of a union, and with the key a rule of ours names."""
    location = tuple(part for part in item["loc"] if part not in ("str", "int", "float", "bool"))
    problem = item.get("ctx", {}).get("error")
    return (*location, *problem.key) if isinstance(problem, KeyFaultError) else location


def _describe(item: ErrorDetails) -> tuple[Location, str]:
    location = _location(item)
    key = dotted(location)
    value, context = item["input"], item.get("ctx", {})
    match item["type"]:
        case "extra_forbidden":
            known = _fields(_model_at(location[:-1]))
            near = difflib.get_close_matches(str(location[-1]), known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"known here: {', '.join(known)}"
            return location, f"{key}: unknown key; {hint}"
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


def _model_at(location: Location) -> type[BaseModel]:
    model: type[BaseModel] = Workload
    for part in location:
        if isinstance(part, str) and part in _fields(model):
            model = _part_model(model, part)
    return model


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """Keys of a part as they stand in a file, with their annotation."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _part_model(model: type[BaseModel], key: str) -> type[BaseModel]:
    """The model behind a key: the field's own, or that of a mapping's values."""
    annotation = _fields(model)[key]
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return model


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated or origin in (Union, types.UnionType):
        return any(_is_mapping(argument) for argument in get_args(annotation))
    return origin is dict
