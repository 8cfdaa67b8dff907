"""Numbers and words of a report: ticks, intervals, recorded values, plurals."""

from __future__ import annotations

from typing import Final

from highwater.common.units import BINARY_BYTES, NONE, exact_text, unit_for

NS_PER_US: Final = 1e3
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9
BYTES_PER_MIB: Final = 1 << 20


def interval_text(value: str, low: str, high: str) -> str:
    """Two ends in brackets, their unit left out where it is the one of the value above."""
    (_, unit), *ends = (_split(text) for text in (value, low, high))
    if all(end_unit == unit for _, end_unit in ends):
        return f"[{ends[0][0]}, {ends[1][0]}]"
    return f"[{low}, {high}]"


def _split(text: str) -> tuple[str, str]:
    number = text.rstrip("/µ%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    return number, text[len(number) :]


def scalar_words(value: str | float | bool | None) -> str:
    """A recorded value as it is, with words for what has no figure."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else exact_text(value)


def as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def drawn_unit(unit: str, largest: float) -> tuple[str, float]:
    """The unit on an axis, and what values in `unit` are divided by: `B/s` gets a prefix, other units stay."""
    if not unit.startswith("B"):
        return unit, 1.0
    prefix, size = unit_for(largest, BINARY_BYTES)
    return prefix + unit[1:], float(size)
