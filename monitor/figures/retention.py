"""When retention will delete what a group has not read."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.monitor.figures.memory import UNKNOWN, Starts


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
