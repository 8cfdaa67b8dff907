"""`python -m bench.gate_proof`: many gates over a broker made slower, one after another; go on by calling it again."""

from __future__ import annotations

import dataclasses
import random
import shlex
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from bench import environment_key
from bench.commands.common import one_line_errors
from bench.environment import git_state
from bench.errors import NotComparableError
from bench.gate.policy import Policy, load_policy, noise_from
from bench.gate.run import Rules, gate_specification, run_gate
from bench.gate.sides import Measured
from bench.gate_proof import slow_broker
from bench.gate_proof.outcomes import Outcome, append, outcome_of, read, report, rules_digest
from bench.results import AaPair, Manifest, RunResult
from bench.runs.agenda import FinishedCells
from bench.runs.execution import LauncherChoice, run_plan
from bench.runs.launchers import LauncherKind
from bench.trials.plan import Plan, make_plan
from bench.user_cache import cache_directory
from bench.workload.yaml_document import Document

_HERE: Final = Path(__file__).parent
_WORKLOAD: Final = _HERE / "workload.yaml"
_NOISE_TRIALS: Final = 24
_LAUNCHER: Final = LauncherChoice(LauncherKind.PROCESS)


def main(
    slowdowns: Annotated[str, typer.Option(metavar="PERCENT,…", help="How much slower head is made.")] = "0,3,5,10,20",
    gates: Annotated[int, typer.Option(min=1, help="Gates of each slowdown.")] = 30,
    path: Annotated[
        Path, typer.Option("--outcomes", metavar="FILE", help="Where outcomes are kept, a line for each gate.")
    ] = Path("docs/results/gate-proof.jsonl"),
    to: Annotated[Path, typer.Option("--report", metavar="FILE", help="Where the rates are written.")] = Path(
        "docs/results/gate-proof.md"
    ),
    minutes: Annotated[float | None, typer.Option(help="Begin no gate after so many minutes.")] = None,
) -> None:
    """Run gates until there are so many of each slowdown, in mixed order, and write how often they were right."""
    with one_line_errors():
        wanted = [float(text) for text in slowdowns.split(",")]
        rules = rules_digest()
        kept = cache_directory() / "gate-proof" / rules
        kept.mkdir(parents=True, exist_ok=True)
        deadline_s = None if minutes is None else time.monotonic() + 60 * minutes
        for slower, number in _order(wanted, gates):
            if any((outcome.slower_percent, outcome.number) == (slower, number) for outcome in read(path, rules)):
                continue
            if deadline_s is not None and time.monotonic() > deadline_s:
                break
            outcome = _one(kept, slower, number, rules)
            earlier = read(path, rules)
            if earlier and earlier[-1].environment != outcome.environment:
                raise NotComparableError(
                    f"{path} was made in environment {earlier[-1].environment}, and this is {outcome.environment}: "
                    "the two cannot be one proof; name other --outcomes"
                )
            if outcome.state == "interrupted":
                raise KeyboardInterrupt
            append(path, outcome)
            typer.echo(f"{slower:g} % gate {number}: {outcome.state} in {outcome.wall_s:.0f} s; {outcome.text}")
        found = [outcome for outcome in read(path, rules) if outcome.slower_percent in wanted]
        if found:
            to.write_text(report(found, f"python -m bench.gate_proof --slowdowns {slowdowns} --gates {gates}"), "utf-8")
            typer.echo(f"{len(found)} gates: {to}")


def _order(slowdowns: list[float], gates: int) -> list[tuple[float, int]]:
    """Every slowdown once per round, in an order of its own, so that drift of the host falls on all alike."""
    shuffle = random.Random(1)
    order = []
    for number in range(1, gates + 1):
        found = list(slowdowns)
        shuffle.shuffle(found)
        order += [(slower, number) for slower in found]
    return order


def _one(kept: Path, slower: float, number: int, rules: str) -> Outcome:
    started_utc, started_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    policy = load_policy(_HERE / "policy.yaml")
    held_to = Rules(policy, noise=_noise(kept, policy))
    base, head = _side(0), _side(slower)
    plan = make_plan(gate_specification(_WORKLOAD, base, head, policy))
    scratch = kept / "gate"
    shutil.rmtree(scratch, ignore_errors=True)
    gate = run_gate(base, head, plan, held_to, scratch, _execute)
    state = git_state(_HERE)
    outcome = outcome_of(
        gate,
        slower_percent=slower,
        number=number,
        started_utc=started_utc,
        wall_s=time.monotonic() - started_s,
        environment=environment_key.key_of(RunResult(scratch)).name,
        rules=rules,
        commit=state.commit if state else None,
    )
    shutil.rmtree(scratch)
    return outcome


def _noise(kept: Path, policy: Policy) -> dict[str, list[AaPair]]:
    """What pairs of the same broker differ by; measured once, before the first gate."""
    directory = kept / policy.noise.source
    if not (directory / "analysis.json").is_file():
        shutil.rmtree(directory, ignore_errors=True)
        typer.echo("measuring what pairs of the same broker differ by")
        many = policy.model_copy(update={"pairs": policy.pairs.model_copy(update={"max": _NOISE_TRIALS})})
        specification = gate_specification(_WORKLOAD, _side(0), _side(0), many)
        # Successive trials of one cell are A/A pairs as they are.
        alone = dataclasses.replace(specification, cells=specification.cells[:1])
        manifest = run_plan(make_plan(alone), directory, launcher=_LAUNCHER)
        if manifest.status == "interrupted":
            shutil.rmtree(directory)
            raise KeyboardInterrupt
    return noise_from(policy, kept)


def _side(slower: float) -> Measured:
    program = shlex.join([sys.executable, "-m", slow_broker.__name__, slow_broker.SLOWER_OPTION, f"{slower:g}"])
    command = f"{program} --port {{port}} --property log.dirs={{data_directory}}"
    given = f"{slower:g} % slower"
    return Measured(given, {"system": {"kind": "command", "command": command}}, Document(given, {}))


def _execute(plan: Plan, out: Path, finished_cells: FinishedCells) -> Manifest:
    return run_plan(plan, out, launcher=_LAUNCHER, finished_cells=finished_cells)


if __name__ == "__main__":
    typer.run(main)
