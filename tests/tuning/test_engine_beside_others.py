"""What becomes of our changes when somebody else changed the same things before, between or after."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest

from highwater.tuning import engine
from highwater.tuning.errors import TuningError
from highwater.tuning.journal import APPLIED, FOLDER
from highwater.tuning.steps import FileStep, Step
from tests.tuning.every_step import (
    DIRTY_BYTES,
    DIRTY_RATIO,
    DROP_IN,
    FSTAB,
    FSTAB_TEXT,
    REQUESTS,
    SCHEDULER,
    SWAPPINESS,
    SYSCTL_FILE,
    add_disk,
    apply,
    dirty,
    drop_in,
    fstab,
    host,
    remount,
    requests,
    roll_back,
    scheduler,
    swappiness,
    sysctl_file,
)
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, whole_tree
from tests.tuning.host_tree import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host(tmp_path / "host")


def test_the_first_original_is_kept_over_several_applies(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    apply(kernel, swappiness, sysctl_file)
    apply(kernel, dataclasses.replace(swappiness, before="1", after="5"), dirty)
    assert engine.original_texts(kernel) == {SWAPPINESS: "60", SYSCTL_FILE: None, DIRTY_BYTES: "0", DIRTY_RATIO: "20"}
    roll_back(kernel)
    assert whole_tree(root) == before


def test_somebodys_value_between_two_applies_is_what_comes_back(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, swappiness, fstab)
    kernel.write_setting(SWAPPINESS, "30")
    edited = str(fstab.after) + "tmpfs /scratch tmpfs defaults 0 0\n"
    write(root, FSTAB, edited)
    apply(kernel, dataclasses.replace(swappiness, before="30"), FileStep(FSTAB, edited, "# ours\n" + edited))
    roll_back(kernel)
    assert kernel.read(SWAPPINESS).text == "30"
    assert (root / FSTAB[1:]).read_text() == FSTAB_TEXT + "tmpfs /scratch tmpfs defaults 0 0\n"


def test_a_later_value_of_somebody_else_stays_unless_forced(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, dirty, swappiness)
    kernel.write_setting(SWAPPINESS, "40")
    preview = engine.rollback(kernel, FakeRunner(kernel), dry_run=True)
    back = roll_back(kernel)
    assert preview == back
    assert [held.describe() for held in back.kept] == ["vm.swappiness was changed since: now 40, applied 1, before 60"]
    assert [held.describe() for held in back.restored] == [
        "vm.dirty_bytes and vm.dirty_ratio: vm.dirty_bytes = 1000000000 -> vm.dirty_ratio = 20"
    ]
    assert kernel.read(SWAPPINESS).text == "40"
    assert engine.interrupted(kernel) == ""
    assert [held.standing for held in engine.status(kernel).changes] == ["drifted"]
    forced = roll_back(kernel, force=True)
    assert [held.describe() for held in forced.restored] == ["vm.swappiness: 40 -> 60"]
    assert kernel.read(SWAPPINESS).text == "60"
    assert not kernel.exists(FOLDER)


def test_lines_that_others_added_stay_and_ours_go(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, fstab, sysctl_file, drop_in)
    write(root, FSTAB, str(fstab.after) + "tmpfs /scratch tmpfs defaults 0 0\n")
    write(root, SYSCTL_FILE, "# the night shift\nkernel.panic = 10\n" + str(sysctl_file.after))
    back = roll_back(kernel)
    assert (root / FSTAB[1:]).read_text() == FSTAB_TEXT + "tmpfs /scratch tmpfs defaults 0 0\n"
    assert (root / SYSCTL_FILE[1:]).read_text() == "# the night shift\nkernel.panic = 10\n"
    assert not (root / DROP_IN[1:]).parent.exists()
    assert [held.describe() for held in back.restored] == [
        f"remove {DROP_IN}",
        f"restore {SYSCTL_FILE}, keeping later edits",
        "restore /etc/fstab, keeping later edits",
    ]
    assert not kernel.exists(FOLDER)


def test_an_edit_of_the_very_line_that_we_edited_stays(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, fstab)
    text = str(fstab.after).replace("noatime", "noatime,nofail")
    write(root, FSTAB, text)
    back = roll_back(kernel)
    assert ([held.resource.names for held in back.kept], back.restored) == ([(FSTAB,)], ())
    assert (root / FSTAB[1:]).read_text() == text
    assert kernel.exists(APPLIED)


def test_a_file_that_somebody_removed_stays_removed(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, sysctl_file, fstab)
    (root / SYSCTL_FILE[1:]).unlink()
    (root / FSTAB[1:]).unlink()
    back = roll_back(kernel)
    assert [held.resource.names for held in back.kept] == [(FSTAB,)]
    assert not kernel.exists(SYSCTL_FILE)
    roll_back(kernel, force=True)
    assert (root / FSTAB[1:]).read_text() == FSTAB_TEXT
    assert not kernel.exists(FOLDER)


@pytest.fixture
def disk(root: Path) -> FakeKernel:
    return add_disk(root)


@pytest.mark.parametrize("steps", [(scheduler,), (scheduler, requests)])
def test_what_the_kernel_resets_with_a_scheduler_comes_back_with_it(disk: FakeKernel, steps: tuple[Step, ...]) -> None:
    before = whole_tree(disk.root)
    apply(disk, *steps)
    assert disk.read(REQUESTS).text == ("64" if requests in steps else "128")
    back = roll_back(disk)
    assert (back.kept, back.problems) == ((), ())
    assert whole_tree(disk.root) == before


def test_what_the_kernel_resets_with_a_scheduler_comes_back_when_an_apply_fails(disk: FakeKernel) -> None:
    before = whole_tree(disk.root)
    disk.refused = {SWAPPINESS: errno.EINVAL}
    with pytest.raises(TuningError, match="everything was put back"):
        apply(disk, scheduler, requests, swappiness)
    assert whole_tree(disk.root) == before


def test_somebodys_number_of_requests_survives_the_way_back_of_the_scheduler(disk: FakeKernel) -> None:
    apply(disk, scheduler)
    disk.write_setting(REQUESTS, "100")
    roll_back(disk)
    assert (disk.read(SCHEDULER).text, disk.read(REQUESTS).text) == ("none [mq-deadline]", "100")


def test_options_of_a_mount_that_others_changed_stay(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, remount)
    table = root / "proc/self/mountinfo"
    table.write_text(table.read_text().replace("rw,noatime", "rw,nosuid,noatime"))
    assert roll_back(kernel).kept == ()
    assert "/data rw,nosuid,relatime " in table.read_text()
