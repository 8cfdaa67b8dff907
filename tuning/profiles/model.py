"""The host profile as data: a value for each knob that it sets, and the profile that it extends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Comparison, Value


@dataclass(frozen=True)
class Wish:
    """A profile's value for a knob, or None for the value that the catalogue recommends.

    comparison: `equal` sets exactly the value; `at_least` only raises, `at_most` only lowers.
    where_present: a host without this knob is not an error.
    """

    value: Value | None
    reason: str = ""
    comparison: Comparison = "equal"
    where_present: bool = False


@dataclass(frozen=True)
class Profile:
    """A named set of wishes. `extends` names the profile whose wishes apply to all other knobs.

    everything: set every other knob of the catalogue to its recommendation, except trades, which have to be named.
    """

    name: str
    purpose: str
    wishes: Mapping[str, Wish] = field(default_factory=dict)
    extends: str | None = None
    everything: bool = False
    aliases: tuple[str, ...] = ()
