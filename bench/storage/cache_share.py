"""Which share of reads memory served, and how far the disk was behind; pure functions.

These two figures decide every comparison of disks behind a page cache (docs/bench-storage.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater.bench.storage.log_files import LogState
from highwater.results.host import HostSample
from highwater.results.storage import CacheDrop, CacheUse, WritebackUse


def stored_ratio(log_bytes: int | None, acked_value_bytes: int, replication: int, whole: bool) -> float:
    """Bytes of the log per byte of value: below 1 when batches are compressed. 1 when unknown.

    whole: the log contains exactly the acknowledged records.
    """
    if log_bytes is None or not whole or not acked_value_bytes:
        return 1.0
    return log_bytes / (acked_value_bytes * replication)


def cache_use(
    samples: Sequence[HostSample],
    received_value_bytes: Sequence[int],
    start_s: float,
    end_s: float,
    *,
    stored_ratio: float,
    log: LogState | None,
    limit_bytes: int | None,
    drop: CacheDrop,
) -> CacheUse:
    """Compare reads with fetches in [start_s, end_s). received_value_bytes: per second since T0.

    Only whole seconds count; the second that contains `end_s` is included.
    """
    first, last = int(start_s), max(int(start_s), -int(-end_s // 1))
    fetched_bytes = round(sum(received_value_bytes[first:last]) * stored_ratio)
    system_read_bytes = _total(samples, "system_read_bytes", first, last)
    device_read_bytes = _total(samples, "disk_read_bytes", first, last)
    read_bytes = device_read_bytes if system_read_bytes is None else system_read_bytes
    served_ratio = method = None
    if fetched_bytes and read_bytes is not None:
        served_ratio = min(1.0, max(0.0, 1 - read_bytes / fetched_bytes))
        method = "device_reads" if system_read_bytes is None else "system_reads"
    return CacheUse.model_validate(
        {
            "served_ratio": served_ratio,
            "method": method,
            "start_s": float(first),
            "end_s": float(last),
            "fetched_bytes": fetched_bytes,
            "system_read_bytes": system_read_bytes,
            "device_read_bytes": device_read_bytes,
            "log_bytes": log.log_bytes if log else None,
            "resident_bytes": log.cache.resident_bytes if log else None,
            "resident_method": log.cache.method if log else None,
            "limit_bytes": limit_bytes,
            "drop": drop,
        }
    )


def writeback_use(samples: Sequence[HostSample], log: LogState | None) -> WritebackUse:
    """The write-back over all samples of the load, from T0 on."""
    dirty = [sample.dirty_bytes for sample in samples if sample.dirty_bytes is not None]
    writeback = [sample.writeback_bytes for sample in samples if sample.writeback_bytes is not None]
    last = max((sample.second for sample in samples), default=-1)
    return WritebackUse(
        dirty_max_bytes=max(dirty, default=None),
        writeback_max_bytes=max(writeback, default=None),
        written_bytes=_total(samples, "disk_write_bytes", 0, last + 1),
        appended_bytes=log.log_bytes if log else None,
        unwritten_bytes=log.cache.unwritten_bytes if log else None,
        flush_s=log.flush_s if log else None,
        flush_complete=log.flush_complete if log else None,
    )


def _total(samples: Sequence[HostSample], name: str, first: int, last: int) -> int | None:
    """The sum of a field of bytes per second over the seconds [first, last); None when it was never known.

    A second without a sample counts as the mean of the others.
    """
    known = [
        value for sample in samples if first <= sample.second < last and (value := getattr(sample, name)) is not None
    ]
    return round(sum(known) / len(known) * (last - first)) if known else None
