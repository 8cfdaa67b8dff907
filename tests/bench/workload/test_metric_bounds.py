from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from highwater.bench.workload.metric_bounds import MetricBounds
from highwater.results.bounds import Bound

BOUNDS: TypeAdapter[dict[str, Bound]] = TypeAdapter(MetricBounds)


@pytest.mark.parametrize(
    "bounds",
    [
        {"produce.p50": ">200ms", "produce.p99": "<100ms"},
        {"produce.p99": "<100ms", "produce.p50": ">=100ms"},
        {"produce.p999": ">=1s", "produce.max": "<1s"},
        {"e2e.p90": "==5ms", "e2e.p9999": "<=4ms"},
    ],
)
def test_bounds_on_quantiles_that_contradict_each_other_are_refused(bounds: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"contradicts .*: .* is never above "):
        BOUNDS.validate_python(bounds)


@pytest.mark.parametrize(
    "bounds",
    [
        {"produce.p50": ">1ms", "produce.p99": "<100ms"},
        {"produce.p50": "<100ms", "produce.p99": ">200ms"},
        {"produce.p50": ">=100ms", "produce.p99": "<=100ms"},
        {"produce.p50": ">200ms", "e2e.p99": "<100ms"},
        {"produce.achieved_per_s": ">200/s", "produce.p99": "<100ms"},
    ],
)
def test_bounds_that_can_be_kept_together_are_taken(bounds: dict[str, str]) -> None:
    assert {name: str(bound) for name, bound in BOUNDS.validate_python(bounds).items()} == bounds
