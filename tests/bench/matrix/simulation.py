"""Made-up hosts whose settings have known effects: what the first look of a matrix finds, beside pairs of off and on.

`python -m tests.bench.matrix.simulation` prints the table of docs/tuning-proofs.md; it takes about a minute.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final

from highwater.bench.matrix.answers import Effect, Key, Look, answers
from highwater.bench.matrix.design import Row, screening_rows
from highwater.bench.matrix.effects import MeasuredTrial, estimates
from highwater.bench.matrix.screening import effect_of
from highwater.results.analysis.statistics import paired_ratio_ci
from highwater.results.metrics import METRICS

P99: Final = METRICS["produce.p99"]
SETTINGS: Final = [f"setting-{number}" for number in range(20)]
EFFECTS: Final = {"setting-0": math.log(0.8), "setting-1": math.log(0.9), "setting-2": math.log(1.1)}
SETTINGS_BESIDE_ONE_OFF: Final = 5
PAIRS: Final = 5


@dataclass
class Host:
    """Logarithms add up; `together`: what two settings do only when both are on, or both off."""

    seed: int
    effects: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.12
    wild: float = 0.0
    """The share of trials with something else in them, which makes them larger by up to several times."""
    drift: float = 0.0
    """How much larger a figure is at the end than at the beginning, with a wave on its way."""
    together: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def value(self, on: Iterable[str], at: float) -> float:
        """at: from 0 to 1."""
        known = set(on)
        log = sum(self.effects.get(name, 0.0) for name in known)
        log += sum(size / 2 * (1 if (a in known) == (b in known) else -1) for (a, b), size in self.together.items())
        log += self.drift * (at + 0.3 * math.sin(9 * at)) + self._chance.gauss(0, self.spread)
        if self._chance.random() < self.wild:
            log += abs(self._chance.gauss(0, 0.9))
        return math.exp(log)


def screened(host: Host, rows: Sequence[Row], settings: Sequence[str] = SETTINGS) -> dict[str, Effect]:
    """What the first look says of a host."""
    order = list(range(len(rows)))
    random.Random(host.seed).shuffle(order)
    trials = [
        MeasuredTrial(frozenset(rows[row]), at, host.value(rows[row], at / len(rows))) for at, row in enumerate(order)
    ]
    return {name: effect_of(P99, estimate) for name, estimate in estimates(trials, settings).items()}


def paired(host: Host, pairs: int = PAIRS) -> dict[str, tuple[float, float, float]]:
    """Setting to ratio, low, high of the earlier first look: a few settings in turn, beside the same trials without."""
    groups = [SETTINGS[number::4] for number in range(len(SETTINGS) // SETTINGS_BESIDE_ONE_OFF)]
    chance = random.Random(host.seed)
    found = {}
    for number, group in enumerate(groups):
        values: dict[str, list[float]] = {name: [] for name in ["", *group]}
        for block in range(pairs):
            cells = ["", *group]
            chance.shuffle(cells)
            for place, cell in enumerate(cells):
                at = (number + (block + place / len(cells)) / pairs) / len(groups)
                values[cell].append(host.value([cell] if cell else [], at))
        for name in group:
            estimate = paired_ratio_ci(values[""], values[name])
            assert estimate is not None
            assert estimate.interval is not None
            found[name] = (estimate.ratio, *estimate.interval)
    return found


@dataclass
class Score:
    """Of many made-up hosts."""

    inside: list[bool] = field(default_factory=list)
    named: dict[str, list[bool]] = field(default_factory=dict)
    widths: list[float] = field(default_factory=list)

    def add(self, host: Host, name: str, ratio: float, low: float, high: float) -> None:
        true = host.effects.get(name, 0.0)
        self.inside.append(math.log(low) <= true <= math.log(high))
        self.widths.append(math.log(high / low) / 2)
        differs = (low > 1 or high < 1) and abs(math.log(ratio)) > math.log1p(0.05)
        self.named.setdefault(f"{math.expm1(true):+.0%}", []).append(differs)

    @property
    def texts(self) -> list[str]:
        found = [f"{fmean(self.inside):.3f}", f"±{math.expm1(median(self.widths)):.1%}"]
        return found + [f"{fmean(self.named[size]):.2f}" for size in ("+0%", "-10%", "+10%", "-20%")]


HOSTS: Final[dict[str, Callable[[int], Host]]] = {
    "quiet": lambda seed: Host(seed, EFFECTS),
    "drifting by half": lambda seed: Host(seed, EFFECTS, drift=0.4),
    "one trial in ten wild": lambda seed: Host(seed, EFFECTS, wild=0.1),
    "two settings that act together": lambda seed: Host(seed, EFFECTS, together={("setting-5", "setting-9"): 0.2}),
}


def scored(make: Callable[[int], Host], runs: int, repeats: int = 1) -> Score:
    score = Score()
    for seed in range(runs):
        host = make(seed)
        rows = screening_rows(SETTINGS, lambda _one, _other: False, seed) * repeats
        for name, effect in screened(host, rows).items():
            score.add(host, name, effect.ratio, *effect.interval)
    return score


def scored_pairs(make: Callable[[int], Host], runs: int) -> Score:
    score = Score()
    for seed in range(runs):
        host = make(seed)
        for name, (ratio, low, high) in paired(host).items():
            score.add(host, name, ratio, low, high)
    return score


def matrices_with_a_false_name(runs: int) -> int:
    """Of matrices of 20 settings without effect under four loads, how many call some cell better or worse."""
    loads = {load: [P99.name] for load in ("a", "b", "c", "d")}
    found = 0
    for run in range(runs):
        first: dict[Key, Look] = {}
        for number, load in enumerate(loads):
            host = Host(4 * run + number, wild=0.1, drift=0.2)
            rows = screening_rows(SETTINGS, lambda _one, _other: False, host.seed)
            first |= {Key(name, load, "disk"): Look((one,), "") for name, one in screened(host, rows).items()}
        states = {answer.state for answer in answers(first, first, {}, {}, loads).values()}
        found += not states <= {"none", "undecided"}
    return found


def table(runs: int) -> Iterator[str]:
    yield "| host | first look | trials | intervals that hold | half width | named: 0 | −10 % | +10 % | −20 % |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for name, make in HOSTS.items():
        looks = [("all at once", 48, scored(make, runs)), ("all at once, three times", 144, scored(make, runs, 3))]
        if not make(0).together:  # what two settings do together is what either does alone, so pairs show it
            looks.append(("pairs, as before", 140, scored_pairs(make, runs)))
        for look, trials, score in looks:
            yield f"| {name} | {look} | {trials} | {' | '.join(score.texts)} |"
    yield f"matrices without any effect that name a cell: {matrices_with_a_false_name(runs)} of {runs}"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if sys.argv[1:] else 400):
        sys.stdout.write(f"{line}\n")
