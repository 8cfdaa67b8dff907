"""Whose CPU time it is: the nearest ancestor with a group decides."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater.bench.host.processes import (
    Process,
    ProcessGroups,
    process_table,
    resident_bytes,
    storage_bytes,
    use_by_group,
)
from tests.waiting import wait_until

TABLE = {
    1: Process(parent=0, cpu_s=100.0),
    10: Process(parent=1, cpu_s=1.0),  # the harness
    11: Process(parent=10, cpu_s=2.0),  # its broker
    12: Process(parent=11, cpu_s=4.0),  # the broker's helper
    13: Process(parent=10, cpu_s=8.0),  # ZooKeeper
    14: Process(parent=10, cpu_s=16.0),  # Spark's JVM
    15: Process(parent=14, cpu_s=32.0),  # a load task
    20: Process(parent=1, cpu_s=64.0),  # somebody else
}


def test_a_root_inside_another_group_is_its_own_groups_alone() -> None:
    use = use_by_group(TABLE, ProcessGroups(system=(11,), attendants=(13,), generator=(10,)))
    assert {name: (sorted(group.process_ids), group.cpu_s) for name, group in use.items()} == {
        "system": ([11, 12], 6.0),
        "attendants": ([13], 8.0),
        "generator": ([10, 14, 15], 49.0),
    }


def test_what_belongs_to_others_is_nobodys_here() -> None:
    use = use_by_group(TABLE, ProcessGroups(system=(11,), generator=(10,), others=(13, 15)))
    assert {name: (sorted(group.process_ids), group.cpu_s) for name, group in use.items()} == {
        "system": ([11, 12], 6.0),
        "attendants": ([], None),
        "generator": ([10, 14], 17.0),
    }


def test_a_group_without_processes_has_used_an_unknown_amount() -> None:
    use = use_by_group(TABLE, ProcessGroups(system=(99,)))
    assert use["system"].cpu_s is None
    assert use["attendants"].process_ids == ()


def test_a_circle_of_parents_ends() -> None:
    circle = {2: Process(parent=3, cpu_s=1.0), 3: Process(parent=2, cpu_s=1.0)}
    assert use_by_group(circle, ProcessGroups(system=(9,)))["system"].cpu_s is None


def test_a_name_with_brackets_and_spaces_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) b (c) S 3 " + " ".join(str(number) for number in range(5, 53)) + "\n")
    (tmp_path / "self").mkdir()
    (process,) = process_table(tmp_path).values()
    assert process.parent == 3
    assert process.cpu_s == pytest.approx((14 + 15 + 16 + 17) / 100)


def test_cpu_time_is_finer_than_a_tick() -> None:
    """A phase of a second would otherwise be known to one per cent at best."""
    mine = process_table()[os.getpid()].cpu_s
    assert mine <= time.process_time() + sum(os.times()[2:4])
    assert abs(mine * 100 - round(mine * 100)) > 1e-6


def test_what_a_child_used_stays_in_the_sum_when_it_ends() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        use = use_by_group(process_table(), ProcessGroups(system=(process.pid,)))["system"]
        assert use.process_ids == (process.pid,)
        assert use.cpu_s is not None
        assert use.cpu_s >= 0.29
    finally:
        process.communicate(b"\n")


def test_bytes_that_a_process_had_written_are_its_own(disk_path: Path) -> None:
    script = (
        "import os, sys\n"
        "with open(sys.argv[1], 'wb') as file:\n"
        "    file.write(bytes(1 << 20)); file.flush(); os.fsync(file.fileno())\n"
        "print(flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(disk_path / "file")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        moved = storage_bytes([process.pid])
        assert moved is not None
        assert moved[1] >= 1 << 20
        resident = resident_bytes([process.pid])
        assert resident is not None
        assert resident > 1 << 20
    finally:
        process.communicate(b"\n")
    wait_until(lambda: storage_bytes([process.pid]) is None, "the end of its figures")
    assert resident_bytes([process.pid]) is None
