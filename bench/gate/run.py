"""Runs a gate: base and head as variants of one run, confirmations, and the result files.

The caller passes an `Execute` that runs the trials, so that tests need no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.bench.display.comparison_text import gate_markdown
from highwater.bench.gate.annotations import gitlab_report
from highwater.bench.gate.junit import junit_xml
from highwater.bench.gate.policy import NO_NOISE, OWN_A_A, Policy, metrics_of
from highwater.bench.gate.reasoning import (
    BASE,
    HEAD,
    VARIANT,
    Evaluation,
    GateOutcome,
    Place,
    broken_promises,
    cell_of,
    early_stop,
    environment_outcome,
    evaluate,
    faults,
    limits_of,
    settle,
    target_outcome,
)
from highwater.bench.gate.sides import Measured, Recorded
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload import requested_load
from highwater.bench.workload.layers import read_with_includes
from highwater.bench.workload.specification import Specification, specify
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.common.exit_codes import EXIT_INTERRUPTED
from highwater.results import checksums
from highwater.results.analysis.compare import compare, matched_cells, noise_of_both, side_of
from highwater.results.analysis_file import AaPair
from highwater.results.environment_key import difference_text
from highwater.results.files import dump
from highwater.results.gate import ComparedSide, EnvironmentDifference, Gate, GateRound
from highwater.results.models import Manifest
from highwater.results.reader import RunResult

Execute = Callable[[Plan, Path, FinishedCells | None], Manifest]
"""Runs a plan with new processes and writes a result directory."""
GATE_FILE: Final = "gate.json"
_CONFIRMATION: Final = "confirmation"


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy of a gate, and the file that it came from."""

    policy: Policy
    policy_file: str | None = None
    noise: Mapping[str, Sequence[AaPair]] = field(default_factory=dict)
    """A/A pairs from elsewhere, by metric."""
    strict: bool = False
    allow_env_diff: bool = False


def gate_specification(workload_file: Path, base: Measured, head: Measured, policy: Policy) -> Specification:
    """The workload with base and head as its variants and the policy's largest number of blocks. Raises UsageError."""
    document = read_with_includes(workload_file)
    if document.data.get("variants"):
        raise UsageError(
            f"{document.origin(('variants',))}: variants: a gate's variants are base and head; "
            "put what differs into config:FILE"
        )
    document.data["variants"] = {BASE: base.overlay, HEAD: head.overlay}
    for name, side in ((BASE, base), (HEAD, head)):
        document.origins["variants", name] = side.given
        document.origins |= {("variants", name, *where): origin for where, origin in side.origin.origins.items()}
    trials: Any = document.data.get("trials") or {}
    if isinstance(trials, dict):
        trials = {key: value for key, value in trials.items() if key != "stop_when"}
        document.data["trials"] = trials | {"n": policy.pairs.max, "a_a": policy.noise.source == OWN_A_A}
    specification = specify(document, workload_file)
    by_factors: dict[str, list[dict[str, Any]]] = {}
    for cell in specification.cells:
        by_factors.setdefault(repr(cell.factors | {VARIANT: None}), []).append(cell.workload.as_document())
    for one, *others in by_factors.values():
        for other in others:
            # Other records may be what is gated. Another rate never is: throughput would follow it.
            differences = requested_load.differences_of_documents(one, other)
            _require_one_load([item for item in differences if item.fact.startswith("load.")])
    return specification


def run_gate(base: Measured, head: Measured, plan: Plan, rules: Rules, out: Path, execute: Execute) -> Gate:
    """Measure base and head in turn and confirm regressions. `plan` is made from a `gate_specification`."""
    policy = rules.policy
    rounds: list[GateRound] = []
    evaluations: list[Evaluation] = []
    only: frozenset[Place] | None = None
    outcome: GateOutcome | None = None
    notes: list[str] = []
    for number in range(1 + policy.confirm.reruns):
        # The first round is the result directory itself, so that reports show it; the others are inside of it.
        directory = out if number == 0 else out / (_CONFIRMATION if number == 1 else f"{_CONFIRMATION}-{number}")
        if number:
            plan = make_plan(plan.specification, plan.seed + 1)
        manifest = execute(plan, directory, early_stop(policy, rules.noise, plan.seed, only))
        result = RunResult(directory)
        found = _evaluation(result, rules, plan.seed, only)
        evaluations.append(found)
        rounds.append(_round(number, directory.relative_to(out), plan.seed, found))
        notes += _notes(result, found, rules)
        if manifest.status == "interrupted":
            outcome = GateOutcome("interrupted", EXIT_INTERRUPTED, "the gate ended before a decision")
            break
        if lost := faults([trial.summary for trial in result.trials], manifest.trials, HEAD):
            outcome = target_outcome(lost)
            break
        only = found.worse if only is None else only & found.worse
        if not only or found.pairs_valid < policy.pairs.min:
            break
    if outcome is None:
        outcome = settle(evaluations[0], evaluations[1:], policy, strict=rules.strict)
    first = RunResult(out)
    return Gate(
        state=outcome.state,
        exit_code=outcome.exit_code,
        text=outcome.text,
        base=_side(first, base, BASE),
        head=_side(first, head, HEAD),
        interleaved=True,
        confirmed=outcome.confirmed,
        policy=policy.as_document(),
        policy_file=rules.policy_file,
        rounds=rounds,
        environment=[],
        notes=list(dict.fromkeys(notes)),
    )


