"""A row of the tables of settings: type, default and range of a property; whether it is honoured."""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str | list[str] | None

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class Kind(IntEnum):
    """The type of a value, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Support(Enum):
    HONOURED = "honoured"
    IN_A_CLUSTER = "honoured in a cluster"
    """It is accepted with a warning where zookeeper.connect is not set."""
    NO_EFFECT = "accepted with a warning"
    REFUSED = "an error"


class Property(NamedTuple):
    name: str
    kind: Kind
    default: Value
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    support: Support = Support.HONOURED
    why: str = ""
    """The reason why a property is not honoured, or what to do instead."""
    item_pattern: re.Pattern[str] | None = None
    """What each item of a list has to match; None if any item may be in it."""


_ALONE: Final = "a broker without zookeeper.connect runs alone"


def honoured(
    name: str, kind: Kind, default: Value, low: float | None = None, high: float | None = None, *choices: str
) -> Property:
    return Property(name, kind, default, low, high, choices)


def in_a_cluster(
    name: str, kind: Kind, default: Value, low: float | None = None, high: float | None = None, *choices: str
) -> Property:
    return Property(name, kind, default, low, high, choices, Support.IN_A_CLUSTER, _ALONE)


def no_effect(name: str, kind: Kind, default: Value, why: str) -> Property:
    return Property(name, kind, default, support=Support.NO_EFFECT, why=why)


def refused(name: str, kind: Kind, default: Value, why: str) -> Property:
    return Property(name, kind, default, support=Support.REFUSED, why=why)


BOOLEAN, STRING, INT, SHORT = Kind.BOOLEAN, Kind.STRING, Kind.INT, Kind.SHORT
LONG, DOUBLE, LIST, CLASS, PASSWORD = Kind.LONG, Kind.DOUBLE, Kind.LIST, Kind.CLASS, Kind.PASSWORD

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
ONE_LZ4: Final = "LZ4 has one speed here"
ONE_BATCH_FORMAT: Final = "record batches are always of format v2"
