"""The outcomes of many gates, appended one by one, and the rates that follow from them."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic import Field

from highwater.bench.gate.policy import Policy, metrics_of
from highwater.bench.gate.reasoning import BASE, HEAD, VARIANT
from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_REGRESSION
from highwater.results.base import Model
from highwater.results.gate import Gate, GateRound
from highwater.results.metrics import values_of
from highwater.results.models import GitState, TrialRole, TrialSummary, VerdictState

_Z_95: Final = 1.959964
_HERE: Final = Path(__file__).resolve().parent
_BENCH: Final = _HERE.parents[1] / "bench"
# As CI gates our broker (.ci/gate): what is proved is that gate and no other.
WORKLOAD: Final = _BENCH.parent / "workloads" / "gate.yaml"
POLICY: Final = _BENCH / "policies" / "broker-gate.yaml"
_RULES: Final = (
    *sorted((_BENCH.parent / "highwater" / "results" / "analysis").glob("*.py")),
    *(_BENCH / "gate" / f"{name}.py" for name in ("policy", "reasoning", "run")),
    _BENCH / "trials" / "concurrent_trials.py",
    _BENCH / "trials" / "verdict.py",
    _HERE / "slow_broker.py",
    POLICY,
    WORKLOAD,
)
ABORTED: Final = "aborted"
# States in which a gate said something of head, if only that it cannot tell.
_VERDICTS: Final = frozenset({"pass", "regression", "inconclusive", "target_failed"})
_SIGNIFICANT: Final = 6


class TrialLine(Model):
    """One trial of a gate, so that every gate can be judged again, by other rules too."""

    stage: int = Field(default=0, description="0: the first round; then the confirmations")
    block: int
    order: int = Field(description="in its block")
    side: str = Field(description="base or head")
    role: TrialRole = "measure"
    state: VerdictState = "valid"
    checks: list[str] = Field(default=[], description="of validity, that did not hold")
    values: dict[str, float] = Field(description="of the metrics that the policy names")


class Outcome(Model):
    """One gate over a broker that was made slower by `slower_percent`."""

    slower_percent: float
    number: int = Field(description="of the gates with this slowdown, from 1")
    started_utc: str
    wall_s: float
    environment: str | None = Field(description="environment key; None when the gate ended before it was known")
    rules: str = Field(description="`rules_digest` of the gate")
    commit: str | None
    dirty: bool = Field(default=False, description="the work tree had changes that the commit has not")
    state: str = Field(description="the gate's, or `aborted`")
    exit_code: int | None = Field(description="None when it was aborted")
    text: str = Field(description="the outcome in a sentence, or the error that ended it")
    rounds: list[GateRound] = Field(default=[], description="with the gated metrics alone")
    notes: list[str] = Field(default=[])
    trials: list[TrialLine] = Field(default=[])

    @property
    def has_verdict(self) -> bool:
        return self.state in _VERDICTS

    @property
    def held_back(self) -> bool:
        """Whoever made head would be told that it is at fault: slower, or failing."""
        return self.exit_code in (EXIT_REGRESSION, EXIT_DAMAGE)

    @property
    def first_worse(self) -> bool:
        """The first round, before any confirmation, called it worse."""
        return bool(self.rounds) and any(item.verdict == "worse" for item in self.rounds[0].metrics)

    @property
    def pairs(self) -> int:
        """Valid ones, of all rounds."""
        return sum(done.pairs_valid for done in self.rounds)

    def cost_ratios(self, metric: str, most: int) -> list[float]:
        """Head ÷ base of the first `most` valid pairs: those that every gate has, whenever it stopped."""
        return cost_ratios([line for line in self.trials if line.stage == 0], metric)[:most]


def cost_ratios(lines: Iterable[TrialLine], metric: str) -> list[float]:
    """Head ÷ base of the valid pairs of a run, in the order of its blocks."""
    valid = [line for line in lines if line.role == "measure" and line.state != "invalid"]
    base, head = (
        {line.block: line.values[metric] for line in valid if line.side == side and line.values.get(metric)}
        for side in (BASE, HEAD)
    )
    return [head[block] / base[block] for block in sorted(base.keys() & head.keys())]


@dataclass(frozen=True, slots=True)
class Begun:
    """A gate of a proof before anything is known of its end; fields as of `Outcome`."""

    slower_percent: float
    number: int
    rules: str
    git: GitState | None
    started_utc: str
    started_s: float
    """time.monotonic()"""

    def ended(self, gate: Gate, trials: Sequence[TrialLine], environment: str) -> Outcome:
        rounds = [
            done.model_copy(update={"metrics": [item for item in done.metrics if item.gated]}) for done in gate.rounds
        ]
        return self._outcome(
            environment=environment,
            state=gate.state,
            exit_code=gate.exit_code,
            text=gate.text,
            rounds=rounds,
            notes=gate.notes,
            trials=list(trials),
        )

    def aborted(self, error: Exception) -> Outcome:
        return self._outcome(environment=None, state=ABORTED, exit_code=None, text=str(error))

    def _outcome(self, **found: Any) -> Outcome:
        return Outcome(
            slower_percent=self.slower_percent,
            number=self.number,
            started_utc=self.started_utc,
            wall_s=round(time.monotonic() - self.started_s, 1),
            rules=self.rules,
            commit=self.git.commit if self.git else None,
            dirty=self.git.dirty if self.git else False,
            **found,
        )


def trial_line(summary: TrialSummary, stage: int, policy: Policy) -> TrialLine:
    values = values_of(summary)
    return TrialLine(
        stage=stage,
        block=summary.block,
        order=summary.order_in_block,
        side=str(summary.factors[VARIANT]),
        role=summary.role,
        state=summary.verdict.state,
        checks=[reason.check for reason in summary.verdict.reasons],
        values={name: float(f"{values[name]:.{_SIGNIFICANT}g}") for name in metrics_of(policy) if name in values},
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
        file.write(outcome.model_dump_json(exclude_defaults=True) + "\n")


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate (Wilson 1927), which holds for rates of 0 and 1 too."""
    rate, square = hits / n, _Z_95**2
    middle = (rate + square / (2 * n)) / (1 + square / n)
    reach = _Z_95 * math.sqrt(rate * (1 - rate) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, middle - reach), min(1.0, middle + reach)


