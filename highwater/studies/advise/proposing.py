"""New candidates from what is known of others: proposed by Optuna, ranked by a Gaussian process.

The pool has candidates of Optuna's TPE, small changes of the best ones, and random ones. Of these, the Gaussian process
(`surrogate`) chooses those of which most improvement is to be expected: it knows the noise of each score, which TPE
does not. Pure: the study is made anew from the scores at each call, so the same scores and seed give the same
candidates, and a search that is resumed goes on as it would have.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from highwater.studies.advise.space import Candidate, Space
from highwater.studies.advise.surrogate import Surrogate, expected_improvement

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_POOL: Final = 100
_POOL_OF_OPTUNA: Final = 8
_ATTEMPTS: Final = 16
_ENUMERATED: Final = 4096


def propose(
    space: Space,
    scores: Mapping[Candidate, Sequence[float]],
    surrogates: Sequence[Surrogate],
    best: Sequence[Candidate],
    known: Collection[Candidate],
    count: int,
    seed: int,
    allows: Callable[[Candidate], bool],
) -> list[Candidate]:
    """Up to `count` candidates of the space that are not in `known`; fewer when all are known.

    scores: what is known, one number for each aim, lower is better. surrogates: one of each aim; none while too little
    is known, and candidates are then drawn. best: the candidates to change a little. known: candidates that are not
    proposed again, also those without a score. allows: whether a candidate can be run at all.
    """
    chance = random.Random(seed)
    told = {candidate: values for candidate, values in scores.items() if space.has(candidate)}
    taken = set(known)
    found: list[Candidate] = []

    def take(candidate: Candidate) -> None:
        if candidate not in taken:
            taken.add(candidate)
            if allows(candidate):
                found.append(candidate)

    if surrogates:
        near = [candidate for candidate in best if space.has(candidate)] or list(told)
        pool = [
            *_by_optuna(space, told, _POOL_OF_OPTUNA, seed),
            *(_changed(space, chance.choice(near), chance) for _ in range(_POOL)),
            *(_drawn(space, chance) for _ in range(_POOL)),
        ]
        new = [candidate for candidate in dict.fromkeys(pool) if candidate not in taken]
        for candidate in _ranked(surrogates, new, count, seed):
            if len(found) < count:
                take(candidate)
    for _ in range(_ATTEMPTS * count):
        if len(found) >= count:
            break
        take(_drawn(space, chance))
    if len(found) < count and space.size <= _ENUMERATED:
        left = list(space.everything())
        chance.shuffle(left)
        for candidate in left:
            if len(found) >= count:
                break
            take(candidate)
    return found


def _ranked(surrogates: Sequence[Surrogate], pool: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """The candidates of the pool that are most worth a trial, the best first.

    The more a trial of one predicts of another, the less the other one is worth, so that they do not crowd together.
    With several aims, each pick supposes other weights of them.
    """
    chance = random.Random(seed)
    predicted = [surrogate.predict(pool) for surrogate in surrogates]
    worth = np.ones(len(pool))
    chosen: list[Candidate] = []
    for _ in range(min(2 * count, len(pool))):
        shares = [chance.random() + 0.05 if len(surrogates) > 1 else 1.0 for _ in surrogates]
        mean = sum(share * mean for share, (mean, _) in zip(shares, predicted, strict=True))
        variance = sum((share * deviation) ** 2 for share, (_, deviation) in zip(shares, predicted, strict=True))
        below = sum(share * one.lowest for share, one in zip(shares, surrogates, strict=True))
        expected = expected_improvement(np.asarray(mean), np.sqrt(variance), below)
        best = pool[int((worth * expected).argmax())]
        chosen.append(best)
        likeness = np.max([surrogate.likeness(best, pool) for surrogate in surrogates], axis=0)
        worth *= np.clip(1 - likeness, 0.0, 1.0)
    return list(dict.fromkeys(chosen))


def _drawn(space: Space, chance: random.Random) -> Candidate:
    return space.at([chance.randrange(len(setting.values)) for setting in space.settings])


def _changed(space: Space, candidate: Candidate, chance: random.Random) -> Candidate:
    """The candidate with one setting changed, or two: to a value close by where values have an order."""
    indexes = list(space.indexes(candidate))
    movable = [place for place, setting in enumerate(space.settings) if len(setting.values) > 1]
    for place in chance.sample(movable, min(len(movable), chance.choice((1, 1, 2)))):
        setting = space.settings[place]
        if setting.ordered:
            reach = max(1, len(setting.values) // 4)
            low, high = max(0, indexes[place] - reach), min(len(setting.values) - 1, indexes[place] + reach)
            indexes[place] = chance.choice([index for index in range(low, high + 1) if index != indexes[place]])
        else:
            indexes[place] = chance.choice([n for n in range(len(setting.values)) if n != indexes[place]])
    return space.at(indexes)


def _by_optuna(space: Space, told: Mapping[Candidate, Sequence[float]], count: int, seed: int) -> list[Candidate]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions: dict[str, BaseDistribution] = {
        setting.key: optuna.distributions.IntDistribution(0, len(setting.values) - 1)
        if setting.ordered
        else optuna.distributions.CategoricalDistribution(range(len(setting.values)))
        for setting in space.settings
    }
    aims = len(next(iter(told.values())))
    sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=0)
    study = optuna.create_study(sampler=sampler, directions=["minimize"] * aims)
    for candidate, values in told.items():
        places = dict(zip(space.keys, space.indexes(candidate), strict=True))
        study.add_trial(optuna.create_trial(values=list(values), params=dict(places), distributions=distributions))
    asked = [study.ask(distributions) for _ in range(count)]
    return [space.at([trial.params[key] for key in space.keys]) for trial in asked]
