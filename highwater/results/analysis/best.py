"""Which cell is best in a metric, whether the trials decide it, and how many trials would. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist, median
from typing import Final

from highwater.common.units import change_span_text, change_text, count_text, percent_text, plural, ratio_text
from highwater.results.analysis import cells
from highwater.results.analysis.conclusions import (
    SIGNIFICANCE,
    Values,
    comparisons_with,
    estimate,
    noise_of,
    usable,
    values_by_block,
)
from highwater.results.analysis.statement import Statement
from highwater.results.analysis.statistics import CONFIDENCE, LEAST_FOR_INTERVAL, POWER
from highwater.results.analysis_file import AaPair, Comparison
from highwater.results.gate import MetricComparison
from highwater.results.metrics import METRICS, MetricDefinition, value_text
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult

_THROUGHPUT: Final = ("produce.achieved_per_s", "produce.achieved_bytes_per_s")
_MOST_NAMED: Final = 3
# A difference that more trials of each cell than this would be needed for is too small to be worth them.
MOST_TRIALS: Final = 50
_TWICE: Final = 2


@dataclass(frozen=True)
class Figures:
    """The usable figures of a run, by cell and block."""

    result: RunResult

    @cached_property
    def trials(self) -> dict[str, list[TrialSummary]]:
        """The usable trials of each cell."""
        return {cell: usable(t.summary for t in trials) for cell, trials in self.result.cells().items()}

    @cached_property
    def values(self) -> dict[str, dict[int, Values]]:
        return {cell: values_by_block(trials) for cell, trials in self.trials.items()}

    @cached_property
    def noise(self) -> dict[str, Sequence[AaPair]]:
        """Metric to its A/A pairs."""
        return {item.metric: item.pairs for item in noise_of([t.summary for t in self.result.trials], self.values)}

    @cached_property
    def names(self) -> dict[str, str]:
        return cells.short_names(cells.varying_factors(self.result.manifest))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The cells by the names and values of their factors."""
        return self._labels_by(self.names)

    @cached_property
    def labels_at_a_load(self) -> dict[str, str]:
        """The labels without the factors that change the offered load."""
        return self._labels_by({factor: name for factor, name in self.names.items() if factor not in self._of_load})

    def _labels_by(self, names: Mapping[str, str]) -> dict[str, str]:
        found = cells.factors_of(self.result.manifest)
        return {cell: cells.cell_label(factors, names, named=True) for cell, factors in found.items()}

    @cached_property
    def _offered_per_s(self) -> dict[str, float | None]:
        return {
            cell: cells.offered_per_s(trial.summary for trial in trials) for cell, trials in self.result.cells().items()
        }

    @cached_property
    def _of_load(self) -> list[str]:
        """The factors that change the offered load."""
        factors = cells.factors_of(self.result.manifest)
        return cells.load_axes(list(self.names), {cell: factors[cell] for cell in self.trials}, self._offered_per_s)

    @cached_property
    def _levels(self) -> list[tuple[str, list[str]]]:
        """The cells by offered load, from the lowest load to the highest."""
        factors = cells.factors_of(self.result.manifest)
        found = cells.levels(self.names, self._of_load, {cell: factors[cell] for cell in self.trials})
        return sorted(found.items(), key=lambda level: self._offered_per_s[level[1][0]] or 0.0)

    def level_to_answer_at(self, metric: str) -> tuple[str, list[str]]:
        """The name and cells of the highest offered load at which two cells have the metric, else one cell; else none.

        The name is empty if all cells were offered the same.
        """
        measured = [(level, [cell for cell in found if self.of(cell, metric)]) for level, found in self._levels]
        best = max((min(len(found), 2) for _, found in measured), default=0)
        return next((level for level in reversed(measured) if best and len(level[1]) >= best), ("", []))

    def cells_at(self, level: str) -> list[str]:
        """The cells of an offered load, also those without a usable trial."""
        return next((found for name, found in self._levels if name == level), [])

    def of(self, cell: str, metric: str) -> list[float]:
        """The values of a metric in the usable trials of a cell."""
        return [row[metric] for row in self.values[cell].values() if metric in row]


