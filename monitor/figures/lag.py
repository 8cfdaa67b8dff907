"""Lag of a group on a partition: its state, its number, and by how much the number may be too large."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from highwater.common.units import count_text
from highwater.monitor.figures.rows import LagState
from highwater.monitor.model import Commit, Partition


class Lag(NamedTuple):
    state: LagState
    lag: int | None = None
    """None where the state gives lag no meaning."""
    error: int = 0
    """How much too large lag may be: what was produced between the answers with the commit and with the end."""
    lost: int = 0
    """Offsets that were deleted unread."""
    sentence: str = ""
    """What is wrong; empty in the state COMMITTED."""


_NO_LAG: Final = Lag(LagState.COMMITTED, 0)


def lag_of(commit: Commit | None, partition: Partition | None, produced_per_s: float | None) -> Lag:
    """Return the lag. Commits are asked for before end offsets, so that lag is never negative by chance.

    `partition` is None if the cluster has none, `produced_per_s` if the rate is not known; the error is then all lag.
    """
    if partition is None:
        return Lag(LagState.UNKNOWN_PARTITION, sentence="The cluster has no such partition.")
    if commit is None:
        return Lag(LagState.NO_COMMIT, sentence="Nothing is committed, so lag has no meaning yet.")
    end, start = partition.end_offset, partition.log_start_offset
    if end is None:
        return Lag(LagState.UNKNOWN_END, sentence="The partition's leader did not return the end offset.")
    lag = end - commit.offset
    if lag < 0:
        if partition.offsets_at_ms is not None and partition.offsets_at_ms < commit.at_ms:
            # The end is older than the commit: the group has merely read on.
            return Lag(LagState.COMMITTED, 0)
        return Lag(LagState.BEYOND_END, sentence=_beyond_end(commit.offset, end))
    error = _error(lag, commit, partition, produced_per_s)
    if start is not None and commit.offset < start:
        lost = start - commit.offset
        return Lag(LagState.BELOW_LOG_START, lag, error, lost, _below_start(lost))
    return Lag(LagState.COMMITTED, lag, error) if lag else _NO_LAG


def _error(lag: int, commit: Commit, partition: Partition, produced_per_s: float | None) -> int:
    if lag == 0:
        return 0
    if produced_per_s is None or partition.offsets_at_ms is None:
        return lag
    between_s = max(0, partition.offsets_at_ms - commit.at_ms) / 1000
    return min(lag, ceil(produced_per_s * between_s))


def _beyond_end(committed: int, end: int) -> str:
    return (
        f"Committed {committed} is beyond the end {end}: the topic was made again, or an unclean election lost records."
    )


def _below_start(lost: int) -> str:
    return f"{count_text(lost)} offsets were deleted before the group read them."


def lag_text(lag: int, error: int) -> str:
    """Between what and what the lag is: `1,185–1,200`."""
    return f"{count_text(max(0, lag - error))}–{count_text(lag)}" if error else count_text(lag)
