"""Carries proofs out: subjects that need the same load are cells of one run.

The caller passes an `Execute` that runs the trials, so that tests need no broker. Proofs are read from the result
directory of a run, and from nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from highwater.bench.gate.run import Execute
from highwater.bench.prove.judging import judge_cells
from highwater.bench.prove.loads import load_file, load_for
from highwater.bench.prove.subjects import Subject
from highwater.bench.runs.agenda import FinishedCells
from highwater.bench.trials.plan import Plan, make_plan
from highwater.bench.workload.layers import read_with_includes
from highwater.bench.workload.specification import VARIANT, Specification, specify
from highwater.common.errors import UsageError
from highwater.results import environment_key
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.storage import StorageTarget
from highwater.tuning.proofs import Proof, ProvedSetting

AS_IT_IS: Final = "as-it-is"
PROVED_STORAGE: Final = "proved"
MOST_PAIRS: Final = 30
# Keys of `trials` that a proof sets itself: its sides are settings of the host, so trials run one at a time.
_OURS: Final = ("stop_when", "at_once")
Targets = Mapping[str, Path]
"""Storage target to directory; `PROVED_STORAGE` is where trials are unless a subject says otherwise."""
Variants = dict[str, dict[str, Any]]
"""Name of a cell to what it lays over the workload."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The variants of one subject: the settings of its trials off and on."""

    subject: Subject
    off: str
    on: str


@dataclass(frozen=True, slots=True)
class Round:
    """One run: the subjects of one load."""

    load: str
    sides: tuple[Sides, ...]
    plan: Plan

    @property
    def pairs(self) -> int:
        return self.plan.trials[-1].plan.block


def make_rounds(
    subjects: Sequence[Subject],
    data_dir: Path | None,
    pairs: int,
    *,
    minutes: float | None = None,
    workload_file: Path | None = None,
    seed: int | None = None,
) -> list[Round]:
    """All runs of a proof. minutes: as many pairs as fit; raises UsageError when these are too few."""
    targets = None if data_dir is None else {PROVED_STORAGE: data_dir}
    by_load: dict[Path, list[Subject]] = {}
    for subject in subjects:
        by_load.setdefault(workload_file or load_file(load_for(subject)), []).append(subject)
    if minutes is not None:
        pairs = _pairs_within(minutes, [make_round(path, found, targets, 1, seed) for path, found in by_load.items()])
    return [make_round(path, found, targets, pairs, seed) for path, found in by_load.items()]


def duration_s(rounds: Iterable[Round]) -> int:
    return sum(item.plan.duration_s for item in rounds)


def prove(
    rounds: Sequence[Round], out: Path, execute: Execute, *, minutes: float | None = None
) -> Iterable[tuple[Round, list[Proof], Manifest]]:
    """Run one round after the other, and yield the proofs of each round as soon as it has ended.

    minutes: a round that takes longer than its share starts no further block once it has enough blocks for a verdict.
    """
    whole_s = duration_s(rounds)
    for item in rounds:
        share_s = None if minutes is None else 60 * minutes * item.plan.duration_s / whole_s
        directory = out / item.load if len(rounds) > 1 else out
        manifest = execute(item.plan, directory, None if share_s is None else until(time.monotonic() + share_s))
        yield item, proofs_of_run(RunResult(directory), item.sides), manifest
        if manifest.status == "interrupted":
            return


def proofs_of_run(result: RunResult, sides: Iterable[Sides]) -> list[Proof]:
    """The proofs from a result directory, one per subject."""
    summaries = [trial.summary for trial in result.trials]
    cells = {trial.factors[VARIANT]: trial.cell for trial in result.manifest.trials}
    return [_proof(result, summaries, item, cells[item.off], cells[item.on]) for item in sides]


def until(deadline_s: float, now: Callable[[], float] = time.monotonic) -> FinishedCells:
    """A function for the runner, called before each block: stops when the time is over, whatever the trials show."""

    def finished(summaries: Sequence[TrialSummary]) -> Mapping[str, str]:
        blocks = {summary.block for summary in summaries}
        if now() < deadline_s or len(blocks) < LEAST_FOR_INTERVAL:
            return {}
        return {summary.cell: f"the time was over after {len(blocks)} blocks" for summary in summaries}

    return finished


def make_round(path: Path, subjects: Sequence[Subject], targets: Targets | None, pairs: int, seed: int | None) -> Round:
    """The run of a workload file in which each subject is off and on. Raises UsageError."""
    variants: Variants = {AS_IT_IS: {}}
    sides = []
    for subject in subjects:
        off = _variant(variants, subject.off_text, overlay_of([subject], on=()))
        on = _variant(variants, subject.on_text, overlay_of([subject], on=[subject]))
        sides.append(Sides(subject, off, on))
    if not any(AS_IT_IS in (item.off, item.on) for item in sides):
        del variants[AS_IT_IS]
    plan = plan_of_variants(path, variants, targets, pairs, seed)
    return Round(plan.specification.workload.name, tuple(sides), plan)


