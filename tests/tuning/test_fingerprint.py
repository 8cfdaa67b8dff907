"""One value for how a host is set: steady when nothing was set, another when something was."""

from __future__ import annotations

import re
from pathlib import Path

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.check import sysctl_path
from highwater.tuning.facts import collect
from highwater.tuning.fingerprint import fingerprint
from tests.tuning.host_tree import Disk, make_host, write


def test_it_is_of_the_settings_alone(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    one, listed = fingerprint(collect(root))
    assert listed["vm.swappiness"] == "60"
    assert listed["vm.dirty_ratio" if "vm.dirty_ratio" in listed else "vm.dirty_bytes"] == "20 %"
    meminfo = (root / "proc/meminfo").read_text()
    write(root, "/proc/meminfo", re.sub(r"MemAvailable: +\d+", "MemAvailable: 1000000", meminfo))
    assert fingerprint(collect(root))[0] == one, "memory that is free now is not a setting"
    write(root, sysctl_path("vm.swappiness"), "1\n")
    assert fingerprint(collect(root))[0] != one


def test_every_digit_counts(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    one, listed = fingerprint(collect(root))
    assert listed["net.core.rmem_max"] == "212992"
    write(root, sysctl_path("net.core.rmem_max"), "212993\n")
    assert fingerprint(collect(root))[0] != one


def test_where_a_log_lies_is_listed_and_no_part_of_the_value(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, disks=(Disk("sda", "/d1"), Disk("sdb", "/d2", schedulers="none [kyber]"))))
    first, on_first = fingerprint(facts, ["/d1"])
    second, on_second = fingerprint(facts, ["/d2"])
    assert first == second == fingerprint(facts)[0]
    assert (on_first["disk.scheduler sda"], on_second["disk.scheduler sdb"]) == ("none", "kyber")
    assert on_first["mount.noatime /d1"] == "relatime"


def test_limits_of_a_session_are_no_part_of_the_value(tmp_path: Path) -> None:
    one = fingerprint(collect(make_host(tmp_path / "ssh", nofile=(1024, 524288))))
    other = fingerprint(collect(make_host(tmp_path / "unit", nofile=(100_000, 524288))))
    assert one[0] == other[0]


def test_what_is_missing_is_missing_whatever_the_reason(tmp_path: Path) -> None:
    one = fingerprint(collect(make_host(tmp_path / "a", sysctls={"vm.max_map_count": None}, kernel="6.1.0-18")))
    other = fingerprint(collect(make_host(tmp_path / "b", sysctls={"vm.max_map_count": None}, kernel="6.1.0-19")))
    assert one[1]["vm.max_map_count"] == "?"
    assert one[0] == other[0]


def test_everything_that_holds_for_a_host_is_listed(tmp_path: Path) -> None:
    _, listed = fingerprint(collect(make_host(tmp_path)), ["/data"])
    known = {name.partition(" ")[0] for name in listed}
    missing = {
        knob.id for knob in KNOBS if knob.scope in ("host", "network namespace", "login", "mount", "disk")
    } - known
    assert missing == {"clock.sync"}
