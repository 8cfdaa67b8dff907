"""Bounds on metrics, as people write them: `<20ms`, `>=49k/s`, `==0`, `<=1%`.

A bound has a unit, so that `produce.p99 < 49k/s` is refused instead of compared.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from highwater.common.quantities import BYTE_RATE, COUNT, DURATION, PERCENT, RATE, SIZE, Quantity
from highwater.common.units import NANOSECONDS

Comparison = Literal["<", "<=", ">", ">=", "=="]
Unit = Literal["ns", "s", "per_s", "bytes_per_s", "bytes", "ratio", ""]

_COMPARE: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
_SIGNS: Final = {"<=": "≤", ">=": "≥", "==": "="}
# Unit of a metric -> units that a bound on it may have, and an example. Ratios may be plain numbers.
_COMPARABLE: Final[dict[str, tuple[tuple[Unit, ...], str]]] = {
    "ns": (("ns",), "<20ms"),
    "per_s": (("per_s",), ">=49k/s"),
    "bytes_per_s": (("bytes_per_s",), ">=100MiB/s"),
    "bytes": (("bytes",), "<1GiB"),
    "ratio": (("ratio", ""), "<=1%"),
    "records": (("",), "==0"),
    "s": (("ns",), "<30s"),
    "s_per_gib": (("",), "<2.5"),
}
_KINDS: Final[tuple[tuple[Quantity, Unit], ...]] = (
    (DURATION, "ns"),
    (RATE, "per_s"),
    (SIZE, "bytes"),
    (BYTE_RATE, "bytes_per_s"),
    (PERCENT, "ratio"),
    (COUNT, ""),
)
_UNITS: Final = "|".join(unit for kind, _ in _KINDS for unit in kind.units)
BOUND_PATTERN: Final = rf"^(<=|>=|==|<|>) ?\d+(\.\d+)? ?({_UNITS})$"
BOUND_FORM: Final = "a comparison with a value and its unit, for example <20ms, >=49k/s, <=1% or ==0"


@dataclass(frozen=True, slots=True)
class Bound:
    """`comparison` against `value`, which is in `unit` (empty: a plain number). `text` is the bound as written."""

    comparison: Comparison
    value: float
    unit: Unit
    text: str

    def met(self, value: float) -> bool:
        """value: in the unit of the bound."""
        return bool(_COMPARE[self.comparison](value, self.value))

    def for_unit(self, unit: str) -> Bound:
        """Returns the bound for metrics of this unit (`highwater.results.metrics`).

        Raises ValueError if the units differ.
        """
        comparable, example = _COMPARABLE[unit]
        if self.unit not in comparable:
            raise ValueError(f"{self.text!r} does not have the unit of this metric, for example {example}")
        return replace(self, value=self.value / NANOSECONDS["s"], unit="s") if unit == "s" else self

    def __str__(self) -> str:
        return self.text


def parse_bound(value: object) -> Bound:
    """`<20ms` -> Bound("<", 20000000, "ns", "<20ms"). Raises ValueError that says what was expected."""
    if isinstance(value, Bound):
        return value
    match = re.fullmatch(r"(<=|>=|==|<|>)(.+)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {BOUND_FORM}")
    amount, unit = _amount(match[2].strip())
    if unit is None:
        raise ValueError(f"{value!r} is not {BOUND_FORM}")
    comparison: Comparison = match[1]  # type: ignore[assignment]  # the pattern has these only
    return Bound(comparison, amount, unit, f"{match[1]}{match[2].strip()}")


def bound_text(bound: object) -> str:
    """A bound for people to read: `<20ms` -> `< 20 ms`, `>=49k/s` -> `≥ 49k/s`, `==0` -> `= 0`."""
    found = re.fullmatch(r"(<=|>=|==|<|>) ?([\d.]++) ?(.*)", str(bound))
    if found is None:
        return str(bound)
    comparison, amount, unit = found.groups()
    return f"{_SIGNS.get(comparison, comparison)} {amount}{' ' if unit and '/' not in unit else ''}{unit}"


def _amount(text: str) -> tuple[float, Unit | None]:
    return next(
        ((float(value), unit) for kind, unit in _KINDS if (value := kind.amount(text)) is not None), (0.0, None)
    )
