"""The `aims:` of a workload file: ratios that one variant should reach against others.

An objective (`slo:`) bounds a metric of each trial. An aim bounds a ratio: the metric of one variant, divided by the
metric of another variant in trials of the same block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from highwater.bench.workload.values import KeyFaultError, Part, SloBound
from highwater.common.errors import UsageError
from highwater.results.bounds import Bound
from highwater.results.metrics import metric


class Aim(Part):
    """Ratios that a variant should reach against each of some other variants, in cells that differ in no other
    factor.
    """

    of: str = Field(description="the variant whose metric is divided")
    beside: list[str] = Field(min_length=1, description="the variants whose metrics it is divided by, each in turn")
    ratio: dict[str, SloBound] = Field(min_length=1, description='metric -> bound on the ratio, such as ">=1.5"')

    @field_validator("ratio")
    @classmethod
    def _known_metrics(cls, ratio: dict[str, Bound]) -> dict[str, Bound]:
        known = {}
        for name, bound in ratio.items():
            try:
                known[metric(name).name] = bound
            except UsageError as error:
                raise KeyFaultError(name, text=str(error)) from None
            if bound.unit:
                raise KeyFaultError(name, text=f'{bound} has a unit; a ratio has none, for example ">=1.5"')
        return known


def check_aims(aims: list[Aim], variants: Mapping[str, Any]) -> None:
    """Raises KeyFaultError for an aim that names an unknown variant."""
    for number, aim in enumerate(aims):
        for key, names in (("of", [aim.of]), ("beside", aim.beside)):
            for name in names:
                if name not in variants:
                    known = ", ".join(variants) or "there are none"
                    raise KeyFaultError("aims", number, key, text=f"{name!r} is not one of the variants ({known})")
        if aim.of in aim.beside:
            raise KeyFaultError("aims", number, "beside", text=f"{aim.of} against itself is always 1")
