"""A plan as JSON (`capacity.plan/2`), and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf, isfinite
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from highwater.common.errors import UsageError
from highwater.studies.capacity.plan import PLAN_SCHEMA, Plan

PLAN_FILE: Final = "plan.json"
LOAD_FILE: Final = "load.yaml"
"""The load file of the plan, beside it."""


def plan_text(plan: Plan) -> str:
    """What never ends, such as a recovery for which nothing is spare, is null."""
    return json.dumps({"schema": plan.schema} | _finite(asdict(plan)), ensure_ascii=False, indent=2)


def plan_of(text: str, name: str) -> Plan:
    """name: of the file, for errors. Raises UsageError for what is no plan, or one of another version."""
    try:
        found = json.loads(text)
    except ValueError:
        raise UsageError(f"{name} is not JSON: make the plan again with highwater plan --out DIR") from None
    if not isinstance(found, dict) or found.get("schema") != PLAN_SCHEMA:
        raise UsageError(
            f"{name} is not a plan of this version ({PLAN_SCHEMA}): make it again with highwater plan --out DIR"
        )
    try:
        _restore_endless(found)
        return TypeAdapter(Plan).validate_python(found)
    except (ValidationError, KeyError, TypeError):
        raise UsageError(f"{name} is damaged: make the plan again with highwater plan --out DIR") from None


def _restore_endless(found: dict[str, Any]) -> None:
    places = [(choice, "lost_disk_s") for choice in found["disks"]]
    if found["state"] is not None:
        places.append((found["state"], "recovery_s"))
        places += [(demand, "amount") for demand in found["state"]["demands"]]
    for holder, key in places:
        if holder[key] is None:
            holder[key] = inf


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
