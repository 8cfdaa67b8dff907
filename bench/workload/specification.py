"""Makes cells from a workload file: reads it, applies options, expands the matrix.

An error is one line: the place (`file:line`, or the option), the key, what is wrong and what was expected. An axis
value is checked in the base workload, so that an axis can be any scalar key; an error of a value names its axis.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from highwater.bench.user_paths import expanded
from highwater.bench.workload.command_config import read_command_config
from highwater.bench.workload.complaints import complaint, describe, location_of, scalar_locations
from highwater.bench.workload.layers import merged, put, read_with_includes
from highwater.bench.workload.model import Workload
from highwater.bench.workload.replay import Traces, arrivals_of, records_of
from highwater.bench.workload.trace_directory import Trace, read_trace
from highwater.bench.workload.traces import directory_of, fill_in
from highwater.bench.workload.values import Scalar
from highwater.common.errors import UsageError
from highwater.common.nearest import nearest
from highwater.common.yaml_nodes import Document, Location, dotted
from highwater.results.environment_key import what_is_measured

BASE_CELL: Final = "base"
VARIANT: Final = "variant"
# More than anybody measures, and few enough to check each. Counted before exclude.
MAX_COMBINATIONS: Final = 5_000
# With more systems on one processor, each has too little CPU time to be measured.
MAX_AT_ONCE: Final = 6
_NOT_IN_A_VARIANT: Final = ("schema", "name", "trials", "include", "variants", "matrix", "exclude", "telemetry")
_AXIS_SECTIONS: Final = (
    "topics", "producers", "consumers", "records", "load", "phases", "checks", "system", "storage", "host", "rebalance"
)  # fmt: skip
_PROPERTY_MAPPINGS: Final = ("client", "config", "settings")
_COMMON_AXES: Final = tuple(
    f"producers.client.{name}" for name in ("acks", "batch.size", "compression.type", "linger.ms")
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of axis values, and its workload."""

    name: str
    factors: dict[str, Scalar]
    workload: Workload


