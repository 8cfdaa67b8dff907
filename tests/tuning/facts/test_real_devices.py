"""A loop device of this machine, made for the test and gone after it. Needs root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.tuning.facts import collect

_SIZE_BYTES = 8 * 2**20


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "disk image"
    with image.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True)
    device = made.stdout.strip()
    yield device.removeprefix("/dev/")
    subprocess.run(["losetup", "--detach", device], check=True)


def test_a_loop_device_is_there_while_it_holds_a_file(loop_device: str, tmp_path: Path) -> None:
    device = collect().block_device(loop_device)
    assert device is not None
    assert (device.kind, device.size_bytes) == ("loop", _SIZE_BYTES)
    assert device.backing_file == str(tmp_path / "disk image")
    assert device.queue_number("read_ahead_kb")


def test_devices_have_the_kernels_own_numbers() -> None:
    for device in collect().block_devices:
        seen = subprocess.run(
            ["lsblk", "--noheadings", "--bytes", "--nodeps", "--output", "MAJ:MIN,SIZE", f"/dev/{device.name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert seen == [device.device_number, str(device.size_bytes)]
