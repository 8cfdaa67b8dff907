"""Host profiles: named sets of knob values, and the knobs with these values as their formulas.

Planning receives a profile's value as a knob with another formula, so that no other module has to know profiles.
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

PROFILE_NAMES: Final = tuple(profile.name for profile in PROFILES)
AS_RECOMMENDED: Final = "recommended"
"""The word that stands for the catalogue's recommendation in place of a knob's value."""

_BY_NAME: Final = {name: profile for profile in PROFILES for name in (profile.name, *profile.aliases)}
_NOT_TEMPORARY: Final[dict[Mechanism, str]] = {
    "swap": "turning swap off reads back everything that is swapped out, which takes long",
    "unit": "a service unit takes the value when it starts",
    "login": "a login takes the value when it begins",
    "advice": "it is checked and explained, never changed",
}


def find_profile(name: str) -> Profile:
    """Raises TuningError for an unknown name."""
    if name not in _BY_NAME:
        known = ", ".join(PROFILE_NAMES)
        raise TuningError(f"no host profile is called {name!r}{nearest_match(name, _BY_NAME)} (known: {known})")
    return _BY_NAME[name]


def ad_hoc(settings: Mapping[str, str], over: str | None = None) -> Profile:
    """A profile of single knobs that can be set temporarily; it extends the profile named `over`.

    settings: knob id to a value with or without its unit, or to `recommended`. Raises TuningError for an unknown knob
    or profile, for a knob that cannot be set temporarily, and for an invalid value.
    """
    wishes = {}
    for knob_id, text in settings.items():
        knob = find_knob(knob_id)
        if (why_not := _NOT_TEMPORARY.get(knob.mechanism)) is not None:
            raise TuningError(f"{knob_id} cannot be set temporarily: {why_not}")
        value = None if text == AS_RECOMMENDED else _parse(knob, text)
        wishes[knob_id] = Wish(value, "set by itself")
    name = "settings" if over is None else f"{find_profile(over).name}+settings"
    return Profile(name, "single settings", wishes, extends=over)


def wishes_of(profile: Profile) -> dict[str, Wish]:
    """The wishes of the profile and of those it extends, one per knob; without those that `everything` adds."""
    wishes: dict[str, Wish] = {}
    for each in _lineage(profile):
        wishes |= each.wishes
    return wishes


def knobs_of(profile: Profile, knobs: Iterable[Knob] = KNOBS) -> tuple[Knob, ...]:
    """The knobs that the profile sets, each with the profile's value as its formula."""
    wishes = wishes_of(profile)
    everything = any(each.everything for each in _lineage(profile))
    return tuple(_with(wishes.get(knob.id), knob, profile) for knob in knobs if everything or knob.id in wishes)


def temporary_knobs(knobs: Iterable[Knob]) -> tuple[Knob, ...]:
    """The knobs that can be set temporarily, without a restart of anything."""
    return tuple(knob for knob in knobs if knob.mechanism not in _NOT_TEMPORARY)


def _lineage(profile: Profile) -> Iterator[Profile]:
    """The profiles that this one extends, the base first, and the profile itself."""
    if profile.extends is not None:
        yield from _lineage(find_profile(profile.extends))
    yield profile


def _with(wish: Wish | None, knob: Knob, profile: Profile) -> Knob:
    """The knob with the profile's value. Whoever names a profile names its knobs too, so none is left alone."""
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
    except ValueError as error:
        raise TuningError(f"{knob.id}: {error}") from None
