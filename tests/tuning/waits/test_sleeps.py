"""The trace's text becomes sleeps: lines as a kernel 6.18 wrote them, and what gets lost."""

from __future__ import annotations

import pytest

from highwater.tuning.waits.sleeps import Sleep, SleepReader

SWITCH = "{name}-{thread}    [000] d..2. {at:.6f}: sched_switch: prev_comm={name} prev_pid={thread} prev_prio=120 "
SWITCH += "prev_state={state} ==> next_comm={next_name} next_pid={next} next_prio=120"


def switch(at: float, thread: int, state: str, next_thread: int, name: str = "python3", next_name: str = "dd") -> str:
    return SWITCH.format(at=at, thread=thread, state=state, next=next_thread, name=name, next_name=next_name)


def stack(at: float, thread: int, *functions: str) -> list[str]:
    head = f"         python3-{thread}    [001] d..2. {at:.6f}: <stack trace>"
    return [head, *(f" => {function}" for function in functions)]


def read(*lines: str, threads: frozenset[int] = frozenset({7, 8})) -> tuple[list[Sleep], SleepReader]:
    reader = SleepReader(threads)
    return [sleep for line in lines for sleep in reader.feed(line)], reader


def test_a_sleep_lasts_until_its_thread_runs_again() -> None:
    functions = ("schedule", "io_schedule", "folio_wait_writeback", "__x64_sys_pwrite64")
    sleeps, reader = read(
        switch(13866.244593, 7, "D", 21),
        *stack(13866.244594, 7, *functions),
        "          <idle>-0       [001] d.s4. 13866.251232: sched_waking: comm=python3 pid=7 prio=125 target_cpu=001",
        switch(13866.260593, 21, "S", 7),
    )
    assert [(sleep.thread_id, sleep.name, sleep.stack) for sleep in sleeps] == [(7, "python3", functions)]
    assert sleeps[0].duration_s == pytest.approx(0.016)
    assert reader.lost_events == 0


@pytest.mark.parametrize("state", ["S", "R", "R+", "I", "Z", "T"])
def test_other_states_are_no_sleep_of_the_kernel(state: str) -> None:
    assert read(switch(1.0, 7, state, 21), switch(2.0, 21, "S", 7))[0] == []


def test_threads_of_other_programs_are_left_out() -> None:
    assert read(switch(1.0, 21, "D", 7), *stack(1.0, 21, "io_schedule"), switch(2.0, 7, "S", 21))[0] == []


def test_a_thread_may_follow_another_that_sleeps_too() -> None:
    sleeps, _ = read(
        switch(1.0, 7, "D", 21),
        *stack(1.0, 7, "one"),
        switch(1.5, 8, "D|K", 7),
        *stack(1.5, 8, "two"),
        switch(1.75, 7, "S", 8),
    )
    assert [(sleep.thread_id, sleep.duration_s, sleep.stack) for sleep in sleeps] == [
        (7, 0.5, ("one",)),
        (8, 0.25, ("two",)),
    ]


def test_names_with_spaces_and_suffixes_of_functions() -> None:
    sleeps, _ = read(
        switch(1.0, 7, "D", 21, name="C2 CompilerThre"),
        *stack(1.0, 7, "folio_wait_bit_common.constprop.0", "vfs_write+0x1d0/0x420"),
        switch(2.0, 21, "S", 7, next_name="a ==> b"),
    )
    assert sleeps == [Sleep(7, "C2 CompilerThre", 1.0, ("folio_wait_bit_common", "vfs_write"))]


def test_a_later_stack_does_not_replace_the_first() -> None:
    sleeps, _ = read(
        switch(1.0, 7, "D", 21), *stack(1.0, 7, "first"), *stack(1.1, 7, "second"), switch(2.0, 21, "S", 7)
    )
    assert sleeps[0].stack == ("first",)


def test_after_lost_events_no_sleep_is_taken_for_longer_than_it_was() -> None:
    sleeps, reader = read(
        switch(1.0, 7, "D", 21),
        "CPU:1 [LOST 1234 EVENTS]",
        " => io_schedule",
        switch(9.0, 21, "S", 7),
        switch(10.0, 7, "D", 21),
        switch(10.5, 21, "S", 7),
    )
    assert [sleep.duration_s for sleep in sleeps] == [0.5]
    assert reader.lost_events == 1234


def test_other_lines_are_passed_over() -> None:
    lines = ["# tracer: nop", "", "#  TASK-PID  CPU#  |||||  TIMESTAMP  FUNCTION", "CPU:0 [LOST many]", " => stray"]
    assert read(*lines, "x: sched_switch: prev_state=D of a new format")[0] == []
