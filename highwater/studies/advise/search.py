"""The search of an advisor: what the next block measures, and what is worth confirming. Pure.

A history of trials in, the next block out, so a search can be stopped and resumed anywhere. Each block holds

    the references    the settings in use and the defaults: what candidates are compared with, in the same block
    the leaders       candidates that are not surely worse than the best one
    new candidates    from Optuna's TPE and close to the leaders (`proposing`)

A candidate is dropped once it is surely worse: its cost exceeds that of the best one by more than the noise of as many
trials allows. The last block has no new candidates, so that the choice between the leaders rests on several trials.
An unusable trial gives no score, and its candidate is not measured again.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from highwater.studies.advise.estimating import Estimates, Observation, estimate
from highwater.studies.advise.proposing import propose
from highwater.studies.advise.space import Candidate, Space
from highwater.studies.advise.surrogate import Surrogate, fit

BLOCK_TRIALS: Final = 8
"""Trials of one block, without an A/A twin."""
TWIN_BLOCKS: Final = 3
"""Blocks with an A/A twin: as many as a bound of the noise needs."""
LEAST_BLOCKS: Final = 4
"""A search of fewer blocks would end before it had learnt anything."""
_LEADERS: Final = 2
# Until so many candidates are known, new ones are drawn at random: nothing is learnt from fewer.
_STARTUP: Final = 6
_LAST_BLOCKS: Final = 1
# One-sided, 95 %.
_SURELY: Final = 1.64
# A violated bound costs this much more than the same ratio of an aim, and this at least.
_PENALTY: Final = 3.0
_LEAST_PENALTY: Final = 0.1


@dataclass(frozen=True, slots=True)
class TrialOfSearch:
    """One finished trial.

    costs: of each aim, as a logarithm, lower is better; None if the trial cannot be used. excesses: of each bounded
    metric, the logarithm of its ratio to the bound; above 0 is a violation. twin: the second trial of an A/A pair.
    """

    candidate: Candidate
    block: int
    costs: tuple[float, ...] | None
    excesses: tuple[float, ...] = ()
    twin: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The trials of one block in their order; `twin` runs twice, one after the other."""

    number: int
    candidates: tuple[Candidate, ...]
    twin: Candidate | None


@dataclass(frozen=True)
class Standing:
    """What the trials so far say. Scores are costs against the settings in use, with penalties for violated bounds."""

    aims: Sequence[Estimates]
    excesses: Mapping[Candidate, tuple[float, ...]]
    scores: Mapping[Candidate, tuple[float, ...]]
    promise: Mapping[Candidate, tuple[float, ...]]
    """Scores, corrected by what is known of similar candidates: a single lucky trial does not make the best one."""
    unusable: frozenset[Candidate]
    """Candidates of which no trial can be used."""
    attempts: Mapping[Candidate, int]
    """Trials of each candidate, A/A twins excluded."""
    surrogates: Sequence[Surrogate] = ()
    """One of each aim; none while too little is known."""

    def keeps_bounds(self, candidate: Candidate) -> bool:
        return all(excess <= 0 for excess in self.excesses[candidate])

    def trials(self, candidate: Candidate) -> int:
        return self.aims[0].trials[candidate]

    def error(self, candidate: Candidate, other: Candidate, aim: int = 0) -> float:
        return self.aims[aim].difference(candidate, other)[1]

    def surely_worse(self, candidate: Candidate, than: Candidate) -> bool:
        """Whether it is surely worse in every aim. Few good trials of a candidate that mostly fails prove nothing."""
        return 2 * self.trials(than) > self.attempts[than] and all(
            self.scores[candidate][aim] - self.scores[than][aim] > _SURELY * self.error(candidate, than, aim)
            for aim in range(len(self.aims))
        )

    def leaders(self) -> list[Candidate]:
        """Candidates that no other one is surely better than, the most promising first."""
        return sorted(
            (one for one in self.scores if not any(self.surely_worse(one, other) for other in self.scores)),
            key=lambda candidate: min(self.promise[candidate]),
        )


def standing(space: Space, history: Sequence[TrialOfSearch], in_use: Candidate) -> Standing:
    """Assess the history. in_use: the reference that scores are relative to, if one of its trials can be used."""
    aims = max((len(trial.costs) for trial in history if trial.costs is not None), default=0)
    excesses: dict[Candidate, list[tuple[float, ...]]] = defaultdict(list)
    for trial in history:
        if trial.costs is not None:
            excesses[trial.candidate].append(trial.excesses)
    means = {candidate: tuple(map(mean, zip(*found, strict=True))) for candidate, found in excesses.items()}
    fits = [
        estimate(
            [
                Observation(trial.candidate, trial.block, trial.costs[aim])
                for trial in history
                if trial.costs is not None and not trial.twin
            ],
            _twin_differences(history, aim),
        )
        for aim in range(aims)
    ]
    known = list(fits[0].costs) if fits else []
    base = in_use if in_use in known else known[0] if known else None
    scores = {
        candidate: tuple(
            fit.costs[candidate] - (fit.costs[base] if base is not None else 0.0) + _penalty(means[candidate])
            for fit in fits
        )
        for candidate in known
    }
    attempts = Counter(trial.candidate for trial in history if not trial.twin)
    surrogates = _surrogates(space, fits, scores)
    promise = _promise(space, surrogates, scores)
    return Standing(fits, means, scores, promise, frozenset(attempts.keys() - set(known)), attempts, surrogates)


