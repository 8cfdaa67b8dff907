"""What a profile is: what it wants of knobs, by their ids, and which profile it is laid over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Comparison, Value


@dataclass(frozen=True)
class Wish:
    """A value for a knob, or None for the one that the catalogue recommends on the host at hand.

    comparison: `equal` sets exactly the value; `at_least` only ever raises, `at_most` only ever lowers.
    where_present: a host that has no such knob does without it.
    """

    value: Value | None
    reason: str = ""
    comparison: Comparison = "equal"
    where_present: bool = False


@dataclass(frozen=True)
class Profile:
    """A name for wishes. `extends` names the profile whose wishes hold where this one has none of its own.

    everything: every other knob of the catalogue as it is recommended, but for trades, which have to be named.
    """

    name: str
    purpose: str
    wishes: Mapping[str, Wish] = field(default_factory=dict)
    extends: str | None = None
    everything: bool = False
    aliases: tuple[str, ...] = ()
