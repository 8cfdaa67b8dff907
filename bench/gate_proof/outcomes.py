"""The outcomes of many gates: appended one by one, so that a proof can be stopped and gone on with; rates from them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from pydantic import Field

from bench.compare import change_for_the_worse
from bench.results import Gate
from bench.results.base import Model

_Z_95 = 1.959964
_HERE = Path(__file__).parent
_BENCH = _HERE.parent
_RULES = (
    *sorted((_BENCH / "analysis").glob("*.py")),
    _BENCH / "compare.py",
    *(_BENCH / "gate" / f"{name}.py" for name in ("policy", "reasoning", "run")),
    _BENCH / "trials" / "verdict.py",
    _HERE / "slow_broker.py",
    _HERE / "policy.yaml",
    _HERE / "workload.yaml",
    _BENCH.parent / "workloads" / "gate.yaml",
)


class Outcome(Model):
    """One gate over a broker that was made slower by `slower_percent`."""

    slower_percent: float
    number: int = Field(description="of the gates with this slowdown, from 1")
    started_utc: str
    wall_s: float
    environment: str = Field(description="environment key")
    rules: str = Field(default="", description="`rules_digest` of the gate; empty of one before this was kept")
    commit: str | None
    state: str
    exit_code: int
    first_worse: bool = Field(description="the first round, before any confirmation, called it worse")
    pairs: int = Field(description="valid ones, of all rounds")
    measured_ratio: float | None = Field(description="by how much head was worse in the first round: 0.05 is 5 %")
    delta_ratio: float | None
    text: str


def outcome_of(
    gate: Gate,
    *,
    slower_percent: float,
    number: int,
    started_utc: str,
    wall_s: float,
    environment: str,
    rules: str,
    commit: str | None,
) -> Outcome:
    """A gate that has ended, in a line."""
    gated = [item for item in gate.rounds[0].metrics if item.gated] if gate.rounds else []
    first = gated[0] if gated else None
    return Outcome(
        slower_percent=slower_percent,
        number=number,
        started_utc=started_utc,
        wall_s=round(wall_s, 1),
        environment=environment,
        rules=rules,
        commit=commit,
        state=gate.state,
        exit_code=gate.exit_code,
        first_worse=any(item.verdict == "worse" for item in gated),
        pairs=sum(done.pairs_valid for done in gate.rounds),
        measured_ratio=change_for_the_worse(first) if first else None,
        delta_ratio=first.delta_ratio if first else None,
        text=gate.text,
    )


def rules_digest(files: Iterable[Path] | None = None) -> str:
    """Of all that decides over an outcome but host and broker: outcomes of other rules make no proof of these."""
    digest = hashlib.sha256()
    for file in _RULES if files is None else files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def read(path: Path, rules: str) -> list[Outcome]:
    """What was appended so far under these rules. A last line that was cut short by a kill is left out."""
    if not path.is_file():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [outcome for line in lines[:-1] if (outcome := Outcome.model_validate_json(line)).rules == rules]


def append(path: Path, outcome: Outcome) -> None:
    text = path.read_text("utf-8") if path.is_file() else ""
    with path.open("a", encoding="utf-8") as file:
        if text and not text.endswith("\n"):
            file.truncate(len(text[: text.rfind("\n") + 1].encode()))
        file.write(outcome.model_dump_json() + "\n")


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate (Wilson 1927), which holds for rates of 0 and 1 too."""
    rate, square = hits / n, _Z_95**2
    middle = (rate + square / (2 * n)) / (1 + square / n)
    reach = _Z_95 * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, middle - reach), min(1.0, middle + reach)


_HEAD = """# How often the gate is right

Base is our broker; head is the same broker whose event loop takes so much more CPU time, on the produce and the fetch
path (`bench/gate_proof/slow_broker.py`: it spins, so that it costs what slower code would cost). Each gate is a whole
one: interleaved pairs, early stop, a confirmation with fresh processes before exit code 10. A gate that calls 0 % a
regression is a false alarm.

| slower by | gates | called a regression | 95 % | first round | inconclusive | invalid | measured | pairs | time |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""
_LEGEND = """
`95 %`: interval of the rate, after Wilson. `first round`: how often it alone, without confirmation, would have called a
regression. `invalid`: too few valid pairs, or the broker failed. `measured`: median of what head cost more per GiB.
`pairs`: median of valid pairs, confirmations included. `time`: median wall time of a gate.
"""


def report(outcomes: Sequence[Outcome], command: str) -> str:
    """The proof as Markdown."""
    slowdowns = sorted({outcome.slower_percent for outcome in outcomes})
    rows = [_row(slower, [item for item in outcomes if item.slower_percent == slower]) for slower in slowdowns]
    environments = ", ".join(sorted({outcome.environment for outcome in outcomes}))
    commits = ", ".join(sorted({(outcome.commit or "unknown")[:12] for outcome in outcomes}))
    days = sorted(outcome.started_utc[:10] for outcome in outcomes)
    deltas = _deltas(outcomes)
    counted = (
        f"A change counted from {median(deltas):.1%} up: the policy's floor, or the A/A noise.\n" if deltas else ""
    )
    return (
        _HEAD
        + "\n".join(rows)
        + "\n"
        + _LEGEND
        + f"\n{counted}Measured {days[0]} to {days[-1]} in environment {environments}, broker of commit {commits}.\n"
        + f"\nAgain:\n\n```\n{command}\n```\n"
    )


def _deltas(outcomes: Iterable[Outcome]) -> list[float]:
    return [outcome.delta_ratio for outcome in outcomes if outcome.delta_ratio is not None]


def _row(slower: float, found: Sequence[Outcome]) -> str:
    n = len(found)
    called = sum(outcome.exit_code == 10 for outcome in found)
    low, high = wilson_interval(called, n)
    measured = [outcome.measured_ratio for outcome in found if outcome.measured_ratio is not None]
    cells = [
        f"{slower:g} %",
        str(n),
        f"{called} ({called / n:.0%})",
        f"{low:.0%} to {high:.0%}",
        str(sum(outcome.first_worse for outcome in found)),
        str(sum(outcome.state == "inconclusive" for outcome in found)),
        str(sum(outcome.exit_code in (3, 4) for outcome in found)),
        f"{median(measured):+.1%}" if measured else "–",
        f"{median(outcome.pairs for outcome in found):g}",
        f"{median(outcome.wall_s for outcome in found):.0f} s",
    ]
    return "| " + " | ".join(cells) + " |"
