"""Exports the catalogue as plain data; `tuning/schemas/knob.schema.json` is its schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

from ..model import Knob, Lifetime

SCHEMA: Final = "tuning.catalogue/1"


def as_json(knobs: Iterable[Knob]) -> dict[str, Any]:
    return {"schema": SCHEMA, "knobs": [knob_as_json(knob) for knob in knobs]}


def knob_as_json(knob: Knob) -> dict[str, Any]:
    """All data of a knob without its functions; the formula is given in words."""
    return {
        "id": knob.id,
        "title": knob.title,
        "group": knob.group,
        "mechanism": knob.mechanism,
        "scope": knob.scope,
        "path": knob.path,
        "field": knob.field,
        "twin": knob.twin,
        "unit": knob.unit,
        "comparison": knob.comparison,
        "recommended": knob.formula_in_words,
        "reason": knob.reason,
        "detail": knob.detail,
        "authorities": [dataclasses.asdict(authority) for authority in knob.authorities],
        "authorities_disagree": disagree(knob),
        "sources": [dataclasses.asdict(source) for source in knob.sources],
        "risk": knob.risk,
        "risk_text": knob.risk_text,
        "persistence": knob.persistence,
        "capability": knob.capability,
        "only_if_named": knob.only_if_named,
        "lifetime": _lifetime(knob.lifetime),
    }


def disagree(knob: Knob) -> bool:
    """Whether the authorities recommend different values; for a ceiling, the kernel's default is no recommendation."""
    starts = "default" if knob.comparison in ("at_least", "at_most") else None
    return len({each.value for each in knob.authorities if starts is None or starts not in each.who}) > 1


def _lifetime(lifetime: Lifetime) -> dict[str, Any]:
    return {
        "since": None if lifetime.since is None else ".".join(map(str, lifetime.since)),
        "removed": None if lifetime.removed is None else ".".join(map(str, lifetime.removed)),
        "text": lifetime.text,
    }