@dataclass(frozen=True, slots=True)
class Best:
    """What is said of one metric. `trials`: an estimate of how many trials of each cell would decide what is open.

    `cells`: from the best one on; `open_cells`: those of them that are not decided; `changes`: against the first.
    """

    statement: Statement
    cells: Sequence[str]
    trials: int | None = None
    in_vain: str = ""
    """Why more trials would not decide it."""
    metric: str = ""
    level: str = ""
    open_cells: Sequence[str] = ()
    changes: Mapping[str, Comparison] = field(default_factory=dict)


def best_cell(figures: Figures, metric: str) -> Best:
    level, compared = figures.level_to_answer_at(metric)
    return replace(_best_at(figures, METRICS[metric], level, compared), metric=metric, level=level)


def _best_at(figures: Figures, definition: MetricDefinition, level: str, compared: Sequence[str]) -> Best:
    at = (
        f"At {level}, the highest load that {'two cells carried' if len(compared) > 1 else 'was carried'}: "
        if level
        else ""
    )
    if not compared:
        return Best(
            Statement(f"{_title(definition)} was not measured in any trial that can be used.", "best", "open"), ()
        )
    if len(compared) == 1:
        return _alone(figures, definition, compared[0], at)
    if definition.name in _THROUGHPUT and all(cells.kept_up(figures.trials[cell]) for cell in compared):
        offered_per_s = cells.offered_per_s(figures.trials[compared[0]]) or 0.0
        text = (
            f"{at}{_title(definition)} is not ranked by this run: every cell reached the offered "
            f"{count_text(offered_per_s)}/s; highwater bench search finds limits."
        )
        short = f"Every cell reached the offered {count_text(offered_per_s)}/s, so this run ranks none"
        return Best(Statement(text, "best", "plain", short), compared)
    return _ranked(figures, definition, compared, at)


def _alone(figures: Figures, definition: MetricDefinition, cell: str, at: str) -> Best:
    values = figures.of(cell, definition.name)
    found = estimate(definition, values, figures.result.manifest.seed)
    several = len(set(figures.labels_at_a_load.values())) > 1
    with_cell = f" with “{figures.labels_at_a_load[cell]}”, the only cell with a usable trial" if several else ""
    short = f"{_title(definition)} is {value_text(found.value, found.unit)}"
    text = f"{at}{short}{with_cell}"
    if found.ci95:
        low, high = (value_text(end, found.unit) for end in found.ci95)
        text += f", 95 % interval {_span(low, high)} ({plural(len(values), 'trial')})."
        is_noisy = found.ci95[1] - found.ci95[0] > found.value / 2
        worth = " is too noisy:" if is_noisy else " is"
        short = f"{_title(definition)}{worth} {value_text(found.value, found.unit)} (95 % interval {_span(low, high)})"
        return Best(Statement(text, "best", "open" if is_noisy else "plain", short), [cell])
    text += f" ({plural(len(values), 'trial')}; an interval needs {LEAST_FOR_INTERVAL})."
    short += f", but {plural(len(values), 'trial')} are too few to be sure"
    return Best(Statement(text, "best", "plain", short), [cell], LEAST_FOR_INTERVAL)


def decided_best(figures: Figures, metric: str, compared: Sequence[str]) -> str | None:
    """The cell that is better than each other one of `compared`, which all have the metric; None if none is."""
    ranking, _, open_cells = _compared(figures, METRICS[metric], compared)
    return None if open_cells or len(ranking) < _TWICE else ranking[0]


