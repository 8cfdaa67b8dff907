"""Carries an advice out: search, confirmation, answer, files; each step can be resumed.

OUT/question.json    what was asked, to notice a question that changed
OUT/search/          the result directory of the search
OUT/confirmation/    the result directory of the fresh trials
OUT/advice.json      the answer, and OUT/settings/ its files
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.runs.resume import differences
from highwater.bench.trials.plan import PROBES_S, RUN_OVERHEAD_S, Plan, planned_trial
from highwater.bench.trials.trial import now_utc
from highwater.bench.workload.specification import BASE_CELL, Cell, Specification
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.results.advice import (
    CONFIRMATION,
    SEARCH,
    SETTINGS,
    Advice,
    SearchAccount,
    write_advice,
)
from highwater.results.files import ResultDirectoryError, is_result_directory
from highwater.results.models import Manifest
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter
from highwater.studies.advise.agenda import AdviceAgenda, candidate_of, cell_of, expected_trial_s, history_of
from highwater.studies.advise.answering import concluded, nothing_found
from highwater.studies.advise.budget import Budget, divide
from highwater.studies.advise.confirming import confirmation_of
from highwater.studies.advise.question import Asked
from highwater.studies.advise.search import Standing, finalists, standing
from highwater.studies.advise.space import Candidate
from highwater.studies.advise.writing import write_settings

_QUESTION: Final = "question.json"
_MOST_FINALISTS: Final = {1: 1, 2: 3}

MakeAgenda = Callable[[ResultWriter], AdviceAgenda]


class Execute(Protocol):
    """Runs a plan and writes a result directory; with `make_agenda`, the trials that the agenda chooses."""

    def __call__(self, plan: Plan, out: Path, resume: bool, make_agenda: MakeAgenda | None, /) -> Manifest: ...


@dataclass(frozen=True)
class Advising:
    """A question with its budget and seed: all that the steps need."""

    asked: Asked
    budget: Budget
    seed: int

    @property
    def most_finalists(self) -> int:
        return _MOST_FINALISTS[len(self.asked.metrics)]

    def search_plan(self) -> Plan:
        """A plan of as many trials as the search may have, on the cells that the checks before a run must see."""
        workload = self.asked.workload_of(self.asked.in_use)
        storage = workload.storage.model_copy(update={"probe": False})  # the confirmation probes it
        base = Cell(BASE_CELL, {}, workload.model_copy(update={"storage": storage}))
        specification = Specification(self.asked.workload_file, base.workload, {}, [base])
        cells = [cell_of(self.asked, candidate) for candidate in self._seen_first()]
        trials = [
            planned_trial(number, cells[number % len(cells)], block=number, order=1)
            for number in range(1, max(self.budget.search_trials, len(cells)) + 1)
        ]
        return Plan(specification, self.seed, trials)

    def _seen_first(self) -> list[Candidate]:
        """The references, and each value of a setting of host or system, which may be impossible here."""
        found = list(self.asked.references)
        for place, setting in enumerate(self.asked.space.settings):
            if setting.key.startswith(("host.", "system.")):
                for value in setting.values:
                    changed = (*self.asked.in_use[:place], value, *self.asked.in_use[place + 1 :])
                    if self.asked.allows(changed):
                        found.append(changed)
        return list(dict.fromkeys(found))


def make_advising(asked: Asked, seed: int) -> Advising:
    """Divide the budget. Raises UsageError when it is too small."""
    fixed_s = 2 * RUN_OVERHEAD_S + 2 * PROBES_S
    cells = len(asked.references) + _MOST_FINALISTS[len(asked.metrics)]
    budget = divide(asked.question.budget_s, expected_trial_s(asked), fixed_s, cells, asked.where_of_budget)
    return Advising(asked, budget, seed)


def begin(asked: Asked, out: Path, seed: int) -> None:
    """Note the question in a new directory. Raises ResultDirectoryError when it is not empty."""
    ResultWriter(out)
    note = {"seed": seed, "question": asked.identity()}
    write_atomically(out / _QUESTION, json.dumps(note, indent=2, ensure_ascii=False) + "\n")


def seed_of(asked: Asked, out: Path) -> int:
    """The seed of the advice in `out`. Raises UsageError when there is none, or when it was asked something else."""
    try:
        note: dict[str, Any] = json.loads((out / _QUESTION).read_text("utf-8"))
        begun, seed = note["question"], int(note["seed"])
    except FileNotFoundError:
        raise UsageError(f"--resume: {out} holds no advice; begin one with --out {out}") from None
    except (ValueError, KeyError, TypeError):
        raise ResultDirectoryError(f"{out / _QUESTION}: is damaged; begin anew with --out") from None
    changed = next(differences(begun, json.loads(json.dumps(asked.identity()))), None)
    if changed is not None:
        key, before, now = changed
        raise UsageError(
            f"--resume: {out} was begun with {key}: {_given(before)}, and now it is {_given(now)}; give it the same "
            "question, or begin anew with --out"
        )
    return seed


def _given(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def advise(advising: Advising, out: Path, execute: Execute) -> tuple[Advice | None, Manifest]:
    """Run what is left, and write the answer. Returns None and the manifest of the run that was interrupted."""
    asked = advising.asked

    def make_agenda(writer: ResultWriter) -> AdviceAgenda:
        return AdviceAgenda(asked, advising.budget, advising.seed, writer)

    manifest = _run(execute, advising.search_plan(), out / SEARCH, make_agenda)
    if manifest.status != "done":
        return None, manifest
    outcomes = outcomes_of(RunResult(out / SEARCH))
    found = standing(asked.space, history_of(outcomes, asked), asked.in_use)
    account = account_of(asked, outcomes, found)
    chosen = finalists(found, asked.in_use, advising.most_finalists, asked.allows)
    if not chosen:
        advice = nothing_found(asked, found, account, str(out), now_utc())
        write_advice(out, advice)
        return advice, manifest
    confirmation = confirmation_of(asked, chosen, advising.budget, advising.seed)
    manifest = _run(execute, confirmation.plan, out / CONFIRMATION, None)
    if manifest.status != "done":
        return None, manifest
    summaries = [trial.summary for trial in RunResult(out / CONFIRMATION).trials]
    advice = concluded(asked, confirmation, summaries, account, str(out), now_utc())
    write_advice(out, advice)
    for option in advice.options:
        if option.better:
            folder = out / SETTINGS if len(asked.metrics) == 1 else out / SETTINGS / option.name
            write_settings(asked, confirmation.candidates[option.name], folder)
    return advice, manifest


def _run(execute: Execute, plan: Plan, directory: Path, make_agenda: MakeAgenda | None) -> Manifest:
    """Run the plan, or what is left of it."""
    begun = is_result_directory(directory)
    if begun and (manifest := RunResult(directory).manifest).status == "done":
        return manifest
    return execute(plan, directory, begun, make_agenda)


def outcomes_of(result: RunResult) -> list[TrialOutcome]:
    summaries = {trial.summary.trial_id: trial.summary for trial in result.trials}
    return [TrialOutcome(plan, summaries.get(plan.trial_id)) for plan in result.manifest.trials]


def account_of(asked: Asked, outcomes: Sequence[TrialOutcome], found: Standing) -> SearchAccount:
    history = history_of(outcomes, asked)
    return SearchAccount(
        candidates=sum(map(asked.space.has, {candidate_of(outcome.plan, asked) for outcome in outcomes})),
        trials=len(history),
        unusable_trials=sum(trial.costs is None for trial in history),
        blocks=max((trial.block for trial in history), default=0),
        combinations=asked.space.size,
        noise_ratio=found.aims[0].noise if found.aims else None,
    )
