"""What the disks of one broker are together: JBOD and RAID, from what one disk was measured to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from highwater.studies.capacity.load import Layout

LostDisk = Literal["its replicas", "all replicas", "nothing"]

# Operations of a disk for one small write: RAID 5 reads and writes data and parity, RAID 6 has two parities.
_OPERATIONS_OF_A_WRITE: Final = {"raid5": 4, "raid6": 6}
_PARITY_DISKS: Final = {"raid5": 1, "raid6": 2}


@dataclass(frozen=True, slots=True)
class Array:
    """The disks of one broker."""

    layout: Layout
    usable_bytes: float
    write_bytes_per_s: float
    read_bytes_per_s: float
    raw_bytes_of_a_byte: float
    """What a byte of the log takes of the disks."""
    lost_disk_loses: LostDisk
    """What has to be copied from other brokers when one disk fails."""
    lost_share: float
    """The share of the broker's bytes that this is."""
    disks_apart: float = 1.0
    """Disks with files of their own: each has its share of the partitions, and waits for its own fsyncs alone."""


def array_of(
    layout: Layout,
    count: int,
    size_bytes: float,
    write_bytes_per_s: float,
    read_bytes_per_s: float,
    imbalance: float = 1.0,
) -> Array:
    """`count` disks as one array; the rates are those of one disk.

    JBOD: partitions do not divide evenly, so the fullest disk, which has `imbalance` times the mean, is the limit.
    RAID 5 and 6: every write counts as one that fills only a part of a stripe, which is the worst case.
    """
    skew = imbalance if count > 1 else 1.0
    size, write, read = count * size_bytes, count * write_bytes_per_s, count * read_bytes_per_s
    match layout:
        case "jbod":
            lost = min(1.0, skew / count)
            return Array(layout, size / skew, write / skew, read / skew, 1.0, "its replicas", lost, count / skew)
        case "raid0":
            return Array(layout, size, write, read, 1.0, "all replicas", 1.0)
        case "raid10":
            return Array(layout, size / 2, write / 2, read, 2.0, "nothing", 0.0)
    data = count - _PARITY_DISKS[layout]
    return Array(
        layout,
        data * size_bytes,
        write / _OPERATIONS_OF_A_WRITE[layout],
        data * read_bytes_per_s,
        count / data,
        "nothing",
        0.0,
    )