def _compared(
    figures: Figures, definition: MetricDefinition, compared: Sequence[str]
) -> tuple[list[str], dict[str, Comparison], list[str]]:
    """The cells from the best median on, the comparisons with the best one, and the cells not distinct from it."""
    medians = {cell: median(figures.of(cell, definition.name)) for cell in compared}
    ranking = sorted(compared, key=medians.__getitem__, reverse=definition.better == "higher")
    best, *others = ranking
    found = comparisons_with(
        best,
        {cell: figures.values[cell] for cell in ranking},
        definition,
        figures.noise.get(definition.name, ()),
        figures.result.manifest.seed,
    )
    by_cell = {comparison.head: comparison for comparison in found}
    return ranking, by_cell, [cell for cell in others if cell not in by_cell or by_cell[cell].verdict != "worse"]


def _ranked(figures: Figures, definition: MetricDefinition, compared: Sequence[str], at: str) -> Best:
    medians = {cell: median(figures.of(cell, definition.name)) for cell in compared}
    ranking, by_cell, open_cells = _compared(figures, definition, compared)
    best, *others = ranking

    def named(cell: str) -> str:
        return f"“{figures.labels_at_a_load[cell]}” ({value_text(medians[cell], definition.unit)})"

    if not open_cells:
        text, short = _decided(figures, definition, medians, ranking, by_cell[others[0]])
        return Best(Statement(at + text, "best", "good", short), ranking, changes=by_cell)
    group = [best, *open_cells]
    text = f"{at}{_title(definition)}: not decided between {_listed([named(cell) for cell in group])}, because "
    difference = "the difference of the first two" if len(open_cells) > 1 else "the difference"
    text += _for_all(_reason(by_cell.get(open_cells[0]), len(others), difference), difference, len(group)) + "."
    quoted = " and ".join(f"“{figures.labels_at_a_load[cell]}”" for cell in group)
    between = quoted if len(group) == _TWICE else f"the first {len(group)} of {len(ranking)} cells"
    short = f"{_title(definition)}: not decided between {between}"
    if len(group) == _TWICE:
        short += f", because {_reason(by_cell.get(open_cells[0]), len(others), difference, is_short=True)}"
    if behind := len(others) - len(open_cells):
        text += f" {'Both' if len(group) == _TWICE else 'All of these'} are better than "
        text += "the other cell." if behind == 1 else f"the other {behind} cells."
    needed = [trials_to_decide(by_cell.get(cell), len(others)) for cell in open_cells]
    in_vain = ""
    if None in needed:
        in_vain = f"{definition.name} is the same in all trials of these cells"
    elif (most := max(filter(None, needed))) > MOST_TRIALS:
        about = count_text(float(f"{most:.1g}"))
        in_vain = f"{definition.name} would take about {about} trials of each cell (an estimate)"
    trials = None if in_vain else max(filter(None, needed))
    return Best(Statement(text, "best", "open", short), ranking, trials, in_vain, open_cells=group, changes=by_cell)


def _decided(
    figures: Figures,
    definition: MetricDefinition,
    medians: Mapping[str, float],
    ranking: Sequence[str],
    comparison: Comparison,
) -> tuple[str, str]:
    """The whole sentence, and the short one."""
    best, next_best = (f"“{figures.labels_at_a_load[cell]}”" for cell in ranking[:2])
    value, next_value = (value_text(medians[cell], definition.unit) for cell in ranking[:2])
    extreme = "highest" if definition.better == "higher" else "lowest"
    rank = "the next best, " if len(ranking) > _TWICE else ""
    by = better_by(comparison)
    return (
        f"{_title(definition)} is {extreme} with {best}: {value}, and {next_value} with {rank}{next_best}; "
        f"in trials of the same block {by}."
    ), (
        f"{_title(definition)} is {extreme} with {best}: {by} "
        f"{'as' if ' as high ' in by else 'than'} with {rank}{next_best}"
    )


def better_by(comparison: Comparison) -> str:
    """How much better the base is than the head: `13 % lower (95 % interval 5 to 20 %)`."""
    assert comparison.ci95 is not None
    ratio, low, high = (1 / value for value in (comparison.ratio, comparison.ci95[1], comparison.ci95[0]))
    size, *ends = (change_text(value).lstrip("+−") for value in (ratio, low, high))
    if comparison.better == "lower":
        return f"{size} lower (95 % interval {_span(*reversed(ends))})"
    if ratio > _TWICE:
        return f"{size} as high (95 % interval {_span(ratio_text(low), ratio_text(high))})"
    return f"{size} higher (95 % interval {_span(*ends)})"


