"""Runs many gates over a slowed broker; run it again to continue.

`python -m tools.gate_proof` is the command.
"""

from __future__ import annotations

import fcntl
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from highwater.bench.commands.common import one_line_errors
from highwater.bench.environment import git_state
from highwater.bench.gate.policy import Policy, load_policy
from highwater.bench.gate.run import Rules, gate_specification, run_gate
from highwater.bench.gate.sides import Measured
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.runs.execution import run_plan
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload.specification import load_specification
from highwater.bench.workload.system import HighwaterUnderTest
from highwater.bench.workload.yaml_document import Document
from highwater.common.errors import NotComparableError, TrialError, UsageError
from highwater.results.environment_key import environment_key
from highwater.results.models import GitState, Manifest
from highwater.results.reader import RunResult
from tools.gate_proof import slow_broker
from tools.gate_proof.outcomes import (
    ABORTED,
    POLICY,
    WORKLOAD,
    Begun,
    Outcome,
    append,
    read,
    report,
    rules_digest,
    trial_line,
)

_LAUNCHER: Final = LauncherChoice(LauncherKind.PROCESS)
# A gate that is aborted is told of like any other; so many in a row, and something is amiss that will not pass.
_MOST_ABORTED: Final = 3


@dataclass(frozen=True, slots=True)
class Proof:
    """What is the same of all its gates."""

    policy: Policy
    rules: str
    git: GitState | None


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
        proof = Proof(load_policy(POLICY), rules_digest(), git_state(Path(__file__).parent))
        deadline_s = None if minutes is None else time.monotonic() + 60 * minutes
        with _alone(path):
            go_on(proof, _order(wanted, gates), path, deadline_s, _one)
            found = read(path, proof.rules)
        if found:
            command = f"python -m tools.gate_proof --slowdowns {slowdowns} --gates {gates}"
            to.write_text(report(found, proof.policy, command), "utf-8")
            typer.echo(f"{len(found)} gates: {to}")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two at once would be each other's noise."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{path} is being added to by another proof: wait for it, or end it") from None
        yield


def go_on(
    proof: Proof,
    order: list[tuple[float, int]],
    path: Path,
    deadline_s: float | None,
    make: Callable[[Proof, float, int], Outcome],
) -> None:
    """Make the gates that are not there yet. Raises NotComparableError when other rules come in."""
    done = read(path, proof.rules)
    known = {(outcome.slower_percent, outcome.number) for outcome in done}
    aborted = 0
    for slower, number in order:
        if (slower, number) in known:
            continue
        if deadline_s is not None and time.monotonic() > deadline_s:
            return
        outcome = make(proof, slower, number)
        if rules_digest() != proof.rules:
            raise NotComparableError("the rules of the gate were changed while it ran: give a proof its own checkout")
        append(path, outcome)
        typer.echo(f"{slower:g} % gate {number}: {outcome.state} in {outcome.wall_s:.0f} s; {outcome.text}")
        aborted = aborted + 1 if outcome.state == ABORTED else 0
        if aborted == _MOST_ABORTED:
            raise UsageError(f"{aborted} gates in a row were aborted, the last by: {outcome.text}")


def _order(slowdowns: list[float], gates: int) -> list[tuple[float, int]]:
    """Every slowdown once per round, in an order of its own, so that drift of the host falls on all alike."""
    shuffle = random.Random(1)
    order = []
    for number in range(1, gates + 1):
        found = list(slowdowns)
        shuffle.shuffle(found)
        order += [(slower, number) for slower in found]
    return order


def _one(proof: Proof, slower: float, number: int) -> Outcome:
    """Raises KeyboardInterrupt when somebody asked for an end."""
    now_utc = datetime.now(UTC).isoformat(timespec="seconds")
    begun = Begun(slower, number, proof.rules, proof.git, now_utc, time.monotonic())
    base, head = _side(0), _side(slower)
    with TemporaryDirectory(prefix="highwater-gate-proof-") as scratch:
        out = Path(scratch) / "gate"
        try:
            plan = make_plan(gate_specification(WORKLOAD, base, head, proof.policy))
            gate = run_gate(base, head, plan, Rules(proof.policy), out, _execute)
            if gate.state == "interrupted":
                raise KeyboardInterrupt
            results = [RunResult(out / (done.directory or ".")) for done in gate.rounds]
        except (UsageError, TrialError, OSError) as error:
            return begun.aborted(error)
        lines = [
            trial_line(trial.summary, stage, proof.policy)
            for stage, result in enumerate(results)
            for trial in result.trials
        ]
        # Without storage targets, which a gate has only by the trials that it brought to an end.
        return begun.ended(gate, lines, environment_key(results[0].environment, []).name)


def _side(slower: float) -> Measured:
    """The delayed broker, with the workload's configuration on its command line."""
    program = shlex.join([sys.executable, "-m", slow_broker.__name__, slow_broker.SLOWER_OPTION, f"{slower:g}"])
    command = f"{program} --port {{port}} --property log.dirs={{data_directory}}"
    system = load_specification(WORKLOAD).workload.system
    assert isinstance(system, HighwaterUnderTest), f"{WORKLOAD} measures Highwater's broker"
    for name, value in system.config.items():
        command += f" --property {name}={value}"
    given = f"{slower:g} % slower"
    return Measured(given, {"system": {"kind": "command", "command": command, "config": None}}, Document(given, {}))


def _execute(plan: Plan, out: Path, finished_cells: FinishedCells | None) -> Manifest:
    return run_plan(plan, out, launcher=_LAUNCHER, finished_cells=finished_cells)


if __name__ == "__main__":
    typer.run(main)