def judge_recorded(base: Recorded, head: Recorded, rules: Rules) -> Gate:
    """The gate over two result directories, or two cells of one. It runs nothing, so it confirms nothing."""
    policy = rules.policy
    noise = rules.noise
    if policy.noise.source == OWN_A_A:
        noise = noise_of_both(base.result, head.result)
    try:
        found = compare(
            base.result,
            head.result,
            base.cell,
            head.cell,
            metrics_of(policy),
            limits_of(policy, noise),
            load_of=requested_load.load_of,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    pairs = min(_pairs_of(base, head), min((item.n_pairs for item in found.metrics if item.gated), default=0))
    a_a_pairs = max(map(len, noise.values()), default=0)
    evaluation = Evaluation(found.metrics, pairs, pairs, a_a_pairs)
    _require_one_load([difference for difference in found.workload if difference.decides])
    decisive = [difference for difference in found.environment if difference.decides]
    lost = broken_promises(
        (trial.summary for trial in head.result.trials if head.cell in (None, trial.summary.cell)),
        (plan for plan in head.result.manifest.trials if head.cell in (None, plan.cell)),
    )
    if decisive and policy.on_environment_mismatch == "fail" and not rules.allow_env_diff:
        outcome = environment_outcome(decisive)
    elif lost:
        outcome = target_outcome(lost)
    else:
        outcome = settle(evaluation, [], policy, strict=rules.strict)
    return Gate(
        state=outcome.state,
        exit_code=outcome.exit_code,
        text=outcome.text,
        base=side_of(base.result, [base.cell] if base.cell else None, base.given),
        head=side_of(head.result, [head.cell] if head.cell else None, head.given),
        interleaved=found.paired,
        confirmed=outcome.confirmed,
        policy=policy.as_document(),
        policy_file=rules.policy_file,
        rounds=[
            GateRound(
                stage="first",
                directory=None,
                seed=None,
                pairs=pairs,
                pairs_valid=pairs,
                a_a_pairs=a_a_pairs,
                metrics=found.metrics,
                text=outcome.text,
            )
        ],
        environment=found.environment,
        notes=[
            "judged from what was recorded: nothing was run again, so no regression could be confirmed",
            *_lack_of_noise(a_a_pairs, policy),
            *found.warnings,
        ],
    )


def _require_one_load(differences: Sequence[EnvironmentDifference]) -> None:
    if differences:
        raise UsageError(
            f"base and head do not have one load ({'; '.join(map(difference_text, differences))}), so which of the two "
            "is slower cannot be said; give both the same load: and records:"
        )


def _pairs_of(base: Recorded, head: Recorded) -> int:
    """The smallest number of pairs of any cell that both sides planned, including cells without valid trials."""
    paired = base.result.directory.resolve() == head.result.directory.resolve()
    cells, _ = matched_cells(base.result, head.result, base.cell, head.cell, paired=paired)
    return min(min(len(trials.base), len(trials.head)) for trials in cells)


def write_gate(gate: Gate, out: Path) -> None:
    """Write gate.json, and the outcome for CI systems: gate.md, gate.junit.xml, gate.codequality.json."""
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / GATE_FILE, dump(gate))
    write_atomically(out / "gate.md", gate_markdown(gate))
    write_atomically(out / "gate.junit.xml", junit_xml(gate))
    write_atomically(out / "gate.codequality.json", gitlab_report(gate))
    if (out / "manifest.json").is_file():
        checksums.write(out)


def _evaluation(result: RunResult, rules: Rules, seed: int, only: frozenset[Place] | None) -> Evaluation:
    planned = [cell_of(plan) for plan in result.manifest.trials]
    return evaluate([trial.summary for trial in result.trials], rules.policy, rules.noise, seed, only, planned)


def _round(number: int, directory: Path, seed: int, found: Evaluation) -> GateRound:
    return GateRound(
        stage="confirmation" if number else "first",
        directory=str(directory),
        seed=seed,
        pairs=found.pairs,
        pairs_valid=found.pairs_valid,
        a_a_pairs=found.a_a_pairs,
        metrics=found.metrics,
        text=f"{found.pairs_valid} of {found.pairs} pairs valid",
    )


def _notes(result: RunResult, found: Evaluation, rules: Rules) -> list[str]:
    notes = _lack_of_noise(found.a_a_pairs, rules.policy) if not rules.noise else []
    if not result.manifest.for_measurement:
        notes.append("the workload says for_measurement: false; its figures are not to be quoted")
    notes += [*result.emulation_notes(), *result.durability_notes(), *result.sharing_notes()]
    doubts: dict[str, list[str]] = {}
    for trial in result.trials:
        if trial.summary.verdict.state != "valid":
            for reason in trial.summary.verdict.reasons:
                doubts.setdefault(f"{trial.summary.verdict.state} ({reason.check})", []).append(reason.text)
    notes += [f"{len(texts)} of {len(result.trials)} trials {what}: {texts[0]}" for what, texts in doubts.items()]
    return notes


def _lack_of_noise(a_a_pairs: int, policy: Policy) -> list[str]:
    if policy.noise.source == NO_NOISE or a_a_pairs < 3:
        return ["how much pairs of the same thing differ here is not known (no A/A pairs): only the floor counts"]
    return []


def _side(result: RunResult, side: Measured, variant: str) -> ComparedSide:
    of_variant = (plan.cell for plan in result.manifest.trials if plan.factors.get(VARIANT) == variant)
    return side_of(result, list(dict.fromkeys(of_variant)), side.given).model_copy(update={"commit": side.commit})
