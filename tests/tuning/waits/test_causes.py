"""Stacks as kernels wrote them, and the causes that people are told."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.waits.causes import CAUSES, OTHER, call_of, cause_of, function_of

ENTRY = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")
SLEEP = ("trace_event_raw_event_sched_switch", "__traceiter_sched_switch", "__schedule", "schedule")
WRITE = ("ext4_buffered_write_iter", "vfs_write", "__x64_sys_pwrite64", *ENTRY)
STACKS = {
    "journal_full": (*SLEEP, "io_schedule", "__jbd2_log_wait_for_space", "add_transaction_credits", *WRITE),
    "journal_commit": (*SLEEP, "wait_transaction_locked", "add_transaction_credits", "start_this_handle", *WRITE),
    "dirty_limit": (*SLEEP, "io_schedule_timeout", "balance_dirty_pages", *WRITE),
    "write_back": (*SLEEP, "io_schedule", "folio_wait_bit_common", "folio_wait_writeback", *WRITE),
    "disk_queue": (*SLEEP, "io_schedule", "rq_qos_wait", "wbt_wait", "__x64_sys_pwrite64", *ENTRY),
    "flush": (*SLEEP, "jbd2_log_wait_commit", "ext4_sync_file", "__x64_sys_fdatasync", *ENTRY),
    "discard": (*SLEEP, "wait_for_completion_io_timeout", "submit_bio_wait", "blkdev_issue_discard", *ENTRY),
    "metadata_read": (*SLEEP, "io_schedule", "bit_wait_io", "__wait_on_bit", "ext4_read_bh", "ext4_bread", *ENTRY),
    "cold_read": (*SLEEP, "io_schedule", "folio_wait_bit_common", "filemap_get_pages", "__x64_sys_pread64", *ENTRY),
    "swap": (*SLEEP, "io_schedule", "folio_wait_bit_common", "do_swap_page", "exc_page_fault"),
    "memory": (*SLEEP, "io_schedule", "reclaim_throttle", "try_to_free_pages", *WRITE),
    "lock": (*SLEEP, "schedule_preempt_disabled", "rwsem_down_write_slowpath", "down_write", *WRITE),
    "other": (*SLEEP, "nfs_wait_bit_killable", "__x64_sys_pwrite64", *ENTRY),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_has_its_cause(name: str) -> None:
    assert cause_of(STACKS[name]).name == name


def test_all_causes_are_tried() -> None:
    assert set(STACKS) == {cause.name for cause in (*CAUSES, OTHER)}


def test_a_flush_that_commits_the_journal_is_a_flush() -> None:
    stack = (*SLEEP, "io_schedule", "folio_wait_writeback", "jbd2_log_wait_commit", "vfs_fsync_range", *ENTRY)
    assert cause_of(stack).name == "flush"


def test_a_flush_that_waits_for_a_lock_waits_for_the_lock() -> None:
    assert cause_of((*SLEEP, "__mutex_lock", "ext4_sync_file", "__x64_sys_fsync", *ENTRY)).name == "lock"


def test_a_page_fault_of_a_mapped_file_is_a_cold_read() -> None:
    stack = (*SLEEP, "io_schedule", "folio_wait_bit_common", "filemap_fault", "do_fault", "exc_page_fault")
    assert (cause_of(stack).name, call_of(stack)) == ("cold_read", "page fault")


def test_nothing_is_known_without_a_stack() -> None:
    assert (cause_of(()), call_of(()), function_of(())) == (OTHER, "unknown", "unknown")


@pytest.mark.parametrize(
    ("outermost", "call"),
    [("__x64_sys_pwrite64", "pwrite64"), ("__arm64_sys_fdatasync", "fdatasync"), ("el0_da", "page fault")],
)
def test_the_call_of_the_program(outermost: str, call: str) -> None:
    assert call_of(("schedule", "wbt_wait", outermost, "do_syscall_64")) == call


def test_the_function_that_says_why() -> None:
    assert function_of(STACKS["discard"]) == "blkdev_issue_discard"


def test_every_function_has_one_cause() -> None:
    functions = Counter(function for cause in CAUSES for function in cause.functions)
    assert [function for function, count in functions.items() if count > 1] == []


def test_every_knob_is_in_the_catalogue() -> None:
    assert {knob for cause in CAUSES for knob in cause.knobs} <= {knob.id for knob in KNOBS}
