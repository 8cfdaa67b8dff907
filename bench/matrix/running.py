"""Carries a matrix out: on each disk first looks, then second ones; what is done stays done."""

from __future__ import annotations

import itertools
import math
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from highwater.bench.gate.run import Execute
from highwater.bench.matrix.answers import Answer, Key, Look, answers, confirming_look
from highwater.bench.matrix.design import is_dummy
from highwater.bench.matrix.disks import Places
from highwater.bench.matrix.screening import screened, screening_plan, screening_round
from highwater.bench.matrix.stored import (
    Matrix,
    Stage,
    StoredDisk,
    StoredRound,
    StoredSetting,
    finished,
    holds_matrix,
    read_matrix,
    write_matrix,
)
from highwater.bench.matrix.study import Study
from highwater.bench.matrix.subjects import Available, available_on
from highwater.bench.prove.judging import compare_cells, faults_of
from highwater.bench.prove.loads import load_file
from highwater.bench.prove.proving import Round, make_round
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.trial import now_utc
from highwater.bench.workload.specification import VARIANT
from highwater.common.errors import UsageError
from highwater.common.units import plural, wait_text
from highwater.results.models import Manifest
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.tuning.facts.model import Facts

Ended = Literal["done", "time over", "interrupted"]
# More share one unchanged side, and its one bad trial would count against all of them; less take more time.
SETTINGS_OF_A_ROUND: Final = 5


@dataclass(frozen=True, slots=True)
class Here:
    """What a matrix works with; tests replace it. open_disk: makes a disk, and takes it away."""

    execute: Execute
    open_disk: Callable[[str], AbstractContextManager[Places]]
    facts: Callable[[], Facts]
    now_s: Callable[[], float] = time.monotonic


def plan_of(item: StoredRound, study: Study, available: Available) -> Plan:
    """The run of a round."""
    if item.stage == "first":
        return screening_plan(item, available.subjects, available.targets)
    return _confirming(item, study, available).plan


def _confirming(item: StoredRound, study: Study, available: Available) -> Round:
    chosen = [available.subjects[each.setting] for each in item.settings]
    return make_round(load_file(item.load), chosen, available.targets, study.confirming_pairs, item.seed)


def first_looks(study: Study, available: Available, disk: str, seed: int) -> list[StoredRound]:
    """One run for each load."""
    if not available.subjects:
        return []
    return [
        screening_round(disk, load, available.subjects, seed + number, available.exclusive)
        for number, load in enumerate(study.loads)
    ]


def begun_matrix(out: Path, study: Study, data_dir: Path, facts: Facts, *, quick: bool, seed: int | None) -> Matrix:
    """The matrix that is in `out`, or a new one. Raises UsageError when another one is there, or other files."""
    asked = Matrix(
        study=study.as_document(),
        quick=quick,
        host=f"{facts.cpu_model or 'unknown processor'}, {facts.cpu_count} CPUs, kernel {facts.kernel_release}",
        data_dir=str(data_dir),
        seed=secrets.randbits(31) if seed is None else seed,
        created_utc=now_utc(),
    )
    if not holds_matrix(out):
        ResultWriter(out)  # complains of a directory with other files
        write_matrix(out, asked)
        return asked
    kept = read_matrix(out)
    differing = [key for key in asked.study if asked.study[key] != kept.study.get(key)]
    differing += [key for key in ("quick", "data_dir", "host") if getattr(asked, key) != getattr(kept, key)]
    differing += ["seed"] if seed not in (None, kept.seed) else []
    if differing:
        raise UsageError(
            f"{out} holds another matrix (other {', '.join(differing).replace('_', '-')}); repeat the command that it "
            "was begun with, or begin anew with another --out"
        )
    return kept


def run_matrix(out: Path, matrix: Matrix, here: Here, for_s: float | None = None) -> tuple[Matrix, Ended]:
    """Run what is not done yet; `matrix.json` is written before each run.

    for_s: only runs begin that would end in this time. Raises UsageError as the runs do.
    """
    study, began = matrix.questions, False
    too_long_s: list[int] = []
    deadline_s = math.inf if for_s is None else here.now_s() + for_s
    stages: tuple[Stage, ...] = ("first",) if matrix.quick else ("first", "confirming")
    for disk in study.disks:
        if disk in matrix.disks and matrix.disks[disk].complete:
            continue
        with here.open_disk(disk) as places:
            available = available_on(study, places, here.facts())
            if disk not in matrix.disks:
                stored = StoredDisk(storage=places.text, cannot=available.cannot)
                rounds = first_looks(study, available, disk, matrix.seed + len(matrix.rounds))
                matrix = _kept(out, matrix, [*matrix.rounds, *rounds], {disk: stored})
            for stage, load in itertools.product(stages, study.loads):
                place = (disk, load, stage)
                if stage == "confirming" and not any(place == item.place for item in matrix.rounds):
                    more = _second_looks(out, matrix, disk, load, available)
                    matrix = _kept(out, matrix, [*matrix.rounds, *more])
                for item in matrix.rounds:
                    if item.place != place or finished(out, item) is not None:
                        continue
                    plan = plan_of(item, study, available)
                    if here.now_s() + plan.duration_s > deadline_s:
                        too_long_s.append(plan.duration_s)
                        continue
                    began = True
                    if _run(out / item.folder, plan, here.execute).status != "done":
                        return matrix, "interrupted"
            if too_long_s and not began:
                raise UsageError(f"--for: the next run alone takes about {wait_text(min(too_long_s))}; give it more")
            if too_long_s:
                return matrix, "time over"
            done = matrix.disks[disk].model_copy(update={"complete": True})
            matrix = _kept(out, matrix, matrix.rounds, {disk: done})
    return matrix, "done"


