"""The confirmation: fresh trials of the finalists beside the settings in use and the defaults.

It is an ordinary run: its cells are variants of the question's workload, so that `bench compare` and `report` show them
like any others. Where there is time, it also has the best candidate without each of its changes: what that change was
worth.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload.layers import put
from highwater.bench.workload.specification import VARIANT, specify
from highwater.bench.workload.values import Scalar
from highwater.common.yaml_nodes import Document, Location
from highwater.results.advice import ADVISED
from highwater.studies.advise.budget import Budget, least_blocks
from highwater.studies.advise.question import Asked
from highwater.studies.advise.space import Candidate

IN_USE: Final = "in-use"
DEFAULTS: Final = "defaults"
WITHOUT: Final = "without-"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The run that confirms: its plan, and what each variant is.

    options: variant -> finalist. defaults: None if they are in use, a finalist, or impossible. without: variant -> the
    key that has its value in use again.
    """

    plan: Plan
    options: dict[str, Candidate]
    defaults: Candidate | None
    without: dict[str, str]

    @property
    def candidates(self) -> dict[str, Candidate]:
        """What may be advised, by its variant."""
        return self.options if self.defaults is None else {**self.options, DEFAULTS: self.defaults}

    @property
    def blocks(self) -> int:
        return self.plan.trials[-1].plan.block


def cell_name(variant: str) -> str:
    return f"{VARIANT}={variant}"


def confirmation_of(asked: Asked, finalists: Sequence[Candidate], budget: Budget, seed: int) -> Confirmation:
    """The plan of the confirmation. finalists: at least one."""
    defaults = next((candidate for candidate in asked.references[1:] if candidate not in finalists), None)
    options = {(ADVISED if not index else f"{ADVISED}-{index + 1}"): one for index, one in enumerate(finalists)}
    cells: dict[str, Candidate] = {IN_USE: asked.in_use}
    if defaults is not None:
        cells[DEFAULTS] = defaults
    cells |= options
    without = _without(asked, finalists[0], cells) if len(finalists) == 1 else {}
    enough = least_blocks(len(cells) - 1)
    if budget.confirmation_blocks(len(cells) + len(without)) < enough:
        without = {}
    for variant, key in without.items():
        cells[variant] = _reset(asked, finalists[0], key)
    blocks = max(budget.confirmation_blocks(len(cells)), enough)
    data = copy.deepcopy(asked.data)
    data["name"] = f"{asked.question.name}-confirmation"
    data["purpose"] = f"Are the settings that were found for {asked.question.name} better than those in use?"
    data["variants"] = {variant: _overlay(asked, candidate) for variant, candidate in cells.items()}
    data["trials"] = {**data.get("trials", {}), "n": blocks, "a_a": True}
    plan = make_plan(specify(Document(str(asked.workload_file), data), asked.workload_file), seed)
    return Confirmation(plan, options, defaults, without)


def _without(asked: Asked, finalist: Candidate, cells: dict[str, Candidate]) -> dict[str, str]:
    """The variants that lack one change of the finalist, if it has several; those that cannot be run are left out."""
    changed = [
        key
        for key, one, other in zip(asked.space.keys, finalist, asked.in_use, strict=True)
        if one != other and asked.allows(_reset(asked, finalist, key))
    ]
    known = set(cells.values())
    if len(changed) < 2:
        return {}
    return {f"{WITHOUT}{asked.locations[key][-1]}": key for key in changed if _reset(asked, finalist, key) not in known}


def _reset(asked: Asked, candidate: Candidate, key: str) -> Candidate:
    """The candidate with the value in use of one setting."""
    place = asked.space.keys.index(key)
    return (*candidate[:place], asked.in_use[place], *candidate[place + 1 :])


def _overlay(asked: Asked, candidate: Candidate) -> dict[str, Any]:
    """What a variant changes in the workload, which has the settings in use."""
    overlay: dict[str, Any] = {}
    for key, value, present in zip(asked.space.keys, candidate, asked.in_use, strict=True):
        if value is None and present is not None:
            _put_nothing(overlay, asked.locations[key])
        elif value is not None and value != present:
            put(overlay, asked.locations[key], value)
    return overlay


def _put_nothing(overlay: dict[str, Any], location: Location) -> None:
    """Let the overlay remove the key."""
    *parents, last = location
    for part in parents:
        overlay = overlay.setdefault(str(part), {})
    overlay[str(last)] = None


def values_of(asked: Asked, candidate: Candidate) -> dict[str, Scalar | None]:
    return dict(zip(asked.space.keys, candidate, strict=True))
