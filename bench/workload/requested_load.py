"""Reads from a workload the load that a cell requests, and compares two loads.

Keys that an older version did not know get the default of this version, so that they make no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from highwater.bench.workload.layers import merged, put
from highwater.bench.workload.sections import Load, Records
from highwater.results.analysis.compare import LOAD_SECTIONS
from highwater.results.environment_key import Scalar, flat, unequal
from highwater.results.gate import EnvironmentDifference

_SECTIONS: Final[Mapping[str, type[BaseModel]]] = dict(zip(LOAD_SECTIONS, (Load, Records), strict=True))


def load_of(workload: Mapping[str, Any], factors: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The load that a workload asks of its cell with these factors, by key: `load.rate`, `records.value.bytes`."""
    requested = merged(workload, workload.get("variants", {}).get(factors.get("variant"), {}))
    for factor, value in factors.items():
        if factor.partition(".")[0] in LOAD_SECTIONS:
            put(requested, tuple(factor.split(".")), value)
    return _facts(requested)


def differences_of_documents(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[EnvironmentDifference]:
    """What differs between the loads of two workload documents without a matrix."""
    return unequal(_facts(base), _facts(head))


def _facts(workload: Mapping[str, Any]) -> dict[str, Scalar]:
    return flat({name: _with_defaults(section, workload.get(name, {})) for name, section in _SECTIONS.items()})


def _with_defaults(section: type[BaseModel], recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section as this version writes it, so that a key which an older version did not know makes no difference."""
    try:
        return section.model_validate(recorded).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValueError:  # of another version
        return recorded
