"""Runs all methods on all surfaces at equal numbers of trials, and writes the table.

    python -m tools.advisor_proof --surfaces 24 --out docs/results/advisor.md

OPENBLAS_NUM_THREADS=1 makes it several times faster: its matrices are small.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Final

from highwater.common.units import percent_text
from highwater.tuning.facts import collect
from tools.advisor_proof.methods import METHODS
from tools.advisor_proof.surfaces import KINDS, Host, Noise, surface

# The scatter from trial to trial of docs/tuning-proofs.md (p99 by 12 %, CPU time by 3 %), and one disturbed trial of
# sixteen (docs/bench-trials.md).
NOISES: Final = (Noise("p99", 0.12, 0.03, 1 / 16, 0.4), Noise("CPU time", 0.03, 0.01, 1 / 16, 0.1))
BUDGETS: Final = (60, 120)
_ADVISOR: Final = "advisor"
_ALIKE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    noise: Noise
    kind: str
    trials: int
    seed: int


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """left: by how much what each method advises costs more than the best there is, as a logarithm."""

    case: Case
    before: float
    left: dict[str, float]


def run(case: Case) -> FoundSettings:
    here = surface(case.kind, case.seed)
    best = here.best_cost()
    left = {}
    for name, method in METHODS.items():
        chance = random.Random(f"{case.kind} {case.seed} {case.noise.name}")
        left[name] = here.cost(method(here, Host(case.noise, chance), case.trials, case.seed)) - best
    return FoundSettings(case, here.cost(here.in_use) - best, left)


def table(results: list[FoundSettings]) -> Iterator[str]:
    others = [name for name in METHODS if name != _ADVISOR]
    yield "| noise | surface | trials | in use | " + " | ".join(METHODS) + " | better than each, of all surfaces |"
    yield "|---|---|--:|--:|" + "--:|" * len(METHODS) + "---|"
    for noise in NOISES:
        for trials in BUDGETS:
            for kind in (*KINDS, "all"):
                found = [
                    one
                    for one in results
                    if one.case.noise == noise and one.case.trials == trials and kind in (one.case.kind, "all")
                ]
                cost = [_more([one.before for one in found]), *(_more([one.left[m] for one in found]) for m in METHODS)]
                wins = ", ".join(_wins(found, name) for name in others)
                yield f"| {noise.name} | {kind} | {trials} | {' | '.join(cost)} | {wins} |"


def _more(left: list[float]) -> str:
    """The mean of how much more than the best is paid."""
    return percent_text(math.exp(mean(left)) - 1)


def _wins(found: list[FoundSettings], other: str) -> str:
    """How often the advisor is better and worse by more than one per cent."""
    by = [one.left[other] - one.left[_ADVISOR] for one in found]
    return f"{sum(one > _ALIKE for one in by)} : {sum(one < -_ALIKE for one in by)}"


_PAGE: Final = """\
# The advisor's search on synthetic surfaces

{surfaces} surfaces of each kind with a known best; {processor}. The noise is that of
[tuning proofs](../tuning-proofs.md): 12 % from trial to trial for p99 and 3 % for CPU time, a slow drift of the host,
and one trial of sixteen disturbed by 50 % (CPU time: 10 %). Every method has the same number of trials. Those of the
advisor include the settings in use, the defaults and the A/A twins. The confirmation is not part of this.

Over all cases the advisor is

{summary}

How much more than the best there is the advised settings cost (mean), and on how many surfaces the advisor is better :
worse than each other method by more than 1 %:

{table}

`additive`: each of six settings acts by itself. `interacting`: the best value of a setting moves with the one before.
`cliff`: as well, and a fifth of the space costs 80 % more. `few of many`: three of ten settings matter. One factor at a
time tries five values of a setting with two trials each, keeps the best, and goes on with the next setting.

Again:

```
OPENBLAS_NUM_THREADS=1 python -m tools.advisor_proof --surfaces {surfaces} \\
    --out docs/results/advisor.md
```
"""


def page(results: list[FoundSettings], surfaces: int) -> str:
    facts = collect()
    summary = []
    for name in METHODS:
        by = [one.left[name] - one.left[_ADVISOR] for one in results]
        if name != _ADVISOR:
            better, worse = sum(one > _ALIKE for one in by), sum(one < -_ALIKE for one in by)
            less, middle = (percent_text(1 - math.exp(-value)) for value in (mean(by), median(by)))
            summary.append(
                f"- against {name}: better on {better} of {len(by)}, worse on {worse}; what it advises costs {less} "
                f"less on average (median {middle})"
            )
    return _PAGE.format(
        surfaces=surfaces,
        processor=f"{facts.cpu_model}, {facts.cpu_count} CPUs",
        summary="\n".join(summary),
        table="\n".join(table(results)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="advisor_proof")
    parser.add_argument("--surfaces", type=int, default=24, help="of each kind")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="the page to write")
    options = parser.parse_args()
    cases = [
        Case(noise, kind, trials, seed)
        for noise in NOISES
        for kind in KINDS
        for trials in BUDGETS
        for seed in range(options.surfaces)
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        results = list(pool.map(run, cases))
    options.out.write_text(page(results, options.surfaces), "utf-8")


if __name__ == "__main__":
    main()
