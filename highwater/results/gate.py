"""The models of gate.json and of the output of `bench compare`."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from highwater.results.analysis_file import Better, ComparisonVerdict
from highwater.results.base import Model

COMPARISON_SCHEMA: Final = "bench.comparison/1"
GATE_SCHEMA: Final = "bench.gate-result/1"

GateState = Literal[
    "pass", "regression", "inconclusive", "invalid", "target_failed", "environment_mismatch", "interrupted"
]


class SideEstimate(Model):
    """One metric of one side over its valid trials: the median, and an interval of it where there are enough."""

    value: float
    ci95: tuple[float, float] | None
    n_trials: int
    most: float | None = Field(default=None, description="the largest value of a trial; None in an older file")


class MetricComparison(Model):
    """One metric of one cell, head against base. Ratios are head ÷ base whichever way is better."""

    cell: str = Field(description="what base and head share: the workload's own cell, `base` without a matrix")
    metric: str = Field(description="a name of results.metrics")
    unit: str
    better: Better
    gated: bool = Field(default=False, description="it decides; otherwise it is shown and decides nothing")
    base: SideEstimate
    head: SideEstimate
    paired: bool = Field(description="trials were interleaved and are paired by block; otherwise drift is not excluded")
    n_pairs: int = Field(description="pairs, or trials of the smaller side when unpaired")
    ratio: float | None = Field(description="median paired ratio, or ratio of medians; None where a value is 0")
    ci95: tuple[float, float] | None
    floor_ratio: float = Field(default=0.0, description="changes smaller than this do not matter")
    noise_ratio: float | None = Field(
        default=None,
        description="what A/A pairs of the cell differ by, as the centre of n_pairs; of all cells below three pairs",
    )
    delta_ratio: float = Field(description="max(floor, noise): a change must lie wholly beyond it")
    smallest_detectable_ratio: float | None = Field(description="the change that would have been found 4 times in 5")
    p_value: float | None = Field(default=None, description="one-sided, of a change for the worse beyond delta")
    p_value_holm: float | None = Field(default=None, description="corrected for the number of gated metrics")
    verdict: ComparisonVerdict


class EnvironmentDifference(Model):
    """A fact that two environments do not share. `decides`: it is part of the environment key."""

    fact: str
    name: str = Field(default="", description="what people call it; empty if it has no other name")
    base: str | int | float | bool | None
    head: str | int | float | bool | None
    decides: bool


class SideDelivery(Model):
    """What became of the records of a side, over all its finished trials."""

    text: str
    short: str = Field(description="for a headline")
    is_broken: bool = Field(description="records were lost, damaged or repeated against what was promised")


class ComparedSide(Model):
    given: str = Field(description="as the user named it")
    directory: str | None = None
    cells: list[str] = Field(default=[])
    name: str = Field(default="", description="of the workload")
    created_utc: str | None = None
    system: str = Field(default="", description="kind and version, or where its source came from")
    commit: str | None = None
    environment_key: str | None = None
    delivery: SideDelivery | None = None
    n_invalid: int = Field(default=0, description="trials that are invalid, and are not compared")


class ResultComparison(Model):
    schema_: Literal["bench.comparison/1"] = Field(default=COMPARISON_SCHEMA, alias="schema")
    base: ComparedSide
    head: ComparedSide
    paired: bool
    metrics: list[MetricComparison]
    environment: list[EnvironmentDifference]
    workload: list[EnvironmentDifference] = Field(
        default=[], description="keys of the two workloads that differ; `decides`: they say which load it is"
    )
    asked: list[str] = Field(
        default=[], description="metrics of the workload's question and objectives, or the headline ones"
    )
    answer: str = Field(default="", description="the answer in one sentence")
    answers: dict[str, str] = Field(default={}, description="cell to its answer in one sentence")
    warnings: list[str] = Field(description="what a reader must know before quoting anything")

    @property
    def deliveries(self) -> dict[str, SideDelivery]:
        """`base` and `head`, as far as it is known what became of their records."""
        sides = {"base": self.base, "head": self.head}
        return {name: side.delivery for name, side in sides.items() if side.delivery is not None}

    @property
    def is_broken(self) -> bool:
        return any(delivery.is_broken for delivery in self.deliveries.values())

    @property
    def same_environment(self) -> bool:
        return not any(difference.decides for difference in self.environment)

    @property
    def same_load(self) -> bool:
        return not any(difference.decides for difference in self.workload)

    @property
    def answered(self) -> list[MetricComparison]:
        """What the answer is about: the asked metrics, or all where none of them was compared."""
        return [item for item in self.metrics if item.metric in self.asked] or self.metrics


class GateRound(Model):
    """One set of pairs: the first, or a confirmation with processes of its own."""

    stage: Literal["first", "confirmation"]
    directory: str | None = Field(description="relative to gate.json; None when the trials came from elsewhere")
    seed: int | None
    pairs: int = Field(description="blocks that were run")
    pairs_valid: int
    a_a_pairs: int
    metrics: list[MetricComparison]
    text: str


class Gate(Model):
    """Whether head may pass, and on what grounds."""

    schema_: Literal["bench.gate-result/1"] = Field(default=GATE_SCHEMA, alias="schema")
    state: GateState
    exit_code: int
    text: str = Field(description="the outcome in one sentence")
    base: ComparedSide
    head: ComparedSide
    interleaved: bool = Field(
        description="False for two result directories: drift is not excluded, nor confirmation had"
    )
    confirmed: bool | None = Field(description="None when there was nothing to confirm, or no way to")
    policy: dict[str, Any]
    policy_file: str | None = Field(default=None, description="as it was named; None for the default policy")
    rounds: list[GateRound]
    environment: list[EnvironmentDifference]
    notes: list[str] = Field(default=[])