def looks(out: Path, matrix: Matrix, stage: Stage) -> dict[Key, Look]:
    """The looks of all complete rounds. Raises ResultDirectoryError when a file of them is damaged.

    First looks are also at the dummies of their designs.
    """
    found: dict[Key, Look] = {}
    figures = matrix.questions.loads
    for item in matrix.rounds:
        result = finished(out, item) if item.stage == stage else None
        if result is None:
            continue
        if stage == "first":
            found |= screened(result, item, figures[item.load])
        else:
            for each in item.settings:
                found[Key(each.setting, item.load, item.disk)] = _look(result, each, figures[item.load])
    return found


def answers_with_dummies(out: Path, matrix: Matrix) -> tuple[dict[Key, Answer], dict[Key, Look]]:
    """The answer of every cell, and what the dummies of the designs seem to do, which is noise."""
    first, second, study = looks(out, matrix, "first"), looks(out, matrix, "confirming"), matrix.questions
    dummies = {key: look for key, look in first.items() if is_dummy(key.setting)}
    keys = [Key(setting, load, disk) for setting in study.settings for disk in study.disks for load in study.loads]
    reasons = {name: disk.cannot for name, disk in matrix.disks.items()}
    cannot = {key: reasons[key.disk][key.setting] for key in keys if key.setting in reasons.get(key.disk, {})}
    return answers(keys, first, second, cannot, study.loads), dummies


def _look(result: RunResult, setting: StoredSetting, figures: Sequence[str]) -> Look:
    summaries = [trial.summary for trial in result.trials]
    cell_of = {trial.factors[VARIANT]: trial.cell for trial in result.manifest.trials}
    cells = cell_of[setting.off], cell_of[setting.on]
    compared = compare_cells(summaries, *cells, figures, result.manifest.seed)
    off, on = (faults_of(summaries, result.manifest.trials, cell) for cell in cells)
    if off or not on:
        return confirming_look(compared)
    return confirming_look(
        compared, f"the broker failed in {plural(len(on), 'trial')} with it, and in none without: {on[0]}"
    )


def _kept(
    out: Path, matrix: Matrix, rounds: Sequence[StoredRound], disks: Mapping[str, StoredDisk] | None = None
) -> Matrix:
    changed = matrix.model_copy(update={"rounds": [*rounds], "disks": matrix.disks | dict(disks or {})})
    write_matrix(out, changed)
    return changed


def _second_looks(out: Path, matrix: Matrix, disk: str, load: str, available: Available) -> list[StoredRound]:
    """Runs of a few settings each that seem to differ, as equal in size as possible."""
    found = looks(out, matrix, "first")
    doubtful = [
        setting
        for setting in available.subjects
        if (look := found.get(Key(setting, load, disk))) and look.seems_to_differ
    ]
    count = -(-len(doubtful) // SETTINGS_OF_A_ROUND)
    rounds = []
    for number in range(count):
        chosen = {setting: available.subjects[setting] for setting in doubtful[number::count]}
        item = StoredRound(
            disk=disk,
            load=load,
            stage="confirming",
            number=number + 1,
            seed=matrix.seed + len(matrix.rounds) + number,
            settings=[StoredSetting.of(setting, subject) for setting, subject in chosen.items()],
        )
        sides = _confirming(item, matrix.questions, available).sides
        stored = [
            StoredSetting.of(setting, side.subject, side.off, side.on)
            for setting, side in zip(chosen, sides, strict=True)
        ]
        rounds.append(item.model_copy(update={"settings": stored}))
    return rounds


def _run(directory: Path, plan: Plan, execute: Execute) -> Manifest:
    """Begin or continue the run of a directory; one that was killed before it began is none."""
    if directory.is_dir() and not (directory / "manifest.json").is_file():
        shutil.rmtree(directory)
    return execute(plan, directory, None)
