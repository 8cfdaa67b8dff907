"""Synthetic response surfaces of settings, and the noise of trials on them. Pure, by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from highwater.studies.advise.space import Candidate, Setting, Space

KINDS: Final = ("additive", "interacting", "cliff", "few of many")

_SIZES: Final = (16, 16, 12, 7)
_CHOICES: Final = (4, 3)
_MANY: Final = (*_SIZES, 16, 8, 5, 2)


@dataclass(frozen=True, slots=True)
class Noise:
    """What is between a true cost and a measured one. All are logarithms.

    trial: standard deviation of a trial. drift: of the host from one trial to the next, as a random walk that forgets.
    disturbed: the share of trials to which something else adds `disturbance`.
    """

    name: str
    trial: float
    drift: float
    disturbed: float
    disturbance: float


@dataclass(slots=True)
class Host:
    """Measures candidates one after the other, with noise."""

    noise: Noise
    chance: random.Random
    _drift: float = 0.0

    def measure(self, cost: float) -> float:
        self._drift = 0.9 * self._drift + self.chance.gauss(0, self.noise.drift)
        hit = self.noise.disturbance if self.chance.random() < self.noise.disturbed else 0.0
        return cost + self._drift + self.chance.gauss(0, self.noise.trial) + hit


@dataclass(frozen=True)
class Surface:
    """A space with the true cost of each candidate."""

    space: Space
    in_use: Candidate
    defaults: Candidate
    weights: tuple[float, ...]
    optima: tuple[float, ...]
    levels: tuple[tuple[float, ...], ...]
    """Costs of the values of settings without an order; empty for the others."""
    shift: float
    """By how far the optimum of a setting moves with the setting before it."""
    cliff: float
    """What is added where the first setting is high and the second one low."""
    _best: list[float] = field(default_factory=list, repr=False)

    def cost(self, candidate: Candidate) -> float:
        places = self.space.indexes(candidate)
        shares = [index / (len(setting.values) - 1) for setting, index in zip(self.space.settings, places, strict=True)]
        total = self.cliff if shares[0] > 0.6 and shares[1] < 0.5 else 0.0
        for number, (weight, optimum, levels) in enumerate(zip(self.weights, self.optima, self.levels, strict=True)):
            if levels:
                total += weight * levels[places[number]]
            else:
                moved = optimum + self.shift * ((shares[number - 1] if number else 0.5) - 0.5)
                total += weight * 4 * (shares[number] - min(max(moved, 0.0), 1.0)) ** 2
        return total

    def best_cost(self) -> float:
        """The lowest cost, by descent from many candidates; the space is too large to try all."""
        if not self._best:
            chance = random.Random(1)
            starts = [drawn(self.space, chance) for _ in range(40)]
            self._best.append(min(self._descend(start) for start in [self.in_use, self.defaults, *starts]))
        return self._best[0]

    def _descend(self, candidate: Candidate) -> float:
        cost = self.cost(candidate)
        while True:
            found = min(
                (
                    (self.cost(changed), changed)
                    for place, setting in enumerate(self.space.settings)
                    for value in setting.values
                    if (changed := (*candidate[:place], value, *candidate[place + 1 :])) != candidate
                ),
                key=lambda item: item[0],
            )
            if found[0] >= cost:
                return cost
            cost, candidate = found


def drawn(space: Space, chance: random.Random) -> Candidate:
    return space.at([chance.randrange(len(setting.values)) for setting in space.settings])


def surface(kind: str, seed: int) -> Surface:
    """A surface of this kind: between its best and its worst candidates costs differ by a factor of two to five."""
    chance = random.Random(f"{kind} {seed}")
    sizes = _MANY if kind == "few of many" else _SIZES
    settings = [Setting(f"ordered-{n}", tuple(range(size)), ordered=True) for n, size in enumerate(sizes)]
    settings += [
        Setting(f"named-{n}", tuple(f"value-{value}" for value in range(size)), ordered=False)
        for n, size in enumerate(_CHOICES)
    ]
    raw = [chance.expovariate(1.0) for _ in settings]
    if kind == "few of many":
        kept = set(chance.sample(range(len(settings)), 3))
        raw = [weight + 0.5 if place in kept else 0.0 for place, weight in enumerate(raw)]
    whole = chance.uniform(0.8, 1.6) / sum(raw)
    space = Space(tuple(settings))
    levels = []
    for setting in settings:
        costs = [chance.random() for _ in setting.values]
        levels.append(() if setting.ordered else tuple(cost - min(costs) for cost in costs))
    return Surface(
        space=space,
        in_use=drawn(space, chance),
        defaults=drawn(space, chance),
        weights=tuple(weight * whole for weight in raw),
        optima=tuple(chance.random() for _ in settings),
        levels=tuple(levels),
        shift=1.0 if kind in ("interacting", "cliff") else 0.0,
        cliff=0.6 if kind == "cliff" else 0.0,
    )
