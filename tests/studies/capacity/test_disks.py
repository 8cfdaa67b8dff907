"""Arrays of disks: what they hold, how fast they are, what a lost disk costs."""

from __future__ import annotations

import pytest

from highwater.studies.capacity.disks import array_of
from tests.studies.capacity.samples import ceilings


def test_the_fullest_disk_limits_jbod() -> None:
    found = array_of("jbod", 4, 1e12, 100e6, 120e6, imbalance=1.25)
    assert (found.usable_bytes, found.write_bytes_per_s, found.read_bytes_per_s) == (3.2e12, 320e6, 384e6)
    assert found.lost_share == pytest.approx(1.25 / 4)
    assert array_of("jbod", 1, 1e12, 100e6, 120e6, imbalance=1.25).usable_bytes == 1e12


@pytest.mark.parametrize(
    ("layout", "usable", "write", "raw", "lost"),
    [
        ("raid0", 6e12, 600e6, 1.0, "all replicas"),
        ("raid10", 3e12, 300e6, 2.0, "nothing"),
        ("raid5", 5e12, 150e6, 6 / 5, "nothing"),
        ("raid6", 4e12, 100e6, 6 / 4, "nothing"),
    ],
)
def test_raid(layout: str, usable: float, write: float, raw: float, lost: str) -> None:
    found = array_of(layout, 6, 1e12, 100e6, 120e6, imbalance=1.5)  # type: ignore[arg-type]
    assert (found.usable_bytes, found.write_bytes_per_s, found.lost_disk_loses) == (usable, write, lost)
    assert found.raw_bytes_of_a_byte == pytest.approx(raw)


def test_partitions_share_the_disks_of_jbod_and_all_disks_of_an_array_have_them_all() -> None:
    assert array_of("jbod", 4, 1e12, 100e6, 120e6, imbalance=1.25).disks_apart == pytest.approx(3.2)
    assert array_of("raid10", 4, 1e12, 100e6, 120e6, imbalance=1.25).disks_apart == 1


def test_a_disk_that_seeks_is_slower_with_more_files_and_never_faster() -> None:
    found = ceilings(write_ratios=((8, 0.8), (64, 0.9), (512, 0.3)))
    assert [found.write_ratio(files) for files in (0.5, 1, 8, 64, 512, 9999)] == pytest.approx(
        [1, 1, 0.8, 0.8, 0.3, 0.3]
    )
    assert found.write_ratio(64 * 8**0.5) == pytest.approx((0.8 + 0.3) / 2)
    assert ceilings().write_ratio(1000) == 1
