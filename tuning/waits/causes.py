"""Says what a thread waited for, from the names of the kernel's functions on its stack.

The names are those of Linux 5.10 to 6.18: fs/jbd2, fs/ext4, fs/xfs, mm/page-writeback.c, mm/filemap.c, block/. A
function that is not known here gives the cause `other`, which names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

CauseName = Literal[
    "flush",
    "journal_full",
    "journal_commit",
    "dirty_limit",
    "write_back",
    "disk_queue",
    "swap",
    "memory",
    "discard",
    "metadata_read",
    "cold_read",
    "lock",
    "other",
]


@dataclass(frozen=True)
class Cause:
    """text: what the thread waited for. knobs: those of `highwater tune` that change it."""

    name: CauseName
    text: str
    functions: tuple[str, ...]
    knobs: tuple[str, ...] = ()


CAUSES: Final = (
    Cause(
        "journal_full",
        "the journal of the file system was full",
        ("__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint", "xlog_grant_head_wait", "xlog_grant_head_check"),
        ("filesystem.mkfs_options", "mount.commit"),
    ),
    Cause(
        "dirty_limit",
        "too much was unwritten, and the kernel slowed the writer down",
        ("balance_dirty_pages", "balance_dirty_pages_ratelimited_flags", "balance_dirty_pages_ratelimited"),
        ("vm.dirty_bytes", "vm.dirty_background_bytes", "bdi.max_ratio"),
    ),
    Cause(
        "swap",
        "memory that was swapped out came back from the disk",
        ("do_swap_page", "swap_read_folio", "swap_readpage", "shmem_swapin_folio"),
        ("vm.swappiness", "swap.devices"),
    ),
    Cause(
        "memory",
        "the kernel looked for free memory",
        (
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "throttle_direct_reclaim",
            "mem_cgroup_handle_over_high",
            "try_to_compact_pages",
            "reclaim_throttle",
        ),
        ("unit.memory_high", "vm.min_free_kbytes", "thp.defrag"),
    ),
    Cause(
        "flush",
        "what the program flushed was written to the disk",
        (
            "jbd2_log_wait_commit",
            "jbd2_complete_transaction",
            "ext4_sync_file",
            "ext4_fc_commit",
            "xfs_file_fsync",
            "xfs_log_force_seq",
            "btrfs_sync_file",
            "vfs_fsync_range",
            "blkdev_issue_flush",
            "__x64_sys_sync_file_range",
            "__arm64_sys_sync_file_range",
        ),
        ("disk.write_cache", "disk.scheduler", "filesystem.mkfs_options"),
    ),
    Cause(
        "journal_commit",
        "the journal of the file system was committed",
        (
            "wait_transaction_locked",
            "wait_transaction_switching",
            "add_transaction_credits",
            "start_this_handle",
            "do_get_write_access",
            "jbd2_journal_get_write_access",
            "jbd2_journal_get_create_access",
            "xlog_wait_on_iclog",
            "xfs_log_force",
            "xlog_state_get_iclog_space",
        ),
        ("mount.lazytime", "mount.commit", "filesystem.type"),
    ),
    Cause(
        "write_back",
        "the page was just being written to the disk",
        (
            "folio_wait_writeback",
            "folio_wait_stable",
            "wait_on_page_writeback",
            "wait_for_stable_page",
            "writeback_iter",
        ),
        ("vm.dirty_background_bytes", "vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs"),
    ),
    Cause(
        "disk_queue",
        "the queue of the disk was full",
        ("rq_qos_wait", "wbt_wait", "blk_mq_get_tag", "get_request", "blk_throtl_bio"),
        ("disk.nr_requests", "disk.scheduler", "disk.wbt_lat_usec"),
    ),
    Cause(
        "discard",
        "the disk was told which blocks are free",
        ("ext4_issue_discard", "blkdev_issue_discard", "__blkdev_issue_discard", "xfs_discard_extents"),
        ("mount.discard",),
    ),
    Cause(
        "metadata_read",
        "names or maps of the file system were read from the disk",
        (
            "ext4_read_bh",
            "ext4_bread",
            "ext4_mb_load_buddy_gfp",
            "ext4_mb_init_cache",
            "ext4_wait_block_bitmap",
            "__ext4_get_inode_loc",
            "__ext4_find_entry",
            "xfs_buf_iowait",
            "xfs_buf_read_map",
            "__bread_gfp",
        ),
        ("vm.vfs_cache_pressure",),
    ),
    Cause(
        "cold_read",
        "what was read was not in memory and came from the disk",
        (
            "filemap_read",
            "filemap_get_pages",
            "filemap_fault",
            "filemap_update_page",
            "folio_wait_bit_common",
            "generic_file_read_iter",
            "wait_on_page_bit_common",
            "page_cache_ra_unbounded",
            "iomap_dio_rw",
            "__iomap_dio_rw",
        ),
        ("disk.read_ahead_kb", "vm.swappiness"),
    ),
    Cause(
        "lock",
        "another thread held a lock of the kernel",
        (
            "rwsem_down_write_slowpath",
            "rwsem_down_read_slowpath",
            "__mutex_lock",
            "__mutex_lock_slowpath",
            "mutex_lock_nested",
            "down_write",
            "down_read",
            "__down_common",
            "percpu_rwsem_wait",
        ),
    ),
)
"""Causes in the order in which they are checked: the first whose function is on the stack counts."""
OTHER: Final = Cause("other", "another reason", ())

_CAUSE_OF: Final = {function: cause for cause in reversed(CAUSES) for function in cause.functions}
_RANK: Final = {cause.name: rank for rank, cause in enumerate(CAUSES)}
_SYSTEM_CALLS: Final = ("__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__riscv_sys_", "__se_sys_")
_PAGE_FAULTS: Final = ("exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "do_page_fault", "el0_da")
_WAITING: Final = frozenset(
    {
        "trace_event_raw_event_sched_switch",
        "__traceiter_sched_switch",
        "__schedule",
        "schedule",
        "preempt_schedule_common",
        "io_schedule",
        "io_schedule_timeout",
        "schedule_timeout",
        "schedule_preempt_disabled",
        "bit_wait_io",
        "bit_wait",
        "__wait_on_bit",
        "__wait_on_bit_lock",
        "out_of_line_wait_on_bit",
        "__wait_for_common",
        "wait_for_completion",
        "wait_for_completion_io",
        "wait_for_common",
        "wait_for_completion_timeout",
        "wait_for_completion_io_timeout",
        "submit_bio_wait",
    }
)
"""Functions with which any part of the kernel waits."""


def cause_of(stack: Sequence[str]) -> Cause:
    """Return what a thread with this stack (the innermost function first) waited for.

    The lock of a file that is taken to write it is a lock, wherever the thread that holds it waits. What a flush waits
    for inside of it is the flush's.
    """
    found = [_CAUSE_OF[function] for function in stack if function in _CAUSE_OF]
    waiting = next((function for function in stack if function not in _WAITING), None)
    if waiting is not None and (first := _CAUSE_OF.get(waiting)) is not None and first.name == "lock":
        return first
    return min(found, key=lambda cause: _RANK[cause.name], default=OTHER)


def call_of(stack: Sequence[str]) -> str:
    """Return the program's call, such as pwrite64; `page fault`, or `unknown` where neither is on the stack."""
    for function in reversed(stack):
        for prefix in _SYSTEM_CALLS:
            if function.startswith(prefix):
                return function.removeprefix(prefix)
        if function in _PAGE_FAULTS:
            return "page fault"
    return "unknown"


def function_of(stack: Sequence[str]) -> str:
    """Return the innermost function that says why the thread waited, for people who know the kernel."""
    return next((function for function in stack if function not in _WAITING), "unknown")
