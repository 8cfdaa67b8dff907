"""The mount option of the measurement of writes: set and taken back in turns, and in the end as it was."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from highwater.bench.development.write_waits import mount_option
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect_from
from tests.tuning.fake_kernel import FakeKernel, FakeRunner
from tests.tuning.host_tree import Disk, make_host

FOLDER = Path("/data/logs")


def host(root: Path, options: str) -> FakeKernel:
    make_host(root, disks=[Disk("sda", "/data", mount_options=options)])
    return FakeKernel(root)


def options_of(kernel: FakeKernel) -> set[str]:
    mount = collect_from(kernel).mount_of(str(FOLDER))
    assert mount is not None
    return set(mount.options)


@pytest.mark.parametrize("before", ["rw,relatime,lazytime", "rw,relatime"])
@pytest.mark.parametrize("last", [True, False])
def test_the_option_is_as_it_was_in_the_end(tmp_path: Path, before: str, last: bool) -> None:
    kernel = host(tmp_path, before)
    options = options_of(kernel)
    with mount_option(kernel, FakeRunner(kernel), FOLDER, "lazytime") as have_option:
        have_option(True)
        assert options_of(kernel) == options | {"lazytime"}
        have_option(False)
        assert options_of(kernel) == options - {"lazytime"}
        have_option(last)
    assert options_of(kernel) == options


def test_the_option_is_as_it_was_after_a_failure(tmp_path: Path) -> None:
    kernel = host(tmp_path, "rw,relatime,lazytime")
    options = options_of(kernel)
    with suppress(ZeroDivisionError), mount_option(kernel, FakeRunner(kernel), FOLDER, "lazytime") as have_option:
        have_option(False)
        raise ZeroDivisionError
    assert options_of(kernel) == options


def test_an_option_that_excludes_another_takes_its_place_for_a_while(tmp_path: Path) -> None:
    kernel = host(tmp_path, "rw,relatime")
    options = options_of(kernel)
    with mount_option(kernel, FakeRunner(kernel), FOLDER, "noatime") as have_option:
        have_option(True)
        assert options_of(kernel) == options - {"relatime"} | {"noatime"}
    assert options_of(kernel) == options


def test_without_an_option_nothing_is_remounted(tmp_path: Path) -> None:
    kernel = host(tmp_path, "rw,relatime")
    runner = FakeRunner(kernel)
    with mount_option(kernel, runner, FOLDER, None) as have_option:
        have_option(True)
    assert runner.commands == []


def test_a_refused_remount_is_one_line(tmp_path: Path) -> None:
    kernel = host(tmp_path, "rw,relatime")
    runner = FakeRunner(kernel, failing=frozenset({"mount"}))
    with (
        pytest.raises(TuningError, match=r"mount -o .*lazytime.*` failed: mount: it did not work"),
        mount_option(kernel, runner, FOLDER, "lazytime") as have_option,
    ):
        have_option(True)
