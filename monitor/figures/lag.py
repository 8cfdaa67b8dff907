"""Lag of a group on a partition: its state, offsets and time, and when it ends or costs records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from highwater.common.units import count_text
from highwater.monitor.figures.memory import UNKNOWN, Starts
from highwater.monitor.figures.rows import Duration, LagState
from highwater.monitor.model import Commit, Partition


def lag_time(committed_offset: int, times_ms: Sequence[int], end_offsets: Sequence[int]) -> Duration | None:
    """Return the time from when the end offset was at the commit to the newest answer.

    Between two answers the end offset is taken to rise evenly. Before the first answer nothing is known: the result
    is then the time since the first answer, and `is_least`. `end_offsets` never drop. None without an answer.
    """
    if not times_ms:
        return None
    now_ms = times_ms[-1]
    if committed_offset >= end_offsets[-1]:
        return Duration(0.0)
    right = bisect_right(end_offsets, committed_offset)
    if right == 0:
        return Duration(float(now_ms - times_ms[0]), is_least=True)
    left = right - 1
    share_after = (end_offsets[right] - committed_offset) / (end_offsets[right] - end_offsets[left])
    return Duration(now_ms - times_ms[right] + share_after * (times_ms[right] - times_ms[left]))


def catch_up_ms(lag: int, consumed_per_s: float | None, produced_per_s: float | None) -> float | None:
    """Return how long until lag is 0 at these rates: infinite if never, None if a rate is not known."""
    if lag <= 0:
        return 0.0
    if consumed_per_s is None or produced_per_s is None:
        return None
    gain_per_s = consumed_per_s - produced_per_s
    return lag * 1000 / gain_per_s if gain_per_s > 0 else float("inf")


def deleted_per_s(starts: Sequence[Starts], series: int, log_start_offset: int, at_ms: int) -> float | None:
    """Rate of the log start offset, which is `log_start_offset` at `at_ms`, since the oldest of `starts`.

    As far back as it is remembered, because retention deletes whole segments, far apart. None if not known.
    """
    for column in starts:
        if series < len(column.offsets) and column.offsets[series] != UNKNOWN:
            span_ms = at_ms - column.at_ms
            return max(0, log_start_offset - column.offsets[series]) * 1000 / span_ms if span_ms > 0 else None
    return None


def loss_eta_ms(
    committed_offset: int, log_start_offset: int, deleted_per_s: float | None, consumed_per_s: float | None
) -> float | None:
    """Return the time until the log start offset passes the commit at these rates; None if it does not, or unknown.

    A rate of the commit that is not known counts as 0.
    """
    if deleted_per_s is None or committed_offset < log_start_offset:
        return None
    nearing_per_s = deleted_per_s - (consumed_per_s or 0.0)
    return (committed_offset - log_start_offset) * 1000 / nearing_per_s if nearing_per_s > 0 else None


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