_HEAD = """# How often the gate is right

Base is our broker; head is the same broker whose event loop takes so much more CPU time, on the produce and the fetch
path (`tools/gate_proof/slow_broker.py`: it spins, so that it costs what slower code would cost). Each gate
is a whole one, as CI makes it (`workloads/gate.yaml`, `bench/policies/broker-gate.yaml`): base, head and an A/A twin at
once on one processor, early stop, a confirmation with fresh processes before head is held back. Holding back a broker
that is 0 % slower is a false alarm.

| slower | gates | held back | 95 % | first round | inconclusive | no verdict | cost more | counts from | pairs | time |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""
_LEGEND = """
`held back`: called a regression (exit code 10) or failing (3), of the gates that had a verdict; `95 %`: interval of
that rate, after Wilson. `first round`: how often it alone, without confirmation, would have called a regression. `no
verdict`: too few valid pairs, or the gate was aborted. `cost more`: median of {metric}, head to base,
over the first {least} valid pairs of every gate. `counts from`: median of the change that had to be exceeded, the
policy's floor or what A/A pairs differ by; a slowdown that costs less than that is not to be called. `pairs`: median of
valid pairs, confirmations included. `time`: median wall time of a gate.

Every gate is a line of `gate-proof.jsonl` with the figures of every trial, to be judged again.
"""


def report(outcomes: Sequence[Outcome], policy: Policy, command: str) -> str:
    """The proof as Markdown."""
    slowdowns = sorted({outcome.slower_percent for outcome in outcomes})
    rows = [_row(slower, [o for o in outcomes if o.slower_percent == slower], policy) for slower in slowdowns]
    environments = Counter(outcome.environment for outcome in outcomes if outcome.environment)
    commits = ", ".join(sorted({(o.commit or "unknown")[:12] + (" with changes" if o.dirty else "") for o in outcomes}))
    days = sorted(outcome.started_utc[:10] for outcome in outcomes)
    return (
        _HEAD
        + "\n".join(rows)
        + "\n"
        + _LEGEND.format(metric=f"`{next(iter(policy.gate))}`", least=policy.pairs.min)
        + f"\nMeasured {days[0]} to {days[-1]} in {_environments(environments)}, broker of commit {commits}.\n"
        + f"\nAgain:\n\n```\n{command}\n```\n"
    )


def _environments(gates: Mapping[str, int]) -> str:
    """Each gate compares two brokers of one host; the gates of a proof may be of several."""
    if len(gates) == 1:
        return f"environment {next(iter(gates))}"
    return "environments " + ", ".join(f"{name} ({count} gates)" for name, count in gates.items())


def _row(slower: float, found: Sequence[Outcome], policy: Policy) -> str:
    told = [outcome for outcome in found if outcome.has_verdict]
    held = sum(outcome.held_back for outcome in told)
    low, high = wilson_interval(held, len(told)) if told else (0.0, 1.0)
    metric = next(iter(policy.gate))
    ratios = [ratio for outcome in found for ratio in outcome.cost_ratios(metric, policy.pairs.min)]
    deltas = [outcome.rounds[0].metrics[0].delta_ratio for outcome in told if outcome.rounds[0].metrics]
    cells = [
        f"{slower:g} %",
        str(len(found)),
        f"{held} ({held / len(told):.0%})" if told else "–",
        f"{low:.0%} to {high:.0%}",
        str(sum(outcome.first_worse for outcome in told)),
        str(sum(outcome.state == "inconclusive" for outcome in told)),
        str(len(found) - len(told)),
        f"{median(ratios) - 1:+.1%}" if ratios else "–",
        f"{median(deltas):.1%}" if deltas else "–",
        f"{median(outcome.pairs for outcome in told):g}" if told else "–",
        f"{median(outcome.wall_s for outcome in found):.0f} s",
    ]
    return "| " + " | ".join(cells) + " |"
