"""Features of the cluster (KIP-584): the levels that this broker serves, and those that are finalised.

A level stands for a change of formats or protocols that all brokers make together. Clients and handlers use a level
only after it is finalised. A feature that is not finalised has level 0. The one table of what is served is SERVED.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

TRANSACTION_VERSION: Final = "transaction.version"


class Range(NamedTuple):
    """Levels, both ends inclusive."""

    min_level: int
    max_level: int


Supported = Mapping[str, Range]
"""The levels that a broker serves, by the name of the feature."""

SERVED: Final[Supported] = MappingProxyType({})
"""What this broker serves. Like Kafka, it leaves out a feature of which it serves level 0 alone."""

UNKNOWN_EPOCH: Final = -1


class Finalised(NamedTuple):
    """The finalised levels at one time."""

    epoch: int
    """It grows with each change; UNKNOWN_EPOCH while nothing was ever finalised. A client ignores levels whose epoch is
    not greater than the greatest that it has seen of any broker."""
    levels: Mapping[str, int]
    """Without features at level 0."""


NOTHING: Final = Finalised(UNKNOWN_EPOCH, MappingProxyType({}))


class Features:
    """What is supported and finalised now. Parts of a broker keep this object, and ask it each time."""

    def __init__(self, supported: Supported = SERVED, finalised: Finalised = NOTHING) -> None:
        self.supported = supported
        self.finalised = finalised

    def level(self, name: str) -> int:
        """Return the finalised level of a feature."""
        return self.finalised.levels.get(name, 0)

    def take_up(self, finalised: Finalised) -> None:
        """Use these levels from now on. Older ones than those that are known are ignored."""
        if finalised.epoch > self.finalised.epoch:
            self.finalised = finalised
