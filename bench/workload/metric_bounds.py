"""Bounds by the names of metrics: `slo:` of a workload file, `constraints:` of a question."""

from __future__ import annotations

import math
import re
from itertools import permutations
from typing import Annotated

from pydantic import AfterValidator

from highwater.bench.workload.values import KeyFaultError, SloBound
from highwater.common.errors import UsageError
from highwater.results.bounds import Bound
from highwater.results.metrics import metric


def _of_known_metrics(bounds: dict[str, Bound]) -> dict[str, Bound]:
    known: dict[str, Bound] = {}
    for name, bound in bounds.items():
        try:
            definition = metric(name)
            known[definition.name] = bound.for_unit(definition.unit)
        except (UsageError, ValueError) as error:
            raise KeyFaultError(name, text=str(error)) from None
    for (name, bound), (other, upper) in permutations(known.items(), 2):
        if _is_below(name, other) and _excludes(bound, upper):
            raise KeyFaultError(name, text=f"{bound} contradicts {other} {upper}: {name} is never above {other}")
    return known


def _is_below(name: str, other: str) -> bool:
    """Whether both are quantiles of one distribution, and the first one is the lower."""
    (family, quantile), (other_family, other_quantile) = _quantile(name), _quantile(other)
    return family == other_family and quantile < other_quantile


def _quantile(name: str) -> tuple[str, float]:
    """`produce.p99` -> (`produce`, 0.99); nan for what is no quantile."""
    family, _, last = name.rpartition(".")
    if last == "max":
        return family, 1.0
    return family, float(f"0.{last[1:]}") if re.fullmatch(r"p\d+", last) else math.nan


def _excludes(lower: Bound, upper: Bound) -> bool:
    """Whether no value that meets `lower` is at most one that meets `upper`."""
    if lower.comparison not in (">", ">=", "==") or upper.comparison not in ("<", "<=", "=="):
        return False
    strict = lower.comparison == ">" or upper.comparison == "<"
    return lower.value > upper.value or (strict and lower.value == upper.value)


MetricBounds = Annotated[dict[str, SloBound], AfterValidator(_of_known_metrics)]
"""Full names of metrics, each with a bound in a unit of that metric."""