def _surrogates(
    space: Space, fits: Sequence[Estimates], scores: Mapping[Candidate, tuple[float, ...]]
) -> list[Surrogate]:
    """One of each aim, fitted to the scores of candidates in the space; none if there are too few."""
    inside = [candidate for candidate in scores if space.has(candidate)]
    if len(inside) < _STARTUP:
        return []
    return [
        fit(
            space,
            {candidate: scores[candidate][aim] for candidate in inside},
            {candidate: one.noise / one.trials[candidate] ** 0.5 for candidate in inside},
            aim,
        )
        for aim, one in enumerate(fits)
    ]


def _promise(
    space: Space, surrogates: Sequence[Surrogate], scores: Mapping[Candidate, tuple[float, ...]]
) -> dict[Candidate, tuple[float, ...]]:
    """The scores as the surrogates see them; of candidates outside of the space as they are."""
    inside = [candidate for candidate in scores if space.has(candidate)]
    if not surrogates:
        return dict(scores)
    seen = [surrogate.predict(inside)[0] for surrogate in surrogates]
    corrected = {candidate: tuple(float(one[place]) for one in seen) for place, candidate in enumerate(inside)}
    return dict(scores) | corrected


def next_block(
    space: Space,
    references: Sequence[Candidate],
    history: Sequence[TrialOfSearch],
    trials_left: int,
    seed: int,
    allows: Callable[[Candidate], bool] = lambda _: True,
) -> Block | None:
    """The next block; None when the search is over.

    references: the settings in use, and the defaults if they differ. history: trials of all earlier blocks.
    trials_left: how many trials there is time for. allows: whether a candidate can be run at all.
    """
    number = 1 + max((trial.block for trial in history), default=0)
    if trials_left < min(BLOCK_TRIALS, len(references) + 1):
        return None
    found = standing(space, history, references[0])
    room = min(BLOCK_TRIALS, trials_left) - len(references)
    leaders = [candidate for candidate in found.leaders() if candidate not in references]
    last = trials_left < (_LAST_BLOCKS + 1) * BLOCK_TRIALS and bool(leaders)
    kept = leaders[: room if last else min(_LEADERS, room - 1)]
    known = {trial.candidate for trial in history} | set(references)
    fresh: list[Candidate] = []
    if not last:
        best = kept or [candidate for candidate in references if candidate in found.scores]
        fresh = propose(
            space, found.scores, found.surrogates, best, known, room - len(kept), _seed(seed, number), allows
        )
        if not fresh:
            kept = leaders[:room]
            if not kept or min(map(found.trials, kept)) >= LEAST_BLOCKS:
                return None  # every candidate was measured, and the leaders several times
    order = [*references, *kept, *fresh]
    random.Random(_seed(seed, -number)).shuffle(order)
    twin = references[(number - 1) % len(references)] if number <= TWIN_BLOCKS else None
    return Block(number, tuple(order), twin)


def finalists(
    found: Standing, in_use: Candidate, most: int, allows: Callable[[Candidate], bool] = lambda _: True
) -> list[Candidate]:
    """The candidates to confirm, the best first: they keep all bounds and may be better than the settings in use.

    With one aim it is one; with several it is a front, of which none is better than another in every aim. allows:
    whether a candidate may be advised; the defaults are measured even if they may not.
    """
    able = [
        candidate
        for candidate in found.scores
        if candidate != in_use
        and allows(candidate)
        and found.keeps_bounds(candidate)
        and not _surely_no_better(found, candidate, in_use)
    ]
    if not able:
        return []

    def cautious(candidate: Candidate, aim: int = 0) -> float:
        return found.promise[candidate][aim]

    if len(found.aims) == 1:
        return sorted(able, key=cautious)[:1]
    front = [
        one
        for one in able
        if not any(
            all(cautious(other, aim) < cautious(one, aim) for aim in range(len(found.aims)))
            for other in able
            if other != one
        )
    ]
    ends = [min(front, key=lambda candidate, aim=aim: cautious(candidate, aim)) for aim in range(len(found.aims))]  # type: ignore[misc]
    middle = sorted(front, key=lambda candidate: sum(cautious(candidate, aim) for aim in range(len(found.aims))))
    return list(dict.fromkeys([*ends, *middle]))[:most]


def _surely_no_better(found: Standing, candidate: Candidate, in_use: Candidate) -> bool:
    return in_use in found.scores and found.keeps_bounds(in_use) and found.surely_worse(candidate, in_use)


def _penalty(excesses: Sequence[float]) -> float:
    violated = [excess for excess in excesses if excess > 0]
    return _LEAST_PENALTY + _PENALTY * sum(violated) if violated else 0.0


def _twin_differences(history: Sequence[TrialOfSearch], aim: int) -> list[float]:
    first = {
        (trial.candidate, trial.block): trial.costs[aim]
        for trial in history
        if trial.costs is not None and not trial.twin
    }
    return [
        trial.costs[aim] - first[trial.candidate, trial.block]
        for trial in history
        if trial.twin and trial.costs is not None and (trial.candidate, trial.block) in first
    ]


def _seed(seed: int, number: int) -> int:
    return (seed * 1_000_003 + number * 7919) % 2**63
