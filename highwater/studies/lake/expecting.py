"""What the noise of earlier runs in a lake says about a plan: how small a change its trials can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from highwater.common.units import change_size_text, count_text, percent_text, plural
from highwater.results.analysis.expecting import MOST_TRIALS, detectable_ratio, trials_to_detect
from highwater.results.analysis.statistics import LEAST_FOR_NOISE
from highwater.results.metrics import metric as known_metric
from highwater.studies.lake.asking import asked_sql, opened
from highwater.studies.lake.manifest import Manifest

_CHANGE_RATIO: Final = 0.05
_SQL: Final = """
with newest as (
    select environment from runs where workload = :workload order by created_utc desc, run desc limit 1
)
select twin.run, twin.metric, twin.value / own.value as ratio
from figures twin
join figures own on own.run = twin.run and own.cell = twin.cell and own.block = twin.block
                and own.metric = twin.metric and own.role = 'measure' and own.usable
join runs r on r.run = twin.run
where twin.role = 'a_a' and twin.usable and own.value > 0 and twin.value > 0
  and r.workload = :workload and r.environment = (select environment from newest)
order by twin.metric, twin.run, ratio
"""


@dataclass(frozen=True, slots=True)
class Expected:
    """What to expect of one metric. `detectable_ratio`: the least change that the trials show four times in five."""

    metric: str
    pairs: int
    runs: int
    detectable_ratio: float | None
    trials_for_five_percent: int | None


def expected_of(manifest: Manifest, workload: str, trials: int, metrics: Sequence[str]) -> list[Expected]:
    """What to expect of the metrics with three A/A pairs of the workload in the environment of its newest run.

    trials: the number for each cell. Raises UsageError when the lake cannot be read.
    """
    with opened(manifest) as connection:
        rows: list[dict[str, Any]] = connection.engine.query(asked_sql(_SQL).sql, {"workload": workload}).to_pylist()
    found = {name: list(group) for name, group in groupby(rows, lambda row: str(row["metric"]))}
    return [
        _expected(known_metric(name).name, found[name], trials)
        for name in metrics
        if len(found.get(name, ())) >= LEAST_FOR_NOISE
    ]


def _expected(metric: str, rows: Sequence[dict[str, Any]], trials: int) -> Expected:
    ratios = [row["ratio"] for row in rows]
    return Expected(
        metric,
        len(rows),
        len({row["run"] for row in rows}),
        detectable_ratio(ratios, trials),
        trials_to_detect(ratios, _CHANGE_RATIO),
    )


def lines_of(expected: Sequence[Expected], workload: str, trials: int) -> Iterator[str]:
    """`produce.p99: 7 trials of each cell show a change of 6 %, 4 times in 5; 5 % takes 9 trials (3 A/A pairs, …)`"""
    for one in expected:
        many, wanted = plural(trials, "trial"), one.trials_for_five_percent
        shown = (
            f"{many} of each cell show a change of {change_size_text(one.detectable_ratio)}, 4 times in 5"
            if one.detectable_ratio is not None
            else f"{many} of each cell are too few for an interval"
        )
        takes = f"over {count_text(MOST_TRIALS)}" if wanted is None else count_text(wanted)
        known = f"{plural(one.pairs, 'A/A pair')}, {plural(one.runs, 'run')}"
        yield f"{one.metric}: {shown}; {percent_text(_CHANGE_RATIO)} takes {takes} trials ({known})"
    if not expected:
        yield (
            f"the lake has no three A/A pairs of {workload}, so what its trials can show is not known "
            "(trials: {a_a: true} makes them)"
        )
