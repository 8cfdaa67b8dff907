"""Storage targets of a log, what fio measures there, and what the page cache holds.

The disk emulated for machines that have one medium only is `highwater.bench.storage.emulated_hdd`.
"""

from highwater.bench.storage.areas import SPARE_BYTES, StorageAreas, check_target
from highwater.bench.storage.targets import describe_target, mounted_targets, target_paths

__all__ = ["SPARE_BYTES", "StorageAreas", "check_target", "describe_target", "mounted_targets", "target_paths"]
