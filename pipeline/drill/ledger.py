"""Counts what is lost and what is there twice: what was produced against what a reader sees. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the output. batch: the micro-batch that wrote it, with its query; empty where the sink has none."""

    key: str
    batch: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    lost: tuple[str, ...]
    twice: tuple[str, ...]
    unknown: tuple[str, ...]
    """Keys that nobody produced."""

    @property
    def balances(self) -> bool:
        return not (self.lost or self.twice or self.unknown)


@dataclass(slots=True)
class Ledger:
    """Keys of records that the broker acknowledged."""

    produced: set[str] = field(default_factory=set)

    def account(self, rows: Iterable[Row]) -> Account:
        seen = Counter(row.key for row in rows)
        return Account(
            lost=tuple(sorted(self.produced - seen.keys())),
            twice=tuple(sorted(key for key, count in seen.items() if count > 1)),
            unknown=tuple(sorted(seen.keys() - self.produced)),
        )


def sizes_of_batches(rows: Iterable[Row]) -> Counter[str]:
    """Different keys of each batch: a row that is there twice is another fault."""
    return Counter(batch for batch, _ in {(row.batch, row.key) for row in rows} if batch)


def partial_batches(view: Mapping[str, int], final: Mapping[str, int]) -> tuple[str, ...]:
    """Batches of which a reader saw some rows in `view`, but not all that are there at the end."""
    return tuple(sorted(batch for batch, count in view.items() if count < final.get(batch, 0)))
