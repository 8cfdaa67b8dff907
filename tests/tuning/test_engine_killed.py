"""A process killed at each of its operations in turn: the next apply goes on, and a rollback brings everything back."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from highwater.tuning import engine
from highwater.tuning.errors import TuningError
from highwater.tuning.runner import Completed
from highwater.tuning.steps import FileStep, RemountStep, Step, TuningPlan
from tests.tuning.every_step import (
    EVERYTHING,
    OWNER,
    SYSCTL_FILE,
    add_disk,
    apply,
    dirty,
    drop_in,
    host,
    reload,
    requests,
    roll_back,
    scheduler,
    swappiness,
    sysctl_file,
    tcp_rmem,
    thp,
    without_journal,
)
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, KilledError, reboot, whole_tree


class DyingRunner(FakeRunner):
    def run(self, argv: Sequence[str]) -> Completed:
        self.kernel.dead = True
        raise KilledError


def _apply_everything(kernel: FakeKernel) -> None:
    engine.apply(kernel, FakeRunner(kernel), EVERYTHING, OWNER)


def killed_at_every_operation(
    folder: Path, original: Path, half_way: bool, work: Callable[[FakeKernel], object]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A copy of the tree for each operation at which the process may die, and what an undisturbed run makes of it."""
    undisturbed = FakeKernel(copy_of(original, folder / "undisturbed"))
    work(undisturbed)
    complete = without_journal(undisturbed.root)
    assert len(undisturbed.operations) > len(EVERYTHING.steps)
    for number in range(1, len(undisturbed.operations) + 1):
        kernel = FakeKernel(copy_of(original, folder / str(number)))
        kernel.die_at, kernel.die_half_way = number, half_way
        with pytest.raises(KilledError):
            work(kernel)
        yield kernel.root, complete


def copy_of(original: Path, copy: Path) -> Path:
    shutil.copytree(original, copy, symlinks=True)
    return copy


def without_boot(tree: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in tree.items() if not path.endswith("boot_id")}


@pytest.mark.parametrize("half_way", [False, True])
@pytest.mark.parametrize("after", ["roll back", "roll back after a boot", "apply again"])
def test_killed_at_any_operation_of_an_apply(tmp_path: Path, after: str, half_way: bool) -> None:
    original = host(tmp_path / "original")
    before = whole_tree(original)
    for root, complete in killed_at_every_operation(tmp_path, original, half_way, _apply_everything):
        kernel = FakeKernel(root)
        if after == "roll back after a boot":
            reboot(root, before)
        if after == "apply again":
            engine.apply(kernel, FakeRunner(kernel), EVERYTHING, OWNER)
            assert without_journal(root) == complete
            assert engine.interrupted(kernel) == ""
            assert engine.apply(kernel, FakeRunner(kernel), EVERYTHING, OWNER).done == (reload.describe(),)
        back = roll_back(kernel)
        assert (back.kept, back.problems) == ((), ())
        assert without_boot(whole_tree(root)) == without_boot(before)


@pytest.mark.parametrize("half_way", [False, True])
def test_killed_at_any_operation_of_a_rollback(tmp_path: Path, half_way: bool) -> None:
    original = host(tmp_path / "original")
    before = whole_tree(original)
    _apply_everything(FakeKernel(original))
    for root, _ in killed_at_every_operation(tmp_path, original, half_way, roll_back):
        kernel = FakeKernel(root)
        back = roll_back(kernel)
        assert (back.kept, back.problems) == ((), ())
        assert whole_tree(root) == before


@pytest.mark.parametrize("half_way", [False, True])
def test_killed_while_a_failed_apply_is_taken_back(tmp_path: Path, half_way: bool) -> None:
    original = host(tmp_path / "original")
    before = whole_tree(original)

    def fail(kernel: FakeKernel) -> None:
        with pytest.raises(TuningError):
            engine.apply(kernel, FakeRunner(kernel, failing=frozenset({"swapoff"})), EVERYTHING, OWNER)

    for root, complete in killed_at_every_operation(tmp_path, original, half_way, fail):
        assert complete == before
        roll_back(FakeKernel(root))
        assert whole_tree(root) == before


@pytest.mark.parametrize("half_way", [False, True])
def test_killed_at_any_operation_of_a_second_apply(tmp_path: Path, half_way: bool) -> None:
    original = host(tmp_path / "original")
    before = whole_tree(original)
    _apply_everything(FakeKernel(original))
    text = str(sysctl_file.after)
    second = TuningPlan(
        (
            dataclasses.replace(swappiness, before="1", after="5"),
            dataclasses.replace(dirty, before="1000000000", after="2000000000", twin_before="0"),
            FileStep(SYSCTL_FILE, text, text.replace("1", "5")),
            RemountStep("/data", ("rw", "noatime"), ("rw", "noatime", "nodiratime"), "mount"),
        )
    )

    def apply_second(kernel: FakeKernel) -> None:
        engine.apply(kernel, FakeRunner(kernel), second, OWNER)

    for root, _ in killed_at_every_operation(tmp_path, original, half_way, apply_second):
        back = roll_back(FakeKernel(root))
        assert (back.kept, back.problems) == ((), ())
        assert whole_tree(root) == before


def test_a_command_that_a_killed_apply_did_not_come_to_is_run_by_the_next(tmp_path: Path) -> None:
    root = host(tmp_path)
    kernel = FakeKernel(root)
    with pytest.raises(KilledError):
        apply(kernel, drop_in, reload, runner=DyingRunner(kernel))
    assert "ended after 1 of 2 changes" in engine.interrupted(FakeKernel(root))
    kernel = FakeKernel(root)
    assert apply(kernel).done == (reload.describe(),), "the drop-in is in place, so that a new plan has no steps"
    assert engine.interrupted(kernel) == ""


@pytest.mark.parametrize("steps", [(scheduler,), (scheduler, requests)])
def test_killed_while_a_scheduler_is_on_its_way_back(tmp_path: Path, steps: tuple[Step, ...]) -> None:
    disk = add_disk(host(tmp_path / "host"))
    before = whole_tree(disk.root)
    apply(disk, *steps, swappiness, tcp_rmem, thp, dirty)
    for root, complete in killed_at_every_operation(tmp_path, disk.root, False, roll_back):
        assert complete == before
        assert roll_back(FakeKernel(root)).kept == ()
        assert whole_tree(root) == before
