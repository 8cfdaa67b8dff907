"""Carries a matrix out, a run for every few settings on one disk; what is done stays done."""

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
from highwater.bench.matrix.answers import Answer, Key, Look, answers
from highwater.bench.matrix.disks import Places
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
from highwater.bench.matrix.study import Study, name_of
from highwater.bench.prove.judging import compare_cells, faults_of
from highwater.bench.prove.loads import load_file
from highwater.bench.prove.proving import Round, Sides, make_round
from highwater.bench.prove.subjects import Change, Subject, knob_ids, subject_named
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.trial import now_utc
from highwater.bench.workload.specification import VARIANT
from highwater.common.errors import UsageError
from highwater.common.units import plural, wait_text
from highwater.results.models import Manifest
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.tuning.catalogue import find_knob
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import Facts
from highwater.tuning.workload import parse_workload

Ended = Literal["done", "time over", "interrupted"]
# More share one unchanged side, and its one bad trial would count against all of them; less take more time.
SETTINGS_OF_A_ROUND: Final = 5
_FILE_SYSTEM: Final = "filesystem.type"
_OTHER_TARGET: Final = "other-file-system"
# What a trial may do to a disk that is made for it, and to no other.
_RISKS_OF_A_DISK: Final = ("mount.", "disk.")


@dataclass(frozen=True, slots=True)
class Here:
    """What a matrix works with; tests replace it. open_disk: makes a disk, and takes it away."""

    execute: Execute
    open_disk: Callable[[str], AbstractContextManager[Places]]
    facts: Callable[[], Facts]
    now_s: Callable[[], float] = time.monotonic


def subjects_on(study: Study, places: Places, facts: Facts) -> tuple[dict[str, Subject], dict[str, str]]:
    """Setting to subject on this disk, and the settings that cannot be set there with the reason.

    Raises UsageError for a knob that does not exist.
    """
    inputs = parse_workload({"data_dirs": [str(places.log)]})
    subjects: dict[str, Subject] = {}
    cannot: dict[str, str] = {}
    for setting in study.settings:
        try:
            knobs = [find_knob(knob) for knob in knob_ids(setting)]
        except TuningError as error:
            raise UsageError(str(error)) from None
        accepted = [k.id for k in knobs if places.is_ours and k.id.startswith(_RISKS_OF_A_DISK)]
        try:
            if name_of(setting) == _FILE_SYSTEM:
                subjects[setting] = _file_system(setting, places)
            else:
                subjects[setting] = subject_named(setting, facts, inputs, accepted)
        except UsageError as error:
            cannot[setting] = str(error).rpartition(" cannot be proved: ")[2].partition("; the trials would")[0]
    return subjects, cannot


def _file_system(setting: str, places: Places) -> Subject:
    off, _, on = setting.partition("=")[2].partition(":")
    if places.other is None:
        raise UsageError("a new file system takes a disk of its own; emulated disks show it")
    return Subject((Change(find_knob(_FILE_SYSTEM), None, on, off, on),), target=_OTHER_TARGET)


def planned(item: StoredRound, study: Study, subjects: Mapping[str, Subject], places: Places) -> Round:
    """The run of a round on a disk."""
    pairs = study.first_pairs if item.stage == "first" else study.confirming_pairs
    others = {} if places.other is None else {_OTHER_TARGET: places.other}
    chosen = [subjects[each.setting] for each in item.settings]
    return make_round(load_file(item.load), chosen, places.log, pairs, item.seed, others)


