"""Named sets of values for knobs: what the shipped ones want, what one knob by itself wants, and the knobs they make.

A profile's own value reaches planning as the knob with another formula: nothing else needs to know of profiles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ..catalogue import KNOBS, find_knob
from ..errors import TuningError, nearest_match
from ..formulas.common import constant
from ..model import Knob, Mechanism, Value
from ..quantities import format_value, parse_value
from .model import Profile, Wish
from .shipped import PROFILES

__all__ = [
    "PROFILES",
    "PROFILE_NAMES",
    "Profile",
    "Wish",
    "ad_hoc",
    "find_profile",
    "knobs_of",
    "temporary_knobs",
    "wishes_of",
]

PROFILE_NAMES: Final = tuple(profile.name for profile in PROFILES)
AS_RECOMMENDED: Final = "recommended"
"""What a person writes for a knob's value to mean the catalogue's."""

_BY_NAME: Final = {name: profile for profile in PROFILES for name in (profile.name, *profile.aliases)}
_NOT_TEMPORARY: Final[dict[Mechanism, str]] = {
    "swap": "what is swapped out has to be read back before swap is off, and that is no moment's work",
    "unit": "a service unit takes it when it starts",
    "login": "a login takes it when it begins",
    "advice": "it is checked and explained, never changed",
}


def find_profile(name: str) -> Profile:
    """Raises TuningError for a name that there is none of."""
    if name not in _BY_NAME:
        known = ", ".join(PROFILE_NAMES)
        raise TuningError(f"no host profile is called {name!r}{nearest_match(name, _BY_NAME)} (known: {known})")
    return _BY_NAME[name]


def ad_hoc(settings: Mapping[str, str], over: str | None = None) -> Profile:
    """A profile of single knobs that can be put in force for a while, laid over the profile named `over`.

    settings: knob id to a value with or without its unit, or to `recommended`. Raises TuningError for an unknown knob
    or profile, for a knob that cannot be changed for a while, and for a value that is none.
    """
    wishes = {}
    for knob_id, text in settings.items():
        knob = find_knob(knob_id)
        if (why_not := _NOT_TEMPORARY.get(knob.mechanism)) is not None:
            raise TuningError(f"{knob_id} cannot be set for a while: {why_not}")
        value = None if text == AS_RECOMMENDED else _parse(knob, text)
        wishes[knob_id] = Wish(value, "set by itself")
    name = "settings" if over is None else f"{find_profile(over).name}+settings"
    return Profile(name, "single settings", wishes, extends=over)


def wishes_of(profile: Profile) -> dict[str, Wish]:
    """What the profile and those it extends want, each knob once; without what `everything` adds."""
    wishes: dict[str, Wish] = {}
    for each in _lineage(profile):
        wishes |= each.wishes
    return wishes


def knobs_of(profile: Profile, knobs: Iterable[Knob] = KNOBS) -> tuple[Knob, ...]:
    """Those of `knobs` that the profile wants something of, each with the profile's value for its formula."""
    wishes = wishes_of(profile)
    everything = any(each.everything for each in _lineage(profile))
    return tuple(_with(wishes.get(knob.id), knob, profile) for knob in knobs if everything or knob.id in wishes)


def temporary_knobs(knobs: Iterable[Knob]) -> tuple[Knob, ...]:
    """Those that can be set for a while and taken back without anybody's restart."""
    return tuple(knob for knob in knobs if knob.mechanism not in _NOT_TEMPORARY)


def _lineage(profile: Profile) -> Iterator[Profile]:
    """From the one at the bottom to the profile itself."""
    if profile.extends is not None:
        yield from _lineage(find_profile(profile.extends))
    yield profile


def _with(wish: Wish | None, knob: Knob, profile: Profile) -> Knob:
    """Whoever names the profile has named what it wants by itself: such a knob is not left alone any more."""
    if wish is None:
        return knob
    named = dataclasses.replace(knob, only_if_named="")
    if wish.value is None:
        return named
    text = f"{format_value(wish.value, knob.unit)} (profile {profile.name})"
    return dataclasses.replace(named, recommend=constant(wish.value, text), comparison=wish.comparison)


def _parse(knob: Knob, text: str) -> Value:
    try:
        return parse_value(text, knob.unit)
    except TuningError as error:
        raise TuningError(f"{knob.id}: {error}") from None
