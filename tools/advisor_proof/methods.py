"""Ways to look for the best settings: the advisor's, and what people do instead."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import mean
from typing import Final

from highwater.studies.advise.search import TrialOfSearch, finalists, next_block, standing
from highwater.studies.advise.space import Candidate
from tools.advisor_proof.surfaces import Host, Surface, drawn

Method = Callable[[Surface, Host, int, int], Candidate]
"""(surface, host, trials, seed) -> the candidate that it would advise."""

# Of a range, one factor at a time tries so many values: all sixteen would take the whole budget for two settings.
_VALUES_OF_A_FACTOR: Final = 5


def advisor(surface: Surface, host: Host, trials: int, seed: int) -> Candidate:
    """The search of `highwater advise`; the trials of references and twins count."""
    references = [surface.in_use, surface.defaults]
    history: list[TrialOfSearch] = []
    left = trials
    while (block := next_block(surface.space, references, history, left, seed)) is not None:
        for candidate in block.candidates:
            for twin in (False, True) if candidate == block.twin else (False,):
                cost = host.measure(surface.cost(candidate))
                history.append(TrialOfSearch(candidate, block.number, (cost,), twin=twin))
                left -= 1
    chosen = finalists(standing(surface.space, history, surface.in_use), surface.in_use, 1)
    return chosen[0] if chosen else surface.in_use


def random_once(surface: Surface, host: Host, trials: int, seed: int) -> Candidate:
    """Random candidates with one trial each; the one that measured best."""
    return _random(surface, host, trials, seed, 1)


def random_thrice(surface: Surface, host: Host, trials: int, seed: int) -> Candidate:
    """Random candidates with three trials each; the one with the best mean."""
    return _random(surface, host, trials, seed, 3)


def _random(surface: Surface, host: Host, trials: int, seed: int, each: int) -> Candidate:
    chance = random.Random(seed)
    candidates = [surface.in_use, *(drawn(surface.space, chance) for _ in range(trials // each - 1))]
    measured = {candidate: mean(host.measure(surface.cost(candidate)) for _ in range(each)) for candidate in candidates}
    return min(measured, key=measured.__getitem__)


def one_factor_at_a_time(surface: Surface, host: Host, trials: int, seed: int) -> Candidate:
    """From the settings in use: the values of one setting with two trials each, keep the best, then the next setting.

    It goes round again while trials are left. The order of the settings is drawn, as nobody knows which matter.
    """
    chance = random.Random(seed)
    order = list(range(len(surface.space.settings)))
    chance.shuffle(order)
    current, left = surface.in_use, trials
    while True:
        for place in order:
            values = list(surface.space.settings[place].values)
            if len(values) > _VALUES_OF_A_FACTOR:
                steps = _VALUES_OF_A_FACTOR - 1
                values = [values[round(step * (len(values) - 1) / steps)] for step in range(steps + 1)]
            tried = list(
                dict.fromkeys([current, *((*current[:place], value, *current[place + 1 :]) for value in values)])
            )
            if left < 2 * len(tried):
                return current
            left -= 2 * len(tried)
            measured = {one: mean(host.measure(surface.cost(one)) for _ in range(2)) for one in tried}
            current = min(measured, key=measured.__getitem__)


METHODS: Final[dict[str, Method]] = {
    "advisor": advisor,
    "random, one trial each": random_once,
    "random, three trials each": random_thrice,
    "one factor at a time": one_factor_at_a_time,
}
