"""Whether the load generator can offer the rates of a plan at all, by its calibrated ceilings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from highwater.bench.trials.given_calibration import consumer_shape_of, shape_of
from highwater.bench.trials.load_plan import load_plan_of
from highwater.bench.trials.plan import Plan
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import Specification
from highwater.common.units import percent_text, rate_text
from highwater.results.calibration import Calibration
from highwater.spark_loadgen.model import LoadPlan


@dataclass(frozen=True, slots=True)
class _Problem:
    """hopeless: no trial can be valid. text: what follows the names of the cells."""

    hopeless: bool
    text: str


def rate_problems(plan: Plan, calibration: Calibration) -> tuple[list[str], list[str]]:
    """Why no trial of some cells can be valid, and why trials of others cannot be decided; a line for equal cells.

    A cell is hopeless when even the fastest calibration trial of its producers was slower than the rate requires.
    """
    found: dict[_Problem, list[str]] = {}
    for cell in plan.cells:
        for problem in _problems(plan.specification, cell.workload, calibration):
            found.setdefault(problem, []).append(cell.name)
    lines = [(problem.hopeless, f"{_names(names)}: {problem.text}") for problem, names in found.items()]
    return [text for hopeless, text in lines if hopeless], [text for hopeless, text in lines if not hopeless]


def _problems(specification: Specification, workload: Workload, calibration: Calibration) -> Iterable[_Problem]:
    if workload.producers.native or not workload.load.steps:
        return
    plan = load_plan_of(
        workload,
        bootstrap_servers="",
        topics=tuple(f"topic-{number}" for number in range(workload.topics.count)),
        payload_file=specification.payload_file(workload),
        seed=0,
        connection=specification.command_config(workload),
        traces=specification.traces(workload),
    )
    offered_per_s, validity = _mean_rate_per_s(workload), workload.validity
    ceiling = calibration.ceiling_of(shape_of(plan))
    if ceiling is not None:
        reach = f"these producers reach {rate_text(ceiling.ceiling_per_s)} here without a broker"
        remedy = "use more producers on more cores, or lower load.rate"
        if offered_per_s * validity.achieved_ratio_min > max(ceiling.values_per_s):
            yield _Problem(
                True,
                f"{rate_text(offered_per_s)} cannot be offered: {reach}; {remedy}, or leave the cell out (exclude:)",
            )
            return
        if offered_per_s > validity.generator_ceiling_ratio_max * ceiling.ceiling_per_s:
            yield _Problem(False, f"{_above(offered_per_s, validity.generator_ceiling_ratio_max, reach)}; {remedy}")
    yield from _consumer_problems(plan, offered_per_s * workload.consumers.groups, workload, calibration)


def _consumer_problems(
    plan: LoadPlan, read_per_s: float, workload: Workload, calibration: Calibration
) -> Iterable[_Problem]:
    ceiling = calibration.consumer_ceiling_of(consumer_shape_of(plan)) if plan.consumers else None
    limit = workload.validity.generator_ceiling_ratio_max
    if ceiling is not None and read_per_s > limit * ceiling.ceiling_per_s:
        reach = f"these consumers reach {rate_text(ceiling.ceiling_per_s)} here when all records are written"
        remedy = "use more consumers on more cores (consumers.per_group)"
        yield _Problem(False, f"{_above(read_per_s, limit, reach)}; {remedy}")


def _above(rate_per_s: float, limit: float, reach: str) -> str:
    return (
        f"trials at {rate_text(rate_per_s)} will be inconclusive: {reach}, and the limit is {percent_text(limit)} of it"
    )


def _mean_rate_per_s(workload: Workload) -> float:
    """Over the measured phase, which is what a trial is judged by."""
    measure_s = workload.phases.measure_s
    return sum(step.rate_per_s * (step.duration_s or measure_s) for step in workload.load.steps) / measure_s


def _names(cells: list[str]) -> str:
    return cells[0] if len(cells) == 1 else f"{cells[0]} and {len(cells) - 1} more"
