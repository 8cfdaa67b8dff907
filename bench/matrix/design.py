"""Which settings are on in which trial of a first look: a Plackett-Burman design and its mirror image. Pure.

Plackett and Burman, The Design of Optimum Multifactorial Experiments (Biometrika 33, 1946): in N trials each of N − 1
columns is on in half of them, and every two columns are on together, alone and not at all equally often. So each trial
informs about each setting. The second half has every trial of the first one mirrored, what was on is off (a foldover):
an effect that two settings have only together then adds nothing to what any single setting seems to do. Columns that no
setting takes are dummies: what they seem to do is noise.

The matrices are those of Paley (1933), from the quadratic residues of a prime. scipy's `hadamard` has powers of two
only, which take a third more trials for twenty settings.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

LEAST_DUMMIES: Final = 3
DUMMY: Final = "nothing "
"""Begins the name of a dummy; `nothing 1`."""
# A prime that leaves 3 when it is divided by 4, plus 1.
_ORDERS: Final = (12, 20, 24, 32, 44, 48, 60, 68, 72, 80, 84, 104, 108, 128)
MOST_SETTINGS: Final = _ORDERS[-1] - 1 - LEAST_DUMMIES

Row = tuple[str, ...]
"""The columns that are on in a trial: settings, and dummies."""


def is_dummy(name: str) -> bool:
    return name.startswith(DUMMY)


def screening_rows(settings: Sequence[str], excludes: Callable[[str, str], bool], seed: int) -> list[Row]:
    """The trials of a first look; the second half mirrors the first one.

    excludes: whether two settings cannot be on together. Where the design wants both on, one of them is, in turn.
    """
    order = next(n for n in _ORDERS if n > len(settings) + LEAST_DUMMIES)
    dummies = [f"{DUMMY}{number + 1}" for number in range(order - 1 - len(settings))]
    columns = [*settings, *dummies]
    random.Random(seed).shuffle(columns)
    half = _plackett_burman(order)
    wanted = [
        [name for name, on in zip(columns, row, strict=True) if on] for row in np.concatenate([half, ~half]).tolist()
    ]
    return [tuple(sorted(_possible(names, excludes, turn), key=columns.index)) for turn, names in enumerate(wanted)]


def _possible(names: Sequence[str], excludes: Callable[[str, str], bool], turn: int) -> Iterator[str]:
    """The names without those that another one excludes; which one stays changes with the turn."""
    kept: list[str] = []
    for name in names[:: 1 if turn % 2 else -1]:
        if not any(excludes(name, other) or excludes(other, name) for other in kept):
            kept.append(name)
            yield name


def _plackett_burman(order: int) -> NDArray[np.bool_]:
    """One row for each trial, one column less; on or off."""
    prime = order - 1
    residues = {number * number % prime for number in range(prime)}
    first = np.array([number in residues for number in range(prime)])
    return np.vstack([*(np.roll(first, shift) for shift in range(prime)), np.zeros(prime, bool)])