def expected_s(study: Study, places: Places, facts: Facts) -> int:
    """The time of the first looks on one disk, if what can be set on `places` can be set there."""
    subjects, _ = subjects_on(study, places, facts)
    rounds = _first_looks(study, places, subjects, "any", 0)
    return sum(planned(item, study, subjects, places).plan.duration_s for item in rounds)


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

    for_s: no round begins that would not end in this time. Raises UsageError as the runs do.
    """
    study, began = matrix.questions, False
    deadline_s = math.inf if for_s is None else here.now_s() + for_s
    stages: tuple[Stage, ...] = ("first",) if matrix.quick else ("first", "confirming")
    for disk in study.disks:
        if disk in matrix.disks and matrix.disks[disk].complete:
            continue
        with here.open_disk(disk) as places:
            subjects, cannot = subjects_on(study, places, here.facts())
            if disk not in matrix.disks:
                stored = StoredDisk(storage=places.text, cannot=cannot)
                rounds = _first_looks(study, places, subjects, disk, matrix.seed + len(matrix.rounds))
                matrix = _kept(out, matrix, [*matrix.rounds, *rounds], {disk: stored})
            for load, stage in itertools.product(study.loads, stages):
                place = (disk, load, stage)
                if stage == "confirming" and not any(place == item.place for item in matrix.rounds):
                    more = _second_looks(out, matrix, disk, load, subjects, places)
                    matrix = _kept(out, matrix, [*matrix.rounds, *more])
                for item in matrix.rounds:
                    if item.place != place or finished(out, item) is not None:
                        continue
                    plan = planned(item, study, subjects, places).plan
                    if here.now_s() + plan.duration_s > deadline_s:
                        if not began:
                            needed = wait_text(plan.duration_s)
                            raise UsageError(f"--for: the next run alone takes about {needed}; give it more")
                        return matrix, "time over"
                    began = True
                    if _run(out / item.folder, plan, here.execute).status != "done":
                        return matrix, "interrupted"
            done = matrix.disks[disk].model_copy(update={"complete": True})
            matrix = _kept(out, matrix, matrix.rounds, {disk: done})
    return matrix, "done"


def looks(out: Path, matrix: Matrix, stage: Stage) -> dict[Key, Look]:
    """The looks of all complete rounds. Raises ResultDirectoryError when a file of them is damaged."""
    found = {}
    figures = matrix.questions.loads
    for item in matrix.rounds:
        result = finished(out, item) if item.stage == stage else None
        if result is None:
            continue
        for setting in item.settings:
            key = Key(setting.setting, item.load, item.disk)
            found[key] = _look(result, setting, figures[item.load])
    return found


def answers_of(out: Path, matrix: Matrix) -> dict[Key, Answer]:
    """The answer of every cell, from the result directories."""
    study = matrix.questions
    keys = [Key(setting, load, disk) for setting in study.settings for disk in study.disks for load in study.loads]
    reasons = {name: disk.cannot for name, disk in matrix.disks.items()}
    cannot = {key: reasons[key.disk][key.setting] for key in keys if key.setting in reasons.get(key.disk, {})}
    return answers(keys, looks(out, matrix, "first"), looks(out, matrix, "confirming"), cannot)


def _look(result: RunResult, setting: StoredSetting, figures: Sequence[str]) -> Look:
    summaries = [trial.summary for trial in result.trials]
    cell_of = {trial.factors[VARIANT]: trial.cell for trial in result.manifest.trials}
    cells = cell_of[setting.off], cell_of[setting.on]
    compared = compare_cells(summaries, *cells, figures, result.manifest.seed)
    off, on = (faults_of(summaries, result.manifest.trials, cell) for cell in cells)
    if off or not on:
        return Look(compared)
    return Look(compared, f"the broker failed in {plural(len(on), 'trial')} with it, and in none without: {on[0]}")


def _kept(
    out: Path, matrix: Matrix, rounds: Sequence[StoredRound], disks: Mapping[str, StoredDisk] | None = None
) -> Matrix:
    changed = matrix.model_copy(update={"rounds": [*rounds], "disks": matrix.disks | dict(disks or {})})
    write_matrix(out, changed)
    return changed


def _first_looks(
    study: Study, places: Places, subjects: Mapping[str, Subject], disk: str, seed: int
) -> list[StoredRound]:
    rounds: list[StoredRound] = []
    for load in study.loads:
        empty = StoredRound(disk=disk, load=load, stage="first", number=0, seed=seed + len(rounds), settings=[])
        rounds += _divided(empty, list(subjects), study, subjects, places)
    return rounds


def _second_looks(
    out: Path, matrix: Matrix, disk: str, load: str, subjects: Mapping[str, Subject], places: Places
) -> list[StoredRound]:
    found = looks(out, matrix, "first")
    doubtful = [key.setting for key, look in found.items() if key[1:] == (load, disk) and look.seems_to_differ]
    seed = matrix.seed + len(matrix.rounds)
    empty = StoredRound(disk=disk, load=load, stage="confirming", number=0, seed=seed, settings=[])
    return _divided(empty, doubtful, matrix.questions, subjects, places)


def _divided(
    empty: StoredRound, settings: Sequence[str], study: Study, subjects: Mapping[str, Subject], places: Places
) -> list[StoredRound]:
    """Rounds like `empty` of a few settings each, as equal in size as possible."""
    count = -(-len(settings) // SETTINGS_OF_A_ROUND)
    rounds = []
    for number in range(count):
        chosen = [StoredSetting(setting=s, off_text="", on_text="", off="", on="") for s in settings[number::count]]
        item = empty.model_copy(update={"number": number + 1, "seed": empty.seed + number, "settings": chosen})
        sides = planned(item, study, subjects, places).sides
        stored = [_stored(each.setting, side) for each, side in zip(chosen, sides, strict=True)]
        rounds.append(item.model_copy(update={"settings": stored}))
    return rounds


def _stored(setting: str, sides: Sides) -> StoredSetting:
    changes = sides.subject.changes
    off_text, on_text = (", ".join(texts) for texts in ((c.off_text for c in changes), (c.on_text for c in changes)))
    return StoredSetting(setting=setting, off_text=off_text, on_text=on_text, off=sides.off, on=sides.on)


def _run(directory: Path, plan: Plan, execute: Execute) -> Manifest:
    """Begin or continue the run of a directory; one that was killed before it began is none."""
    if directory.is_dir() and not (directory / "manifest.json").is_file():
        shutil.rmtree(directory)
    return execute(plan, directory, None)
