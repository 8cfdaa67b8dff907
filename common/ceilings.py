"""Measured ceilings of a class of hosts, as values and as JSON: the schema capacity.ceilings/1.

A ceiling is the highest rate of one broker that a benchmark has seen, with the conditions under which it was measured:
under others it may be another one. `highwater bench ceilings` writes them from result directories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from .typed_json import DamagedError, parse_json, read_as

SCHEMA: Final = "capacity.ceilings/1"
PRODUCE: Final = "produce"
CONSUME: Final = "consume"
DISK_WRITE: Final = "disk write"
DISK_READ: Final = "disk read"
RESOURCES: Final = (PRODUCE, CONSUME, DISK_WRITE, DISK_READ)


class CeilingsError(ValueError):
    """It is no file of ceilings that this program knows. One sentence."""


@dataclass(frozen=True, slots=True)
class HostClass:
    """What decides how fast a host is."""

    cpu_model: str
    cpu_count: int
    memory_bytes: int
    kernel: str
    tuning_fingerprint: str
    runs_in: str = ""


@dataclass(frozen=True, slots=True)
class Ceiling:
    resource: str
    """One of RESOURCES."""
    bytes_per_s: float
    """The rate of one broker or one disk. Produce and consume count bytes as the log has them, compressed or not."""
    is_at_least: bool
    """No higher rate was tried, or the load generator gave up first: the true ceiling may be higher."""
    first_fail_bytes_per_s: float | None = None
    """The lowest rate that failed; None if none did."""
    limit: str = ""
    """What failed there, in words."""
    batch_bytes: int | None = None
    """`batch.size` of the producers: batches were not larger."""
    codec: str = ""
    acks: str = ""
    medium: str = ""
    file_system: str = ""
    system: str = ""
    """The broker and its version, such as `highwater 0.2.0`."""
    run: str = ""
    """The result directory that it comes from."""
    measured_utc: str = ""


@dataclass(frozen=True, slots=True)
class Ceilings:
    host: HostClass
    ceilings: tuple[Ceiling, ...]
    created_utc: str
    schema: str = SCHEMA

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"


def parse_ceilings(text: str) -> Ceilings:
    """Raises CeilingsError."""
    try:
        told = parse_json(text)
    except ValueError:
        raise CeilingsError("is not JSON") from None
    schema = told.get("schema") if isinstance(told, dict) else None
    if schema != SCHEMA:
        raise CeilingsError(f"is not a file of {SCHEMA}: write one with highwater bench ceilings")
    try:
        found = read_as(Ceilings, told)
    except DamagedError as error:
        raise CeilingsError(f"is damaged: {error}") from None
    for each in found.ceilings:
        if each.resource not in RESOURCES or each.bytes_per_s <= 0:
            raise CeilingsError(f"is damaged: a ceiling of {each.resource!r} with {each.bytes_per_s:g} bytes/s")
    return found


def best(ceilings: Iterable[Ceiling]) -> Ceiling | None:
    """The highest one: each is a rate that was really there."""
    return max(ceilings, key=lambda each: each.bytes_per_s, default=None)