def _span(low: str, high: str) -> str:
    """`20 ms` and `25 ms` -> `20 to 25 ms`."""
    unit = high.lstrip("0123456789.,")
    alike = low.lstrip("0123456789.,") == unit
    return f"{low.removesuffix(unit) if alike else low} to {high}"


def _reason(comparison: Comparison | None, comparisons: int, difference: str, *, is_short: bool = False) -> str:
    """Why a cell is not distinct from the best one, which is the base. difference: how to name theirs."""
    if comparison is None:
        return "no ratio can be taken: no block has usable trials of both, or a value is 0"
    if comparison.ci95 is None:
        if is_short:
            pairs = "1 pair of trials is" if comparison.n_pairs == 1 else f"{comparison.n_pairs} pairs of trials are"
            return f"{pairs} too few"
        blocks = "is 1" if comparison.n_pairs == 1 else f"are {comparison.n_pairs}"
        return f"an interval needs {LEAST_FOR_INTERVAL} blocks with a usable trial of each cell, and there {blocks}"
    low, high = 1 / comparison.ci95[1], 1 / comparison.ci95[0]
    if low == high == 1:
        return "trials of the same block have the same value"
    interval = f"{'' if is_short else '95 % interval '}{change_span_text(low, high)}"
    if low <= 1 <= high:
        return f"{difference}, {change_text(1 / comparison.ratio)} ({interval}), may be none"
    if comparison.verdict == "no_change":
        if is_short:
            return f"{difference}, {change_text(1 / comparison.ratio)} ({interval}), is within the noise"
        return (
            f"{difference}, {change_text(1 / comparison.ratio)} ({interval}), is within the noise: as many trials "
            f"of the same thing differ by ±{percent_text(comparison.delta_ratio)}"
        )
    if comparison.verdict == "better":
        return f"medians and trials of the same block ({interval}) disagree"
    return f"{comparison.n_pairs} trials of each cell are too few for {plural(comparisons, 'comparison')}"


def _for_all(reason: str, difference: str, cells: int) -> str:
    """A reason that is about the first two of several cells, with why the others are among them."""
    if cells == _TWICE or difference not in reason:
        return reason
    one = cells == _TWICE + 1
    others = "that of the first and the third" if one else "those of the first and the others"
    return f"{reason}, and {others} {'is' if one else 'are'} not shown either"


def trials_to_decide(comparison: Comparison | MetricComparison | None, comparisons: int) -> int | None:
    """An estimate of the trials that show the estimated difference 4 times in 5; None if none does.

    Both the half-width of the interval and the bound of the noise shrink with the root of the number of trials.
    """
    fewest = max(LEAST_FOR_INTERVAL, math.ceil(math.log2(_TWICE * comparisons / SIGNIFICANCE)))
    if comparison is None or comparison.ci95 is None or comparison.ratio is None:
        return fewest
    difference = abs(math.log(comparison.ratio))
    if not difference:
        return None
    normal = NormalDist()
    half_width = math.log(comparison.ci95[1] / comparison.ci95[0]) / 2
    reach = math.log1p(comparison.delta_ratio) + half_width * (
        1 + normal.inv_cdf(POWER) / normal.inv_cdf(0.5 + CONFIDENCE / 2)
    )
    return max(fewest, comparison.n_pairs + 1, math.ceil(comparison.n_pairs * (reach / difference) ** 2))


def _listed(texts: Sequence[str]) -> str:
    if len(texts) > _MOST_NAMED:
        return f"{', '.join(texts[:_MOST_NAMED])} and {len(texts) - _MOST_NAMED} more"
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _title(definition: MetricDefinition) -> str:
    return definition.title or definition.name