@dataclass(frozen=True, slots=True)
class Specification:
    """A workload file after the command line's overrides and the expansion of its matrix."""

    file: Path
    workload: Workload
    axes: dict[str, list[Scalar]]
    cells: list[Cell]
    text: str = ""
    """The workload as YAML, if it has no file."""
    _command_configs: dict[Path, dict[str, str]] = field(default_factory=dict, repr=False, compare=False)
    _traces: dict[Path, Trace] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """Identity of the workload, independent of the file's layout and comments, of the paths of password files, and
        of where live figures go.
        """
        measured = what_is_measured(self.workload.as_document())
        canonical = json.dumps(measured, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def payload_file(self, workload: Workload) -> Path | None:
        """Absolute path of the payload file; a relative path starts at the folder of the workload file."""
        if workload.records.payload_file is None:
            return None
        return (self.file.parent / expanded(workload.records.payload_file)).resolve()

    def traces(self, workload: Workload) -> Traces:
        """What the traces of the workload say, as the load generator takes it. Raises UsageError."""
        load, records = workload.load.trace, workload.records.trace
        return Traces(
            arrivals_of(self._trace(load.path), load.speed, load.share) if load is not None else None,
            records_of(self._trace(records.path), workload.topics.partitions) if records is not None else None,
        )

    def _trace(self, path: str) -> Trace:
        directory = directory_of(path, self.file)
        if directory not in self._traces:
            self._traces[directory] = read_trace(directory)
        return self._traces[directory]

    def command_config(self, workload: Workload) -> dict[str, str]:
        """The TLS and SASL properties for clients of the workload's cluster; empty without TLS and login.

        A file is read once, so that a run uses the same properties throughout, even if the file is a pipe or changes.
        Raises UsageError.
        """
        cluster = workload.system.external
        if cluster is None or cluster.command_config is None:
            return {}
        file = self.file.parent / expanded(cluster.command_config)
        if file not in self._command_configs:
            self._command_configs[file] = read_command_config(file)
        return self._command_configs[file]


def load_specification(path: Path, overrides: Mapping[Location, tuple[Any, str]] | None = None) -> Specification:
    """Read `path`; `overrides` are as those of `specification_of_document`. Raises UsageError."""
    return specification_of_document(read_with_includes(path), path, overrides or {})


def specification_of_document(
    document: Document, path: Path, overrides: Mapping[Location, tuple[Any, str]]
) -> Specification:
    """The specification of a document and what the command line sets over it. Raises UsageError.

    overrides: key -> (value, the option that set it); None removes a key. path: relative names of files start there.
    """
    for location, (value, option) in overrides.items():
        put(document.data, location, value)
        document.origins[location] = option
    fill_in(document, path)
    specification = specify(document, path)
    for cell in specification.cells:
        _check_payload_file(specification, cell, document)
        specification.command_config(cell.workload)
    return specification


def recorded_workloads(workload: Mapping[str, Any]) -> dict[str, Workload]:
    """Returns cell -> workload for the workload of a manifest; empty if today's rules refuse it."""
    path, data = Path("manifest.json"), copy.deepcopy(dict(workload))
    # A manifest also has defaults and derived values, but variants are laid over what the file had.
    if data.get("load", {}).get("schedule"):
        data.get("phases", {}).pop("measure", None)
    for overlay in data.get("variants", {}).values():
        if "payload_file" in overlay.get("records", {}):
            overlay["records"].setdefault("compress_ratio", None)
    try:
        return {cell.name: cell.workload for cell in specify(Document(path.name, data), path).cells}
    except UsageError:
        return {}


def specify(document: Document, path: Path) -> Specification:
    """Validate a document and expand its matrix. Raises UsageError."""
    workload = _validate(document.data, document)
    combinations = math.prod([max(1, len(workload.variants)), *map(len, workload.matrix.values())])
    if combinations > MAX_COMBINATIONS:
        raise UsageError(
            f"{document.origin(('matrix',))}: matrix: {combinations} combinations are more than {MAX_COMBINATIONS}; "
            "use fewer values"
        )
    locations = {axis: _axis_location(axis, document) for axis in workload.matrix}
    for axis, values in workload.matrix.items():
        _check_axis(axis, locations[axis], values, document)
    excluded = [_exclusion(index, item, workload, document) for index, item in enumerate(workload.exclude)]
    bases = {name: _variant(name, overlay, document) for name, overlay in workload.variants.items()}
    labels = _labels(locations)
    cells = list(_cells(workload, bases or {BASE_CELL: document.data}, locations, labels, excluded, document))
    if not cells:
        raise UsageError(f"{document.origin(('exclude',))}: exclude leaves no combination of the matrix to run")
    if workload.trials.at_once and len(cells) > MAX_AT_ONCE:
        raise UsageError(
            f"{document.origin(('trials', 'at_once'))}: trials.at_once: {len(cells)} cells would share one processor, "
            f"but at most {MAX_AT_ONCE} can; remove some cells, or at_once"
        )
    axes: dict[str, list[Scalar]] = {VARIANT: list(bases)} if bases else {}
    axes |= {labels[axis]: list(values) for axis, values in workload.matrix.items()}
    return Specification(path, workload, axes, cells)


def _variant(name: str, overlay: dict[str, Any], document: Document) -> dict[str, Any]:
    """Returns the document with a variant's settings laid over it. Raises UsageError."""
    for key in overlay:
        if key in _NOT_IN_A_VARIANT:
            where = document.origin(("variants", name, key))
            raise UsageError(
                f"{where}: variants.{name}.{key}: belongs to the whole file, and is the same for all variants"
            )
    data = merged(document.data, overlay)
    try:
        Workload.model_validate(data)
    except ValidationError as error:
        location, text = complaint(error)
        if location and location[0] in overlay:
            where = document.origin(("variants", name, *location))
            raise UsageError(f"{where}: variants.{name}.{text}") from None
        raise UsageError(f"{document.origin(('variants', name))}: variants.{name} cannot be run: {text}") from None
    return data


def _cells(
    workload: Workload,
    bases: Mapping[str, dict[str, Any]],
    locations: Mapping[str, Location],
    labels: Mapping[str, str],
    excluded: list[dict[str, Scalar]],
    document: Document,
) -> Iterator[Cell]:
    named: dict[str, str] = {}
    for base, *values in itertools.product(bases, *workload.matrix.values()):
        variant: dict[str, Scalar] = {VARIANT: base} if workload.variants else {}
        chosen = dict(zip(workload.matrix, values, strict=True))
        if any(all(_same((variant | chosen)[axis], value) for axis, value in item.items()) for item in excluded):
            continue
        factors = variant | {labels[axis]: value for axis, value in chosen.items()}
        name = ",".join(f"{label}={_spell(value)}" for label, value in factors.items()) or BASE_CELL
        data = dict(bases[base])
        for axis, value in chosen.items():
            put(data, locations[axis], value)
        try:
            cell_workload = Workload.model_validate(data)
        except ValidationError as error:
            raise UsageError(
                f"{document.origin(('matrix',))}: matrix: the cell {name} cannot be run: {complaint(error)[1]} "
                "(remove it with exclude:)"
            ) from None
        same = named.setdefault(f"{base} {json.dumps(cell_workload.as_document(), sort_keys=True)}", name)
        if same != name:
            where = document.origin(("matrix",))
            raise UsageError(f"{where}: matrix: the cells {same} and {name} are the same; remove one of them")
        yield Cell(name, factors, cell_workload)


def _check_axis(axis: str, location: Location, values: list[Scalar], document: Document) -> None:
    if not values:
        raise UsageError(f"{document.origin(('matrix', axis))}: matrix: {axis} has no values")
    for index, value in enumerate(values):
        where = document.origin(("matrix", axis, index))
        if any(_same(value, earlier) for earlier in values[:index]):
            raise UsageError(f"{where}: matrix: {axis}: {_spell(value)} is listed twice")
        data = dict(document.data)
        put(data, location, value)
        try:
            Workload.model_validate(data)
        except ValidationError as error:
            # A rule about several keys may hold once the other axes have their values; cells are checked as a whole
            # later.
            for item in error.errors():
                if location_of(item)[: len(location)] == location:
                    raise UsageError(f"{where}: matrix: {describe(item)[1]}") from None


def _axis_location(axis: str, document: Document) -> Location:
    """The location of an axis (see `location_of_key`). Raises UsageError for what is no axis."""
    location = location_of_key(axis)
    if location is None:
        raise UsageError(f"{document.origin(('matrix', axis))}: matrix: {axis} is not an axis; {hint_of_key(axis)}")
    return location


def location_of_key(name: str) -> Location | None:
    """`producers.client.compression.type` -> ("producers", "client", "compression.type"); None if no cell has the key.

    The keys are those that may be an axis.
    """
    for location in _axis_locations():
        known = dotted(location)
        if name == known:
            return location
        if location[-1] in _PROPERTY_MAPPINGS and name.startswith(f"{known}."):
            return (*location, name.removeprefix(f"{known}."))
    return None


def hint_of_key(name: str) -> str:
    """Suggests a key for a name that is no key."""
    known = [dotted(location) for location in _axis_locations() if location[-1] not in _PROPERTY_MAPPINGS]
    near = nearest(name, [*_COMMON_AXES, *known])
    return f'did you mean "{near}"?' if near else f"axes are dotted keys like {_COMMON_AXES[0]} or storage.target"


@cache
def _axis_locations() -> tuple[Location, ...]:
    """Every key that accepts a scalar, and the mappings of properties, whose keys all do."""
    return tuple(location for section in _AXIS_SECTIONS for location in scalar_locations((section,)))


def _labels(locations: Mapping[str, Location]) -> dict[str, str]:
    """Names of factors: a property has its own name, unless two axes would share it; other keys are unchanged."""
    short = {axis: location[-1] if location[-2] in _PROPERTY_MAPPINGS else axis for axis, location in locations.items()}
    names = list(short.values())
    return {axis: str(name) if names.count(name) == 1 else axis for axis, name in short.items()}


def _exclusion(index: int, item: dict[str, Scalar], workload: Workload, document: Document) -> dict[str, Scalar]:
    if not item:
        raise UsageError(f"{document.origin(('exclude', index))}: exclude[{index}] does not name an axis")
    choices: dict[str, list[Scalar]] = {VARIANT: list(workload.variants)} if workload.variants else {}
    choices |= workload.matrix
    for axis, value in item.items():
        where = document.origin(("exclude", index, axis))
        if axis not in choices:
            known = f"its axes are {', '.join(choices)}" if choices else "there is no matrix"
            raise UsageError(f"{where}: exclude: {axis} is not an axis of the matrix; {known}")
        if not any(_same(value, known) for known in choices[axis]):
            values = ", ".join(_spell(known) for known in choices[axis])
            raise UsageError(f"{where}: exclude: {axis}: {_spell(value)} is not one of its values ({values})")
    return item


def _same(one: Scalar, other: Scalar) -> bool:
    """Whether two values configure the same: `1` and `"1"` do."""
    return _spell(one) == _spell(other)


def _spell(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_payload_file(specification: Specification, cell: Cell, document: Document) -> None:
    path = specification.payload_file(cell.workload)
    if path is None:
        return
    where = document.origin(("records", "payload_file"))
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{where}: records.payload_file: {path} is not a file")
    try:
        with path.open("rb") as file:
            if not file.read(1):
                raise UsageError(f"{where}: records.payload_file: {path} is empty")
    except OSError as error:
        raise UsageError(f"{where}: records.payload_file: cannot read {path}: {error.strerror or error}") from None


def _validate(data: dict[str, Any], document: Document) -> Workload:
    try:
        return Workload.model_validate(data)
    except ValidationError as error:
        location, text = complaint(error)
        raise UsageError(f"{document.origin(location)}: {text}") from None
