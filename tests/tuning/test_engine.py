"""The engine on trees that are no host: a plan is carried out whole or not at all, and every refusal says why."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.tuning import engine
from highwater.tuning.errors import PartlyChangedError, TuningError
from highwater.tuning.journal import APPLIED, FOLDER, SESSION, Owner
from highwater.tuning.runner import CapturedTreeRunner, Completed
from highwater.tuning.steps import CommandStep, FileStep, SettingStep, Step, TuningPlan
from tests.tuning.every_step import (
    DIRTY_BYTES,
    DIRTY_RATIO,
    EVERYTHING,
    FSTAB,
    FSTAB_TEXT,
    OWNER,
    SWAPPINESS,
    SYSCTL_FILE,
    TCP_RMEM,
    THP,
    apply,
    dirty,
    drop_in,
    fstab,
    host,
    reload,
    remount,
    roll_back,
    swap_off,
    swappiness,
    sysctl_file,
    tcp_rmem,
    thp,
    without_journal,
)
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, whole_tree
from tests.tuning.host_tree import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return host(tmp_path / "host")


def test_all_of_a_plan_is_done_in_its_order_and_taken_back_in_reverse(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    runner = FakeRunner(kernel)
    done = engine.apply(kernel, runner, EVERYTHING, OWNER)
    assert done.skipped == ()
    assert len(done.done) == len(EVERYTHING.steps)
    assert kernel.read(SWAPPINESS).text == "1"
    assert (kernel.read(DIRTY_BYTES).text, kernel.read(DIRTY_RATIO).text) == ("1000000000", "0")
    assert kernel.read(TCP_RMEM).text == "4096\t131072\t25000000"
    assert kernel.read(THP).text == "always madvise [never]"
    assert (root / FSTAB[1:]).read_text() == fstab.after
    assert (root / FSTAB[1:]).stat().st_mode & 0o777 == 0o640, "a file that is edited keeps its mode"
    assert "/data rw,noatime " in (root / "proc/self/mountinfo").read_text()
    assert "/dev/sdb1" not in (root / "proc/swaps").read_text()
    assert runner.commands == [
        "systemctl daemon-reload",
        "mount -o remount,bind,rw,noatime /dev/sda1 /data",
        "swapoff /dev/sdb1",
    ]
    back = roll_back(kernel)
    assert [held.resource.names[0] for held in back.restored][:3] == ["/dev/sdb1", "/data", "/etc/sysctl.d/10-old.conf"]
    assert (back.kept, back.problems) == ((), ())
    assert whole_tree(root) == before
    assert roll_back(kernel) == engine.Rollback()


def test_every_change_is_announced_before_the_first_is_made(root: Path) -> None:
    kernel = FakeKernel(root)
    engine.apply(kernel, FakeRunner(kernel), EVERYTHING, OWNER)
    first_append = kernel.operations.index(f"append {APPLIED}")
    assert all(operation.startswith("mkdir /var/lib/highwater") for operation in kernel.operations[:first_append])
    (begin, *_) = (root / APPLIED[1:]).read_text().splitlines()
    for step in EVERYTHING.steps:
        assert isinstance(step, CommandStep) or all(f'"{name}"' in begin for name in step.resource.names)


def test_a_plan_that_is_in_force_changes_nothing_and_leaves_nothing(root: Path) -> None:
    kernel = FakeKernel(root)
    assert apply(kernel) == engine.Applied((), ())
    kernel.write_setting(SWAPPINESS, "1")
    before = whole_tree(root)
    assert apply(kernel, swappiness).done == ()
    assert whole_tree(root) == before


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EINVAL, r"vm\.swappiness: the kernel refuses '1' \(Invalid argument\); everything was put back"),
        (errno.EPERM, r"vm\.swappiness: the kernel refuses '1' \(Operation not permitted\); run as root"),
        (
            errno.EROFS,
            r"vm\.swappiness: .* \(Read-only file system\); it is read-only here; change it on the host below",
        ),
        (errno.ENODEV, r"vm\.swappiness: .* \(No such device\); it is no longer there; everything was put back"),
    ],
)
def test_a_refused_write_takes_back_what_was_done_before(root: Path, number: int, message: str) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    kernel.refused = {SWAPPINESS: number}
    with pytest.raises(TuningError, match=message) as caught:
        apply(kernel, dirty, fstab, drop_in, swappiness)
    assert not isinstance(caught.value, PartlyChangedError)
    assert "\n" not in str(caught.value)
    assert whole_tree(root) == before


def test_an_ignored_write_is_noticed(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    kernel.ignored = {SWAPPINESS}
    with pytest.raises(
        TuningError, match=r"^vm\.swappiness: the write of '1' had no effect, it reads '60'; everything"
    ):
        apply(kernel, dirty, swappiness)
    assert whole_tree(root) == before


def test_a_value_below_two_pages_is_noticed(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    with pytest.raises(TuningError, match=r"^vm\.dirty_bytes: the write of '4096' had no effect, it reads '0'"):
        apply(kernel, dataclasses.replace(dirty, after="4096"))
    assert whole_tree(root) == before


def test_a_value_that_the_kernel_makes_another_of_is_put_back(root: Path) -> None:
    before = whole_tree(root)

    class Clamping(FakeKernel):
        def write_setting(self, path: str, text: str) -> None:
            super().write_setting(path, str(min(int(text), 100)))

    with pytest.raises(
        TuningError, match=r"^vm\.swappiness: the write of '200' had no effect, it reads '100'; everythin"
    ):
        apply(Clamping(root), dataclasses.replace(swappiness, after="200"))
    assert whole_tree(root) == before


def test_a_device_that_goes_while_it_is_tuned(root: Path) -> None:
    write(root, "/sys/block/sda/queue/nr_requests", "64\n")
    kernel = FakeKernel(root)
    kernel.vanishing = {"/sys/block/sda/queue/nr_requests"}
    step = SettingStep("disk.nr_requests", "sda", "/sys/block/sda/queue/nr_requests", "64", "100")
    message = r"nr_requests: it disappeared while it was being set to '100'; everything was"
    with pytest.raises(TuningError, match=message):
        apply(kernel, swappiness, step)
    assert kernel.read(SWAPPINESS).text == "60"
    assert not kernel.exists(FOLDER)


def test_a_device_that_went_later_needs_no_restoring(root: Path) -> None:
    write(root, "/sys/block/sda/queue/nr_requests", "64\n")
    kernel = FakeKernel(root)
    apply(kernel, swappiness, SettingStep("disk.nr_requests", "sda", "/sys/block/sda/queue/nr_requests", "64", "100"))
    (root / "sys/block/sda/queue/nr_requests").unlink()
    assert [held.standing for held in engine.status(kernel).changes] == ["in_force", "gone"]
    back = roll_back(kernel)
    assert [held.describe() for held in back.restored] == ["vm.swappiness: 1 -> 60"]
    assert (back.kept, back.problems, kernel.exists(FOLDER)) == ((), (), False)


def test_what_is_not_there_or_not_as_planned_stops_everything(root: Path) -> None:
    kernel = FakeKernel(root)
    kernel.write_setting(SWAPPINESS, "33")
    (root / THP[1:]).unlink()
    write(root, FSTAB, FSTAB_TEXT + "# more\n")
    before = whole_tree(root)
    with pytest.raises(TuningError) as caught:
        apply(kernel, dirty, swappiness, thp, fstab)
    assert str(caught.value) == (
        f"vm.swappiness was changed since this was planned; plan again; {THP} is not there; "
        "/etc/fstab was changed since this was planned; plan again; nothing was changed"
    )
    assert whole_tree(root) == before


@pytest.mark.parametrize(("full", "program"), [("/var/lib/highwater", "the journal"), ("/etc/sysctl.d", SYSCTL_FILE)])
def test_a_full_file_system_changes_nothing(root: Path, full: str, program: str) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    kernel.full = (full,)
    with pytest.raises(TuningError, match=rf"^{program}.* cannot be written \(No space left on device\)"):
        apply(kernel, swappiness, sysctl_file)
    assert whole_tree(root) == before


def test_a_command_that_fails_takes_everything_back(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    with pytest.raises(TuningError, match=r"^/dev/sdb1: `swapoff /dev/sdb1` failed: swapoff: it did not work; everyth"):
        apply(kernel, swappiness, remount, swap_off, runner=FakeRunner(kernel, failing=frozenset({"swapoff"})))
    assert whole_tree(root) == before


def test_what_cannot_be_put_back_is_told_with_the_way_back(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    runner = FakeRunner(kernel, failing=frozenset({"systemctl"}))
    with pytest.raises(PartlyChangedError, match=r"`systemctl daemon-reload` failed: .*then run `highwater tune roll"):
        apply(kernel, drop_in, reload, runner=runner)
    assert "ended after 1 of 2 changes" in engine.interrupted(kernel)
    assert roll_back(kernel).problems == ()
    assert whole_tree(root) == before


def test_what_somebody_else_changes_while_it_fails_stays(root: Path) -> None:
    kernel = FakeKernel(root)

    class Meddled(FakeRunner):
        def run(self, argv: Sequence[str]) -> Completed:
            kernel.write_setting(SWAPPINESS, "33")
            return Completed(1, "", "no")

    with pytest.raises(TuningError, match="everything was put back"):
        apply(kernel, dirty, swappiness, remount, runner=Meddled(kernel))
    assert kernel.read(SWAPPINESS).text == "33"
    assert kernel.read(DIRTY_RATIO).text == "20"


def test_an_interrupt_takes_everything_back(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)

    class Interrupted(FakeRunner):
        def run(self, argv: Sequence[str]) -> Completed:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(kernel, swappiness, fstab, remount, runner=Interrupted(kernel))
    assert whole_tree(root) == before


def test_a_second_apply_that_fails_goes_back_to_the_first(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    apply(kernel, swappiness, sysctl_file)
    first = without_journal(root)
    again = dataclasses.replace(swappiness, before="1", after="2")
    more = FileStep(SYSCTL_FILE, "vm.swappiness = 1\n", "vm.swappiness = 2\n")
    kernel.refused = {DIRTY_BYTES: errno.EINVAL}
    with pytest.raises(TuningError, match="everything was put back"):
        apply(kernel, again, more, dirty)
    assert without_journal(root) == first
    assert engine.interrupted(kernel) == ""
    assert [held.standing for held in engine.status(kernel).changes] == ["in_force", "in_force"]
    roll_back(kernel)
    assert whole_tree(root) == before


def test_after_a_boot_the_files_go_and_settings_are_as_the_boot_made_them(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, swappiness, dirty, sysctl_file, remount, swap_off)
    write(root, "/proc/sys/kernel/random/boot_id", "another\n")
    write(root, SWAPPINESS, "47\n")
    assert engine.status(kernel).booted_since
    back = roll_back(kernel)
    assert (back.kept, back.problems) == ((), ())
    assert kernel.read(SWAPPINESS).text == "47", "somebody else's boot setting"
    assert kernel.read(DIRTY_RATIO).text == "20", "our file had set it"
    assert not kernel.exists(SYSCTL_FILE)
    assert not kernel.exists(FOLDER)


def test_a_priority_that_was_asked_for_comes_back(root: Path) -> None:
    write(root, "/proc/swaps", "Filename Type Size Used Priority\n/dev/sdb1 partition 1048576 0 7\n")
    kernel = FakeKernel(root)
    apply(kernel, dataclasses.replace(swap_off, priority=7))
    roll_back(kernel)
    assert kernel.read("/proc/swaps").text == "Filename Type Size Used Priority\n/dev/sdb1 partition 1048576 0 7"


def test_swap_that_does_not_fit_into_memory_is_left_alone(root: Path) -> None:
    write(root, "/proc/swaps", "Filename Type Size Used Priority\n/dev/sdb1 partition 90000000 60000000 -2\n")
    before, kernel = whole_tree(root), FakeKernel(root)
    with pytest.raises(TuningError, match=r"^/dev/sdb1 holds 57\.2 GiB and only 57\.6 GiB of memory is available"):
        apply(kernel, swappiness, swap_off)
    assert whole_tree(root) == before


def test_a_captured_tree_has_no_running_system(root: Path) -> None:
    kernel, runner = FakeKernel(root), CapturedTreeRunner()
    done = engine.apply(kernel, runner, EVERYTHING, OWNER)
    assert done.skipped == tuple(f"{step.describe()}: not on a captured tree" for step in (reload, remount, swap_off))
    assert len(done.done) == len(EVERYTHING.steps) - 3
    assert engine.rollback(kernel, runner).problems == ()


def test_a_link_out_of_a_captured_tree_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "etc/sysctl.d/10-old.conf").unlink()
    (root / "etc/sysctl.d").rmdir()
    (root / "etc/sysctl.d").symlink_to(tmp_path / "outside")
    kernel = FakeKernel(root)
    with pytest.raises(TuningError, match=r"leads out of the captured tree.*everything was put back as it was$"):
        apply(kernel, sysctl_file)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_is_no_file_to_edit(root: Path) -> None:
    (root / FSTAB[1:]).rename(root / "etc/fstab.real")
    (root / FSTAB[1:]).symlink_to("fstab.real")
    with pytest.raises(TuningError, match=r"^/etc/fstab is a link or no regular file; .*; nothing was changed$"):
        apply(FakeKernel(root), fstab)


def test_the_text_of_a_private_file_stays_private(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, swappiness)
    assert (root / APPLIED[1:]).stat().st_mode & 0o777 == 0o644, "everybody may ask what is in force"
    apply(kernel, fstab)
    assert (root / APPLIED[1:]).stat().st_mode & 0o777 == 0o600


def test_an_interrupt_while_the_journal_is_written_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)

    def interrupted(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "journal.jsonl":
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply(kernel, swappiness)
    assert whole_tree(root) == before


def test_two_runs_never_change_a_host_at_once(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, swappiness)
    with kernel.lock_folder(FOLDER):
        for attempt in (lambda: apply(kernel, dirty), lambda: roll_back(kernel)):
            with pytest.raises(TuningError, match=r"^another process is changing this host's settings; try again"):
                attempt()
    roll_back(kernel)


def test_a_session_is_respected_while_its_process_lives_and_taken_back_after(root: Path) -> None:
    before, kernel = whole_tree(root), FakeKernel(root)
    stat = write(root, f"/proc/{os.getpid()}/stat", Path("/proc/self/stat").read_text())
    apply(kernel, dirty)
    applied = without_journal(root)
    owner = Owner.this_process(kernel, "notes")
    assert owner.lives(kernel)
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((swappiness,)), owner, SESSION)
    living = rf"^the run of process {os.getpid()} has host profile notes in force; wait for its end$"
    for attempt in (lambda: apply(kernel, tcp_rmem), lambda: roll_back(kernel), lambda: recover(kernel)):
        with pytest.raises(TuningError, match=living):
            attempt()
    assert engine.status(kernel).session_lives
    engine.rollback(kernel, FakeRunner(kernel), journals=(SESSION,), owner=owner)
    assert without_journal(root) == applied
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((swappiness,)), owner, SESSION)
    stat.unlink()
    stat.parent.rmdir()
    with pytest.raises(TuningError, match=r"^a run that was killed left host profile notes in force; undo it"):
        apply(kernel, tcp_rmem)
    assert [held.describe() for held in recover(kernel).restored] == ["vm.swappiness: 1 -> 60"]
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((swappiness,)), owner, SESSION)
    assert [held.resource.names[0] for held in roll_back(kernel).restored] == [SWAPPINESS, DIRTY_BYTES]
    assert whole_tree(root) == before


def recover(kernel: FakeKernel) -> engine.Rollback:
    return engine.recover(kernel, FakeRunner(kernel))


def test_a_session_is_over_with_its_boot(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, swappiness, journal=SESSION)
    write(root, "/proc/sys/kernel/random/boot_id", "another\n")
    assert recover(kernel).restored == ()
    assert kernel.read(SWAPPINESS).text == "1", "whoever set it at boot meant it"
    assert not kernel.exists(FOLDER)


def test_settings_that_do_not_hold_are_named(root: Path) -> None:
    kernel = FakeKernel(root)
    apply(kernel, dirty, swappiness, thp)
    assert engine.differing(kernel, (dirty, swappiness, thp)) == []
    kernel.write_setting(SWAPPINESS, "33")
    kernel.write_setting(DIRTY_RATIO, "10")
    assert engine.differing(kernel, (dirty, swappiness, thp)) == [
        "vm.dirty_bytes is '0'",
        "vm.dirty_ratio is '10'",
        "vm.swappiness is '33'",
    ]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((swappiness, swappiness), r"vm\.swappiness would be changed twice \(vm\.swappiness: 60 -> 1; "),
        (
            (dirty, SettingStep("", "", DIRTY_RATIO, "20", "5", DIRTY_BYTES, "0")),
            r"vm\.dirty_bytes would be changed tw",
        ),
        ((dataclasses.replace(swappiness, after="60"),), r"vm\.swappiness would stay as it is"),
        (
            (dataclasses.replace(dirty, before="5", after="0"),),
            r"vm\.dirty_bytes: the kernel takes no 0 for it; set vm",
        ),
        ((FileStep("/dev/sdb1", None, "x"),), r"/dev/sdb1 is not below /etc: tuning writes no other files, and no dev"),
        ((FileStep("/etc/../dev/sdb1", None, "x"),), r"/etc/\.\./dev/sdb1 is not below /etc"),
        ((CommandStep(("mkfs.ext4", "/dev/sdb1"), (), ""),), r"mkfs\.ext4 is not among the programs that tuning runs"),
    ],
)
def test_a_plan_that_makes_no_sense(root: Path, steps: tuple[Step, ...], message: str) -> None:
    before = whole_tree(root)
    with pytest.raises(TuningError, match=f"^this plan cannot be applied: {message}"):
        apply(FakeKernel(root), *steps)
    assert whole_tree(root) == before
