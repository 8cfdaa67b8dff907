"""The `answer:` of a workload file: the question that its report answers first."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator

from highwater.bench.workload.values import Part
from highwater.common.errors import UsageError
from highwater.results.metrics import COUNTS_OF_FATES, metric

_NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Question(Part):
    best: Annotated[list[str], BeforeValidator(_as_list), WithJsonSchema(_NAMES_SCHEMA)] | None = Field(
        default=None, description="metrics that rank the cells; by default those of the objectives or the load"
    )
    lost: bool = Field(default=True, description="report whether records were lost; a loss is reported in any case")

    @field_validator("best")
    @classmethod
    def _ranks(cls, best: list[str] | None) -> list[str] | None:
        return None if best is None else [_ranking_metric(name) for name in best]


def _ranking_metric(name: str) -> str:
    try:
        definition = metric(name)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if definition.better == "none":
        raise ValueError(f"no value of {definition.name} is better than another, so it ranks no cells")
    if definition.name.startswith(COUNTS_OF_FATES):
        raise ValueError(f"{definition.name} is 0 as a rule; lost: true reports what happened to records")
    return definition.name
