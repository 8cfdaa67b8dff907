"""What trades crash safety for speed is named from what is live, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.facts import collect
from highwater.tuning.trades import durability_trades
from tests.tuning.host_tree import GIB, Disk, make_host


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("data=writeback", "data=writeback on /data: after a crash files may hold old blocks"),
        ("nobarrier", "nobarrier on /data: a power cut may lose or reorder what was synced"),
        ("barrier=0", "barrier=0 on /data: a power cut"),
        ("commit=30", "commit=30 on /data: a crash may cost 30 s of metadata instead of 5"),
    ],
)
def test_a_mount_option_that_trades_safety_away(tmp_path: Path, option: str, words: str) -> None:
    facts = collect(make_host(tmp_path, disks=[Disk("sda", "/data", mount_options=f"rw,relatime,{option}")]))
    (trade,) = durability_trades(facts, ["/data/log", "/data/other"])
    assert str(trade).startswith(words)
    assert durability_trades(facts) == [], "only of the mounts that are asked about"


@pytest.mark.parametrize("option", ["data=ordered", "barrier=1", "barrier", "commit=5", "noatime"])
def test_what_is_safe_is_not_named(tmp_path: Path, option: str) -> None:
    facts = collect(make_host(tmp_path, disks=[Disk("sda", "/data", mount_options=f"rw,{option}")]))
    assert durability_trades(facts, ["/data"]) == []


@pytest.mark.parametrize(
    ("sysctls", "words"),
    [
        ({"vm.dirty_bytes": str(60 * GIB), "vm.dirty_ratio": "0"}, "a power cut may cost 60 GiB"),
        ({"vm.dirty_ratio": "80"}, "vm.dirty_ratio=80: a power cut may cost 80 % of available memory"),
        ({"vm.dirty_expire_centisecs": "9000"}, "what was written in the last 90 s, instead of 30"),
    ],
)
def test_a_host_that_keeps_much_unwritten(tmp_path: Path, sysctls: dict[str, str], words: str) -> None:
    (trade,) = durability_trades(collect(make_host(tmp_path, memory_bytes=64 * GIB, sysctls=sysctls)))
    assert words in str(trade)


def test_a_host_as_the_kernel_comes(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, sysctls={"vm.dirty_expire_centisecs": "3000"}))
    assert durability_trades(facts, ["/data"]) == []
