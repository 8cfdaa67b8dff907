"""How much one broker differs from itself in trials at once and in turn.

`python -m tools.gate_proof.at_once` measures it.

Both arrangements of the gate's own workload, round by round, each round begun by the other one; base and head are the
same broker, so that every pair of a block is an A/A pair.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from highwater.bench.commands.common import one_line_errors
from highwater.bench.gate.policy import load_policy
from highwater.bench.gate.run import gate_specification
from highwater.bench.gate.sides import AS_IT_IS, Measured
from highwater.bench.runs.execution import run_plan
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind
from highwater.bench.trials.plan import make_plan
from highwater.bench.workload.yaml_document import Document
from highwater.common.errors import UsageError
from highwater.results.environment_key import environment_key
from highwater.results.reader import RunResult
from tools.gate_proof.outcomes import POLICY, WORKLOAD, cost_ratios, trial_line

_ARRANGEMENTS: Final = {"at once": True, "in turn": False}
_SIDE: Final = Measured(AS_IT_IS, {}, Document(AS_IT_IS, {}))


@dataclass(slots=True)
class Found:
    """Of one arrangement: head ÷ base of every block, and what the runs took."""

    ratios: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    environment: str = ""


def main(
    rounds: Annotated[int, typer.Option(min=2, help="Runs of each arrangement.")] = 5,
    blocks: Annotated[int, typer.Option(min=5, help="Pairs of each run.")] = 6,
    to: Annotated[Path, typer.Option("--report", metavar="FILE")] = Path("docs/results/at-once.md"),
) -> None:
    """Run them, and write how the pairs scatter."""
    with one_line_errors():
        found = {name: Found() for name in _ARRANGEMENTS}
        for number in range(rounds):
            names = list(_ARRANGEMENTS)
            for name in names if number % 2 == 0 else reversed(names):
                _one_run(found[name], at_once=_ARRANGEMENTS[name], blocks=blocks)
                typer.echo(f"round {number + 1} of {rounds}, {name}: {_told(found[name].ratios)}")
        command = f"python -m tools.gate_proof.at_once --rounds {rounds} --blocks {blocks}"
        to.write_text(report(found, command), "utf-8")
        typer.echo(str(to))


def _one_run(found: Found, *, at_once: bool, blocks: int) -> None:
    policy = load_policy(POLICY)
    metric = next(iter(policy.gate))
    pairs = policy.pairs.model_copy(update={"min": blocks, "max": blocks, "stop_when": "never"})
    with TemporaryDirectory(prefix="highwater-at-once-") as scratch:
        workload = Path(scratch) / "gate.yaml"
        workload.write_text(f"include: {WORKLOAD}\ntrials: {{at_once: {str(at_once).lower()}}}\n", "utf-8")
        plan = make_plan(gate_specification(workload, _SIDE, _SIDE, policy.model_copy(update={"pairs": pairs})))
        started_s = time.monotonic()
        run_plan(plan, Path(scratch) / "run", launcher=LauncherChoice(LauncherKind.PROCESS))
        found.wall_s.append(time.monotonic() - started_s)
        result = RunResult(Path(scratch) / "run")
        found.environment = environment_key(result.environment, []).name
        ratios = cost_ratios([trial_line(trial.summary, 0, policy) for trial in result.trials], metric)
    if not ratios:
        raise UsageError("no pair of the run is valid: look at one with highwater bench run workloads/gate.yaml")
    found.ratios += ratios


def scatter(ratios: Sequence[float]) -> float:
    """Standard deviation of the pairs' logarithms: the ratio by which one of them differs from 1."""
    return math.exp(statistics.stdev(map(math.log, ratios))) - 1


def _told(ratios: Sequence[float]) -> str:
    return f"{len(ratios)} pairs, ±{scatter(ratios):.2%}"


_HEAD = """# How much a broker differs from itself, at once and in turn

Base and head are the same broker, and the workload is the gate's (`workloads/gate.yaml`): once as it is, with base,
head and an A/A twin at the same time on one processor (`trials.at_once`), and once with its trials in turn, each with
the host to itself. Runs alternate, and every round is begun by the other one. What is compared is
`system.cpu_s_per_gib`, head to base of the same block.

| trials | pairs | standard deviation | median of the distance from 1 | largest | wall time of a run |
|---|--:|--:|--:|--:|--:|
"""


def report(found: dict[str, Found], command: str) -> str:
    """The page."""
    rows = []
    for name, of in found.items():
        away = [max(ratio, 1 / ratio) - 1 for ratio in of.ratios]
        rows.append(
            f"| {name} | {len(away)} | {scatter(of.ratios):.2%} | {statistics.median(away):.2%} | {max(away):.1%} "
            f"| {statistics.median(of.wall_s):.0f} s |"
        )
    environments = ", ".join(sorted({of.environment for of in found.values()}))
    return (
        _HEAD
        + "\n".join(rows)
        + f"\n\nMeasured {datetime.now(UTC).date()} in environment {environments}. Again:\n\n```\n{command}\n```\n"
    )


if __name__ == "__main__":
    typer.run(main)
