"""Swap in its four forms, on and off."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.facts import collect
from highwater.tuning.facts.model import SwapSource
from tests.tuning.host_tree import make_host, write


def test_a_host_without_any(tmp_path: Path) -> None:
    assert collect(make_host(tmp_path)).swap_sources == ()


def test_active_swap_with_its_priority(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, swaps="/swap\\040file file 1024 0 -2\n/dev/zram0 partition 2048 8 100\n"))
    assert facts.swaps is not None
    assert [(swap.device, swap.priority) for swap in facts.swaps] == [("/swap file", -2), ("/dev/zram0", 100)]


def test_lines_of_fstab(tmp_path: Path) -> None:
    lines = (
        "#/dev/sdz none swap sw 0 0\nUUID=11-22 none swap sw 0 0\n/dev/sdb2 none swap noauto 0 0\n/dev/sda1 / ext4\n"
    )
    write(tmp_path, "/etc/fstab", lines)
    assert collect(tmp_path).swap_sources == (SwapSource("fstab", "/etc/fstab", "UUID=11-22"),)


def test_units_by_precedence_and_masks(tmp_path: Path) -> None:
    write(tmp_path, "/etc/systemd/system/data-swap.swap", "[Swap]\nWhat=/data/swap\n")
    write(tmp_path, "/usr/lib/systemd/system/data-swap.swap", "[Swap]\nWhat=/elsewhere\n")
    (tmp_path / "etc/systemd/system/dev-sdb.swap").symlink_to("/dev/null")
    write(tmp_path, "/usr/lib/systemd/system/dev-sdb.swap", "[Swap]\nWhat=/dev/sdb\n")
    write(tmp_path, "/run/systemd/generator.late/dev-sda3.swap", "[Unit]\n[Swap]\nWhat=/dev/sda3\n")
    generated = "[Unit]\nSourcePath=/etc/fstab\n[Swap]\nWhat=/dev/sda2\n"
    write(tmp_path, "/run/systemd/generator/dev-sda2.swap", generated)
    assert collect(tmp_path).swap_sources == (
        SwapSource("systemd", "/etc/systemd/system/data-swap.swap", "/data/swap"),
        SwapSource("systemd", "/etc/systemd/system/dev-sdb.swap", "", masked=True),
        SwapSource("systemd", "/run/systemd/generator.late/dev-sda3.swap", "/dev/sda3"),
    )


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("[zram0]\nzram-size = ram / 2\n", [("/dev/zram0", False)]),
        ("[zram0]\nzram-size = 0\n[zram1]\nmount-point = /tmp\n", [("/dev/zram0", True)]),
        ("", [("", True)]),
        ("# nothing yet\n", [("", True)]),
    ],
)
def test_the_first_configuration_of_zram_generator_counts(
    tmp_path: Path, text: str, sources: list[tuple[str, bool]]
) -> None:
    write(tmp_path, "/usr/lib/systemd/zram-generator.conf", "[zram7]\n")
    write(tmp_path, "/etc/systemd/zram-generator.conf", text)
    found = collect(tmp_path).swap_sources
    assert [(source.device, source.masked) for source in found] == sources
    assert all(source.form == "zram-generator" and source.path.startswith("/etc/") for source in found)


def test_dphys_swapfile(tmp_path: Path) -> None:
    write(tmp_path / "on", "/etc/dphys-swapfile", "CONF_SWAPFILE=/var/s\nCONF_SWAPSIZE=100\n")
    write(tmp_path / "plain", "/etc/dphys-swapfile", "# as installed\n")
    write(tmp_path / "off", "/etc/dphys-swapfile", "CONF_SWAPSIZE=0\n")
    write(tmp_path / "masked", "/etc/dphys-swapfile", "CONF_SWAPSIZE=100\n")
    write(tmp_path / "masked", "/etc/systemd/system/dphys-swapfile.service", "")
    found = {name: collect(tmp_path / name).swap_sources[0] for name in ("on", "plain", "off", "masked")}
    assert {name: source.masked for name, source in found.items()} == {
        "on": False,
        "plain": False,
        "off": True,
        "masked": True,
    }
    assert (found["on"].device, found["plain"].device) == ("/var/s", "/var/swap")
