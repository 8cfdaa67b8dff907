"""Features of the cluster (KIP-584): the levels that this broker serves, and those that are finalised.

A level stands for a change of formats or protocols that all brokers make together. Clients and handlers use a level
only after it is finalised. A feature that is not finalised has level 0. The one table of what is served is SERVED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from highwater.kafka.protocol.problem import Problem

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"


class Range(NamedTuple):
    """Levels, both ends inclusive."""

    min_level: int
    max_level: int


Supported = Mapping[str, Range]
"""The levels that a broker serves, by the name of the feature."""

SERVED: Final[Supported] = MappingProxyType({TRANSACTION_VERSION: Range(0, 2), GROUP_VERSION: Range(0, 1)})
"""What this broker serves. Like Kafka, it leaves out a feature of which it serves level 0 alone."""

UNKNOWN_EPOCH: Final = -1


class Finalised(NamedTuple):
    """The finalised levels at one time."""

    epoch: int
    """It grows with each change; UNKNOWN_EPOCH while nothing was ever finalised. A client ignores levels whose epoch is
    not greater than the greatest that it has seen of any broker."""
    levels: Mapping[str, int]
    """Without features at level 0."""

    def changed_to(self, levels: Mapping[str, int], now_ms: int) -> Finalised:
        """Return these levels as the next ones; the same object if they are those that are finalised already.

        An epoch is a wall clock time in seconds, as far as changes leave it one: a client outlives a data directory,
        and the next one must begin above the epochs of the last.
        """
        kept = {name: level for name, level in sorted(levels.items()) if level}
        return self if kept == self.levels else Finalised(max(self.epoch + 1, now_ms // 1000), kept)


NOTHING: Final = Finalised(UNKNOWN_EPOCH, MappingProxyType({}))


def first_levels(supported: Supported, now_ms: int) -> Finalised:
    """Return what a new cluster begins with: the highest levels of its first broker."""
    return NOTHING.changed_to({name: levels.max_level for name, levels in supported.items()}, now_ms)


class Features:
    """What is supported and finalised now. Parts of a broker keep this object, and ask it each time."""

    def __init__(self, supported: Supported = SERVED, finalised: Finalised = NOTHING) -> None:
        self.supported = supported
        self.finalised = finalised
        self.when_changed: list[Callable[[], None]] = []
        """Called after each change of `finalised`."""

    def level(self, name: str) -> int:
        """Return the finalised level of a feature."""
        return self.finalised.levels.get(name, 0)

    def take_up(self, finalised: Finalised) -> None:
        """Use these levels from now on. Older ones than those that are known are ignored."""
        if finalised.epoch > self.finalised.epoch:
            self.finalised = finalised
            for call in self.when_changed:
                call()


# Changes by clients (UpdateFeatures)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Update(NamedTuple):
    """The level that a client wants a feature to have."""

    level: int
    upgrade_type: int
    """An UpgradeType, or another number that a client sent."""


FeatureChange = Callable[[Finalised, Mapping[int, Supported]], "Finalised | Problem"]
"""Returns what shall be finalised, or why nothing is changed: from what is finalised, and what the other brokers that
live support, by broker id. It may be called several times."""


class FeatureStore(Protocol):
    def change_features(self, change: FeatureChange, then: Callable[[Problem | None], None]) -> None:
        """Finalise durably what `change` returns, and call back, maybe before this returns, with why that failed."""


_OF_A_QUORUM: Final = ("metadata.version", "kraft.version")


def updating(supported: Supported, updates: Mapping[str, Update], now_ms: int) -> FeatureChange:
    """Return the change that these updates make, all or none, by the rules of Kafka's FeatureControlManager.

    `supported` is what this broker supports.
    """

    def change(finalised: Finalised, others: Mapping[int, Supported]) -> Finalised | Problem:
        for name, update in updates.items():
            reason = _refusal(name, update, finalised.levels.get(name, 0), supported, others)
            if reason is not None:
                return Problem(
                    ErrorCode.invalid_update_version,
                    "The update failed for all features since the following feature had an error: "
                    f"Invalid update version {update.level} for feature {name}. {reason}",
                )
        levels = {name: update.level for name, update in updates.items()}
        return finalised.changed_to({**finalised.levels, **levels}, now_ms)

    return change


def _refusal(
    name: str, update: Update, current: int, supported: Supported, others: Mapping[int, Supported]
) -> str | None:
    if update.upgrade_type not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if name in _OF_A_QUORUM:
        return "The metadata of this cluster is kept by ZooKeeper or by a file, not by a quorum."
    if name not in supported or not supported[name].min_level <= update.level <= supported[name].max_level:
        return f"This broker {_what_it_supports(supported, name)}"
    for broker_id, theirs in others.items():
        if not serves(theirs, name, update.level):
            return f"Broker {broker_id} {_what_it_supports(theirs, name)}"
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and not is_upgrade:
        return "Can't downgrade to a newer version."
    return None


def serves(told: Supported, name: str, level: int) -> bool:
    """Return whether a broker with this registration serves a level. Each broker serves level 0, which is left out."""
    return level == 0 or (name in told and told[name].min_level <= level <= told[name].max_level)


def _what_it_supports(supported: Supported, name: str) -> str:
    if name not in supported:
        return "does not support this feature."
    return f"only supports versions {supported[name].min_level}-{supported[name].max_level}."
