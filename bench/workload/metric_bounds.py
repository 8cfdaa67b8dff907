"""Bounds by the names of metrics: `slo:` of a workload file, `constraints:` of a question."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from highwater.bench.errors import UsageError
from highwater.bench.metrics import metric
from highwater.bench.workload.slo import Bound
from highwater.bench.workload.values import KeyFaultError, SloBound


def _of_known_metrics(bounds: dict[str, Bound]) -> dict[str, Bound]:
    known: dict[str, Bound] = {}
    for name, bound in bounds.items():
        try:
            definition = metric(name)
            known[definition.name] = bound.for_unit(definition.unit)
        except (UsageError, ValueError) as error:
            raise KeyFaultError(name, text=str(error)) from None
    return known


MetricBounds = Annotated[dict[str, SloBound], AfterValidator(_of_known_metrics)]
"""Full names of metrics, each with a bound in a unit of that metric."""
