"""A run on the disks that is killed anywhere is gone on with by the next one, which formats nothing that was used."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playbooks.module_utils.data_disks import ledger
from playbooks.module_utils.data_disks.judging import Host, make_plan
from playbooks.module_utils.data_disks.making import carry_out, removals, take_away
from playbooks.module_utils.highwater.tuning.facts import collect
from playbooks.module_utils.highwater.tuning.hostfiles import HostFiles
from playbooks.module_utils.highwater.tuning.runner import Completed, SystemRunner
from tests.playbooks.private_host import run_until_killed
from tests.playbooks.test_storage import (
    MOUNT_POINT,
    at,
    disk,
    fstab_text,
    make,
    needs_disks,
    on_disks,
    plan_for,
    run,
)

WRITES = ("replace_file", "make_folder", "remove_file", "remove_folder_if_empty")


class Fuse:
    """Kills the process before its n-th step: a command that changes something, or a write to a file."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def burn(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def arm(self) -> None:
        for name in WRITES:
            setattr(HostFiles, name, self._fused(getattr(HostFiles, name)))

    def _fused(self, method: Any) -> Any:
        def step(*arguments: Any, **keywords: Any) -> Any:
            self.burn()
            return method(*arguments, **keywords)

        return step


class FusedRunner(SystemRunner):
    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse

    def run(self, argv: Sequence[str]) -> Completed:
        if "--no-act" not in argv:
            self.fuse.burn()
        return super().run(argv)


def made_with(device: str, steps: int) -> None:
    fuse = Fuse(steps)
    fuse.arm()
    facts, runner = collect(), FusedRunner(fuse)
    host = Host(facts, runner, fstab_text(), ledger.read(facts.files))
    plan = make_plan([disk(device)], host, allow_format=True)
    assert plan.faults == []
    if plan.changes():
        carry_out(plan, facts, runner)


def remove(runner: SystemRunner, *wipe: str) -> None:
    if isinstance(runner, FusedRunner):
        runner.fuse.arm()
    facts = collect()
    found, faults = removals(ledger.read(facts.files), facts, runner, wipe=wipe)
    assert faults == []
    take_away(found, facts, runner)


@pytest.mark.slow  # kills at every step, on loop devices
@needs_disks
def test_killed_at_every_step_and_gone_on_with(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        before = fstab_text()
        steps = killed = 0
        while run_until_killed(partial(made_with, device, steps)):
            killed += 1
            make(disk(device))
            assert plan_for(disk(device)).changes() == []
            assert fstab_text().count(MOUNT_POINT) == 1
            remove(SystemRunner(), device)
            assert fstab_text() == before
            assert (list(Path("/mnt").iterdir()), list(Path("/var/lib").iterdir())) == ([], [])
            at(0, bytes(1 << 20))(device)
            steps += 1
        assert killed > 7

    on_disks(tmp_path, 1, body, size_bytes=8 << 20)


@needs_disks
def test_killed_while_it_is_taken_away(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        before = fstab_text()
        steps = 0
        make(disk(device))
        while run_until_killed(partial(remove, FusedRunner(Fuse(steps)))):
            remove(SystemRunner())
            assert fstab_text() == before
            assert (list(Path("/mnt").iterdir()), list(Path("/var/lib").iterdir())) == ([], []), steps
            make(disk(device))
            steps += 1
        assert steps > 5

    on_disks(tmp_path, 1, body, size_bytes=8 << 20)


@needs_disks
@pytest.mark.parametrize("whole", [True, False])
def test_what_a_killed_mkfs_left_is_made_anew_unless_somebody_used_it(tmp_path: Path, whole: bool) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        make(disk(device))
        uuid = next(iter(ledger.read(collect().files).values())).uuid
        if whole:
            Path(MOUNT_POINT, "records").write_text("kept")
        run("umount", MOUNT_POINT)
        # As it is before mkfs has ended; what it writes last, the tables, is missing in the other case.
        files = collect().files
        entry = ledger.read(files)[MOUNT_POINT]
        ledger.write(files, {MOUNT_POINT: ledger.Entry(**{**vars(entry), "state": "formatting"})})
        if not whole:
            at(2048, bytes(1 << 20))(device)
        plan = plan_for(disk(device))
        if whole:
            assert plan.changes() == [f"mount {device} on {MOUNT_POINT}"]
            make(disk(device))
            assert Path(MOUNT_POINT, "records").read_text() == "kept"
        else:
            assert plan.faults == []
            assert plan.changes()[0].startswith(f"FORMAT {device}")
            assert plan_for(disk(device), allow_format=False).permissions
            make(disk(device))
            assert plan_for(disk(device)).changes() == []
            assert uuid in fstab_text()

    on_disks(tmp_path, 1, body, size_bytes=8 << 20)


@needs_disks
def test_two_runs_at_once_do_not_both_write(tmp_path: Path) -> None:
    def body(devices: list[str]) -> None:
        (device,) = devices
        Path(ledger.FOLDER).mkdir(parents=True)
        with (
            collect().files.lock_folder(ledger.FOLDER),
            pytest.raises(Exception, match="another run is at work on the disks of this host"),
        ):
            make(disk(device))
        assert Path(device).read_bytes() == bytes(8 << 20)

    on_disks(tmp_path, 1, body, size_bytes=8 << 20)