def overlay_of(subjects: Iterable[Subject], on: Container[Subject]) -> dict[str, Any]:
    """The variant in which those subjects are on, and the others off."""
    settings: dict[str, str] = {}
    target = ""
    for subject in subjects:
        if subject in on and subject.target:
            target = subject.target
        else:
            settings |= subject.on if subject in on else subject.off
    host = {"host": {"settings": settings}} if settings else {}
    return host | ({"storage": {"target": target}} if target else {})


def plan_of_variants(
    path: Path, variants: Variants, targets: Targets | None, blocks: int, seed: int | None, *, a_a: bool = True
) -> Plan:
    """The run of a workload file with one cell for each variant. Raises UsageError."""
    document = read_with_includes(path)
    if document.data.get("variants") or document.data.get("matrix"):
        raise UsageError(
            f"{path}: has cells of its own (variants, matrix); a proof's cells are its settings, off and on"
        )
    document.data["variants"] = dict(variants)
    trials = document.data.get("trials") or {}
    kept = {key: value for key, value in trials.items() if key not in _OURS} if isinstance(trials, dict) else {}
    document.data["trials"] = kept | {"n": blocks, "a_a": a_a}
    if targets is not None:
        storage = document.data.setdefault("storage", {})
        storage["targets"] = {name: {"path": str(place)} for name, place in targets.items()}
        storage["target"] = PROVED_STORAGE
    return make_plan(specify(document, path), seed)


def _variant(variants: Variants, name: str, overlay: dict[str, Any]) -> str:
    """The variant with this overlay, made when there is none yet."""
    if not overlay:
        return AS_IT_IS
    if variants.setdefault(name, overlay) != overlay:
        # Two different values may have the same rounded text.
        name = "+".join(f"{knob}={value}" for knob, value in overlay["host"]["settings"].items())
        variants[name] = overlay
    return name


def _pairs_within(minutes: float, single: Sequence[Round]) -> int:
    """The number of pairs that fit in the time. single: the rounds with one block each, for their duration."""
    longer = [replace(item, plan=make_plan(_with_pairs(item.plan.specification, 2), item.plan.seed)) for item in single]
    block_s = duration_s(longer) - duration_s(single)
    fixed_s = duration_s(single) - block_s
    pairs = min(MOST_PAIRS, int((60 * minutes - fixed_s) // block_s))
    if pairs < LEAST_FOR_INTERVAL:
        least = (fixed_s + LEAST_FOR_INTERVAL * block_s) / 60
        raise UsageError(
            f"--minutes {minutes:g}: {LEAST_FOR_INTERVAL} pairs of each are the least that say anything and take about "
            f"{least:.1f} minutes; give more, or name fewer knobs"
        )
    return pairs


def _with_pairs(specification: Specification, pairs: int) -> Specification:
    trials = specification.workload.trials.model_copy(update={"n": pairs})
    return replace(specification, workload=specification.workload.model_copy(update={"trials": trials}))


def _proof(result: RunResult, summaries: Sequence[TrialSummary], sides: Sides, off: str, on: str) -> Proof:
    found = judge_cells(summaries, result.manifest.trials, off, on, result.manifest.seed)
    with_it = [summary for summary in summaries if summary.cell == on]
    storages = {summary.storage.name: summary.storage for summary in summaries if summary.cell in (off, on)}
    trades = dict.fromkeys(trade for summary in with_it for trade in summary.durability_trades)
    return Proof(
        settings=tuple(ProvedSetting(c.knob.id, c.off_text, c.on_text) for c in sides.subject.changes),
        verdict=found.verdict,
        text=found.text,
        effects=found.effects,
        workload=result.manifest.name,
        storage="; ".join(map(_storage_text, storages.values())),
        pairs=found.pairs,
        pairs_valid=found.pairs_valid,
        a_a_pairs=found.a_a_pairs,
        environment=environment_key.key_of(result).name,
        measured_utc=result.manifest.finished_utc or result.manifest.created_utc,
        results=str(result.directory.resolve()),
        cells=(off, on),
        durability_trades=tuple(trades),
    )


def _storage_text(storage: StorageTarget) -> str:
    """The storage as text, without the run's own folder, whose name changes with every run."""
    return f"{Path(storage.path).parent} ({storage.device or 'no disk'}, {storage.medium}, {storage.filesystem})"
