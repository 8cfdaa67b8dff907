"""The models of analysis.json and search.json: conclusions from all trials of a run."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from pydantic import Field

from highwater.results.base import Model
from highwater.results.models import Scalar, Verdict

ANALYSIS_SCHEMA: Final = "bench.analysis/1"
SEARCH_SCHEMA: Final = "bench.search/1"

Better = Literal["lower", "higher", "none"]
ComparisonVerdict = Literal["better", "worse", "differs", "no_change", "not_worse", "undecided"]
SearchStage = Literal["ramp", "bisect", "confirm"]
SearchStatus = Literal["running", "answered", "interrupted"]


class MetricEstimate(Model):
    """One metric of one cell over those of its trials that are not invalid."""

    metric: str = Field(description="a name of results.metrics")
    value: float = Field(description="median of the trials' values")
    unit: str
    better: Better
    n_trials: int
    values: list[float] = Field(description="of each trial, in the order of running")
    ci95: tuple[float, float] | None = Field(description="of the median; None with too few trials to give one")
    method: str
    cov_ratio: float | None = Field(description="standard deviation ÷ mean over trials; None with fewer than two")
    unstable: bool = Field(description="the trials differ so much that the figure should not be quoted alone")


class CellAnalysis(Model):
    cell: str
    factors: dict[str, Scalar]
    n_trials: int = Field(description="finished, whatever their verdict")
    n_valid: int
    n_used: int = Field(description="those that the estimates stand on: valid and inconclusive ones")
    metrics: list[MetricEstimate]


class AaPair(NamedTuple):
    """Two trials of the same thing."""

    cell: str
    ratio: float


class Noise(Model):
    """How much one metric differs between trials of the same thing, from A/A pairs."""

    metric: str
    n_pairs: int
    ratios: list[float] = Field(description="of each pair: A/A trial ÷ its twin")
    cells: list[str] = Field(default=[], description="of each pair; empty in a file of an older version")
    bound95_ratio: float | None = Field(
        description="0.03: 95 % of pairs of the same thing differ by at most 3 %; None with too few pairs"
    )
    method: str

    @property
    def pairs(self) -> list[AaPair]:
        return [AaPair(*pair) for pair in zip(self.cells or [""] * len(self.ratios), self.ratios, strict=True)]


class Comparison(Model):
    """One metric of a cell against the first cell, trials paired by block."""

    base: str
    head: str
    metric: str
    better: Better
    n_pairs: int
    ratio: float = Field(description="head ÷ base over the blocks, centre after Hodges and Lehmann")
    ci95: tuple[float, float] | None
    delta_ratio: float = Field(description="changes smaller than this count as none: the A/A bound, 0 without one")
    smallest_detectable_ratio: float | None = Field(description="the change that would have been found 4 times in 5")
    p_value: float | None = Field(description="two-sided, of a change beyond delta, by sign flips; None without pairs")
    p_value_holm: float | None = Field(description="corrected for the number of comparisons of this metric")
    verdict: ComparisonVerdict


class Analysis(Model):
    schema_: Literal["bench.analysis/1"] = Field(default=ANALYSIS_SCHEMA, alias="schema")
    complete: bool = Field(description="False while the run goes on, and for ever when it was interrupted")
    seed: int = Field(description="of the bootstrap")
    cells: list[CellAnalysis]
    noise: list[Noise]
    comparisons: list[Comparison]
    warnings: list[str] = Field(description="what a reader must know before quoting anything")


class SearchProbe(Model):
    """One trial of a search."""

    trial_id: str
    stage: SearchStage
    rate_per_s: int
    passed: bool
    limit: str | None = Field(description="the first limit that failed: a metric or a check; None when it passed")
    text: str | None = Field(description="that limit in a sentence, with what was measured")
    verdict: Verdict | None = Field(
        default=None, description="of the trial: whether its figures may be believed; None in an older file"
    )


class Search(Model):
    """The highest rate that the system sustains under the objectives, as a bracket with its evidence."""

    schema_: Literal["bench.search/1"] = Field(default=SEARCH_SCHEMA, alias="schema")
    status: SearchStatus
    slo: dict[str, str]
    min_per_s: int
    max_per_s: int | None
    precision_ratio: float
    last_passing_per_s: int | None = Field(description="the answer; None when not even the lowest rate passed")
    first_failing_per_s: int | None = Field(description="None when everything up to the highest rate passed")
    limit: str | None = Field(description="what failed at first_failing_per_s")
    text: str | None
    generator_limited: bool = Field(description="the generator failed first: the system may sustain more")
    confirmed: int = Field(description="fresh trials at the answer that passed")
    confirmations: int = Field(description="number of fresh trials requested at the answer")
    probes: list[SearchProbe]
