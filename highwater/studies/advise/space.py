"""The settings that an advisor may touch, and candidates: one value of each setting. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from highwater.bench.workload.client_properties import as_text
from highwater.bench.workload.values import Scalar
from highwater.common.quantities import SIZE, format_size

# With a trial-to-trial noise of some per cent, more values of one range cannot be distinguished.
MOST_VALUES_OF_A_RANGE: Final = 16
# A range whose ends differ by more than this factor is divided in equal ratios.
_RATIO_FOR_RATIOS: Final = 8
DEFAULT: Final = "default"
"""The value of a setting that is not set: what the system does by itself."""

Candidate = tuple[Scalar | None, ...]
"""A value of each setting, in the order of the space; None where it is not set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of a workload file that may be touched, and the values that it may have."""

    key: str
    values: tuple[Scalar, ...]
    ordered: bool
    """Whether neighbouring values are similar: numbers and sizes, from the smallest on."""


@dataclass(frozen=True, slots=True)
class Space:
    settings: tuple[Setting, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(setting.key for setting in self.settings)

    @property
    def size(self) -> int:
        return math.prod(len(setting.values) for setting in self.settings)

    def has(self, candidate: Candidate) -> bool:
        return all(value in setting.values for setting, value in zip(self.settings, candidate, strict=True))

    def indexes(self, candidate: Candidate) -> tuple[int, ...]:
        """The place of each value among the values of its setting; the candidate must be in the space."""
        found = []
        for setting, value in zip(self.settings, candidate, strict=True):
            assert value is not None
            found.append(setting.values.index(value))
        return tuple(found)

    def at(self, indexes: Sequence[int]) -> Candidate:
        return tuple(setting.values[index] for setting, index in zip(self.settings, indexes, strict=True))

    def everything(self) -> Iterator[Candidate]:
        return iter(product(*(setting.values for setting in self.settings)))


def setting_of_list(key: str, values: Sequence[Scalar], in_use: Scalar | None) -> Setting:
    """A setting of listed values, and of the one in use, so that it can be left alone."""
    wanted = list(dict.fromkeys(values))
    if in_use is not None and spell(in_use) not in map(spell, wanted):
        wanted.append(in_use)
    amounts = [amount_of(value) for value in wanted]
    known = [amount for amount in amounts if amount is not None]
    if len(known) < len(wanted):
        return Setting(key, tuple(wanted), ordered=False)
    return Setting(key, tuple(value for _, value in sorted(zip(known, wanted, strict=True))), ordered=True)


def setting_of_range(key: str, low: Scalar, high: Scalar, in_use: Scalar | None) -> Setting:
    """A setting of a range of whole numbers or sizes. Raises ValueError for ends that make no range."""
    if is_size(low) != is_size(high):
        raise ValueError(f"{low!r} and {high!r} do not have the same unit")
    first, last = amount_of(low), amount_of(high)
    if first is None or last is None or first != int(first) or last != int(last):
        raise ValueError("a range has two whole numbers or two sizes, such as {from: 1, to: 8}; list other values")
    if first >= last:
        raise ValueError(f"from {low} to {high} is not a range: from must be below to")
    amounts = _grid(int(first), int(last))
    values: list[Scalar] = [format_size(amount) for amount in amounts] if is_size(low) else list(amounts)
    return setting_of_list(key, values, in_use)


def is_size(value: Scalar | None) -> bool:
    """Whether it is written as a size with its unit."""
    try:
        SIZE.integer(value)
    except ValueError:
        return False
    return True


def amount_of(value: Scalar | None) -> float | None:
    """The value as a number, sizes in bytes; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    if is_size(value):
        return float(SIZE.integer(value))
    try:
        return float(value)
    except ValueError:
        return None


def spell(value: Scalar | None) -> str:
    """The value as a workload file has it."""
    return DEFAULT if value is None else as_text(value)


def _grid(first: int, last: int) -> list[int]:
    """Up to MOST_VALUES_OF_A_RANGE whole numbers from `first` to `last`: in equal ratios if these are far apart."""
    if last - first < MOST_VALUES_OF_A_RANGE:
        return list(range(first, last + 1))
    steps = MOST_VALUES_OF_A_RANGE - 1
    least = max(first, 1)
    if last / least < _RATIO_FOR_RATIOS:
        return [round(first + (last - first) * step / steps) for step in range(steps + 1)]
    doublings = math.log2(last / least)
    if doublings == int(doublings) and doublings < steps:
        amounts = [least << step for step in range(int(doublings) + 1)]
    else:
        amounts = [round(least * (last / least) ** (step / steps)) for step in range(steps + 1)]
    return sorted({first, *amounts, last})
