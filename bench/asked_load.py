"""Reads from a workload which load a cell was asked to carry, and compares two loads.

Figures of two loads are no verdict on two systems. The load is how much is offered, when, and of which records.
Partitions, clients and their settings are what people compare, and are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from highwater.bench.environment_key import Scalar, flat, unequal
from highwater.bench.results.gate import EnvironmentDifference
from highwater.bench.results.models import TrialSummary
from highwater.bench.results.reader import RunResult
from highwater.bench.workload.layers import merged, put
from highwater.bench.workload.sections import Load, Records

_SECTIONS: Final[Mapping[str, type[BaseModel]]] = {"load": Load, "records": Records}


def is_of_the_load(fact: str) -> bool:
    """Whether a key of a workload, such as `load.rate`, says which load it is."""
    return fact.partition(".")[0] in _SECTIONS


def differences(
    base: RunResult, head: RunResult, pairs: Iterable[tuple[Sequence[TrialSummary], Sequence[TrialSummary]]]
) -> list[EnvironmentDifference]:
    """What differs between the loads of the cells that are compared. pairs: the trials of each cell on both sides."""
    found = [
        difference
        for one, other in pairs
        if one and other
        for difference in unequal(_asked(base, one[0].cell), _asked(head, other[0].cell))
    ]
    return list({(item.fact, item.base, item.head): item for item in found}.values())


def differences_of_documents(base: Mapping[str, Any], head: Mapping[str, Any]) -> list[EnvironmentDifference]:
    """What differs between the loads of two workload documents without a matrix."""
    return unequal(_facts(base), _facts(head))


def _asked(result: RunResult, cell: str) -> dict[str, Scalar]:
    workload = result.manifest.workload
    factors = next((planned.factors for planned in result.manifest.trials if planned.cell == cell), {})
    asked = merged(workload, workload.get("variants", {}).get(factors.get("variant"), {}))
    for factor, value in factors.items():
        if is_of_the_load(factor):
            put(asked, tuple(factor.split(".")), value)
    return _facts(asked)


def _facts(workload: Mapping[str, Any]) -> dict[str, Scalar]:
    return flat({name: _with_defaults(section, workload.get(name, {})) for name, section in _SECTIONS.items()})


def _with_defaults(section: type[BaseModel], recorded: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section as this version writes it, so that a key which an older version did not know makes no difference."""
    try:
        return section.model_validate(recorded).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValueError:  # of another version
        return recorded
