from __future__ import annotations

import pytest

from highwater.bench.storage.cache_share import cache_use, stored_ratio, writeback_use
from highwater.bench.storage.log_files import LogState
from highwater.bench.storage.page_cache import CacheState
from highwater.results.host import HostSample
from highwater.results.storage import CacheUse
from tests.bench.host.test_sampler import sample

LOG = LogState(
    log_bytes=5000, cache=CacheState("cachestat", 3000, 1000), flush_s=2.0, flush_complete=True, free_bytes=1 << 30
)


def use(samples: list[HostSample], received: list[int], start_s: float = 0.0, end_s: float = 2.0) -> CacheUse:
    return cache_use(samples, received, start_s, end_s, stored_ratio=1.0, log=LOG, limit_bytes=None, drop="dropped")


def test_the_share_is_what_did_not_have_to_be_read() -> None:
    samples = [sample(0, system_read_bytes=100, disk_read_bytes=900), sample(1, system_read_bytes=150)]
    found = use(samples, [500, 500, 7])
    assert (found.served_ratio, found.method, found.fetched_bytes) == (0.75, "system_reads", 1000)
    assert (found.system_read_bytes, found.device_read_bytes) == (250, 1800)
    assert (found.log_bytes, found.resident_bytes, found.resident_method) == (5000, 3000, "cachestat")


def test_the_devices_reads_stand_in_where_the_systems_are_unknown() -> None:
    found = use([sample(0, disk_read_bytes=500), sample(1, disk_read_bytes=500)], [500, 500])
    assert (found.served_ratio, found.method) == (0.0, "device_reads")


@pytest.mark.parametrize(("read", "share"), [(0, 1.0), (5000, 0.0)])
def test_the_share_lies_between_none_and_all(read: int, share: float) -> None:
    """Reading ahead of consumers that stop early can exceed what they fetched."""
    assert use([sample(0, system_read_bytes=read)], [1000], end_s=1.0).served_ratio == share


def test_without_fetches_or_without_counts_there_is_no_share() -> None:
    assert use([sample(0, system_read_bytes=5)], [0], end_s=1.0).served_ratio is None
    unknown = use([sample(0)], [10], end_s=1.0)
    assert (unknown.served_ratio, unknown.method) == (None, None)


def test_only_the_seconds_of_the_interval_count() -> None:
    samples = [sample(second, system_read_bytes=second) for second in range(5)]
    found = use(samples, [1000] * 5, start_s=1.5, end_s=2.5)
    assert (found.start_s, found.end_s) == (1.0, 3.0)
    assert (found.fetched_bytes, found.system_read_bytes) == (2000, 3)


def test_a_compressed_log_is_fetched_compressed() -> None:
    assert stored_ratio(2500, 10_000, 1, whole=True) == 0.25
    assert stored_ratio(5000, 10_000, 2, whole=True) == 0.25
    # Retention has taken some of it, or it cannot be looked at.
    assert stored_ratio(2500, 10_000, 1, whole=False) == 1.0
    assert stored_ratio(None, 10_000, 1, whole=True) == 1.0


def test_the_picture_of_write_back() -> None:
    samples = [
        sample(0, dirty_bytes=10, writeback_bytes=0, disk_write_bytes=100),
        sample(1, dirty_bytes=30, writeback_bytes=8, disk_write_bytes=300),
    ]
    found = writeback_use(samples, LOG)
    assert (found.dirty_max_bytes, found.writeback_max_bytes, found.written_bytes) == (30, 8, 400)
    assert (found.appended_bytes, found.unwritten_bytes, found.flush_s, found.flush_complete) == (5000, 1000, 2.0, True)
    nothing = writeback_use([], None)
    assert (nothing.dirty_max_bytes, nothing.written_bytes, nothing.appended_bytes) == (None, None, None)
