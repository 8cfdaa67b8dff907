"""`highwater tune check`, `list` and `facts` as a person and as a program see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.tuning.catalogue import KNOBS
from tests.tuning.cli.invoking import invoke
from tests.tuning.host_tree import Disk, make_host, write


def test_exit_code_1_when_something_differs(tmp_path: Path) -> None:
    result = invoke("check", "--root", str(make_host(tmp_path)), "--data-dir", "/data")
    assert result.exit_code == 1
    assert "differ" in result.stdout
    for knob in KNOBS:
        assert knob.id in result.stdout


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    told = f"note: --data-dir {tmp_path / 'none'}: not there"
    assert told in invoke("check", "--only", "vm.swappiness", "--data-dir", str(tmp_path / "none")).stderr
    assert invoke("check", "--only", "vm.swappiness", "--data-dir", str(tmp_path)).stderr == ""


def test_exit_code_0_when_everything_is_as_recommended(tmp_path: Path) -> None:
    disks = (Disk("sda", "/data", mount_options="rw,noatime"),)
    make_host(tmp_path, sysctls={"vm.swappiness": "1"}, disks=disks)
    result = invoke(
        "check", "--root", str(tmp_path), "--data-dir", "/data", "--only", "vm.swappiness", "--only", "mount.noatime"
    )
    assert result.exit_code == 0, result.stdout
    assert "2 ok" in result.stdout


def test_what_a_plain_apply_leaves_alone_is_shown_and_does_not_count(tmp_path: Path) -> None:
    root = str(make_host(tmp_path))
    result = invoke("check", "--root", root, "--only", "login.nofile", "--only", "kernel.core_pattern")
    assert " differ" in result.stdout
    assert result.exit_code == 0


def test_knobs_that_are_ok_have_a_row_only_with_all(tmp_path: Path) -> None:
    root = str(make_host(tmp_path, sysctls={"vm.max_map_count": "262144"}))
    only = ("--only", "vm.swappiness", "--only", "vm.max_map_count")
    short = invoke("check", "--root", root, *only).stdout
    assert "A broker swapped out stalls its clients" in short
    assert "262144" not in short
    assert "Ok\n  vm.max_map_count" in short
    assert "262144" in invoke("check", "--root", root, *only, "--all").stdout


def test_disks_that_are_alike_share_a_row(tmp_path: Path) -> None:
    disks = [Disk(f"sd{letter}", f"/data{letter}") for letter in "abcdefgh"]
    root = make_host(tmp_path, disks=disks)
    for disk in disks:
        write(root, f"/sys/block/{disk.name}/queue/nomerges", "2\n")
    folders = [word for disk in disks for word in ("--data-dir", disk.mount_point)]
    result = invoke("check", "--root", str(root), "--only", "disk.nomerges", *folders)
    assert result.exit_code == 1
    assert result.stdout.count("disk.nomerges  2") == 1
    assert "sda, sdb, sdc, sdd, sde, sdf, … and 2 more: " in result.stdout
    assert "8 differ" in result.stdout


def test_a_trade_is_left_alone_unless_its_risk_is_accepted(tmp_path: Path) -> None:
    root = str(make_host(tmp_path))
    call = ("check", "--root", root, "--data-dir", "/data", "--only", "mount.commit")
    assert invoke(*call).exit_code == 0
    accepted = invoke(*call, "--accept-risk", "mount.commit")
    assert (accepted.exit_code, "1 differ" in accepted.stdout) == (1, True)


def test_a_profile_is_another_aim(tmp_path: Path) -> None:
    root = str(make_host(tmp_path, sysctls={"vm.dirty_expire_centisecs": "3000"}))
    call = ("check", "--root", root, "--only", "vm.dirty_expire_centisecs")
    assert invoke(*call).exit_code == 0
    other = invoke(*call, "--profile", "latency")
    assert (other.exit_code, "5 s" in other.stdout) == (1, True)


def test_a_file_that_wins_at_boot_is_named(tmp_path: Path) -> None:
    root = make_host(tmp_path, sysctls={"vm.swappiness": "1"})
    write(root, "/etc/sysctl.d/99-late.conf", "vm.swappiness = 30\n")
    result = invoke("check", "--root", str(root), "--only", "vm.swappiness", "--all", columns=200)
    assert "At the next boot /etc/sysctl.d/99-late.conf:1 sets vm.swappiness = 30" in result.stdout


def test_a_trade_in_force_is_reported_with_its_cost(tmp_path: Path) -> None:
    root = make_host(tmp_path, disks=(Disk("sda", "/data", mount_options="rw,relatime,data=writeback"),))
    result = invoke("check", "--root", str(root), "--data-dir", "/data")
    assert "Durability that this host trades away\n  data=writeback on /data: after a crash" in result.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    root = str(make_host(tmp_path, read_only_proc_sys=True, swaps="/dev/mapper/vg-swap partition 8388604 0 -2\n"))
    for arguments in (
        ("check",),
        ("check", "--all"),
        ("list",),
        ("verify", "--recommended"),
        ("profiles",),
        ("sizing",),
        ("status",),
        ("facts",),
        ("explain", "vm.dirty_bytes"),
        ("explain", "net.ipv4.tcp_rmem"),
    ):
        result = invoke(*arguments, "--root", root, columns=columns)
        lines = [line for line in result.stdout.splitlines() if "https://" not in line]
        assert max(map(len, lines)) <= columns, arguments


def test_json_is_for_programs(tmp_path: Path) -> None:
    result = invoke("check", "--json", "--root", str(make_host(tmp_path)), "--data-dir", "/data", "-w", "rtt=100ms")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["schema"] == "tuning.check/1"
    assert document["facts"]["cpu_count"] == 8
    assert len(document["fingerprint"]) == 64
    knobs = {knob["id"]: knob for knob in document["knobs"]}
    assert knobs["net.ipv4.tcp_rmem"]["recommended"] == 250_000_000
    assert knobs["vm.swappiness"]["state"] == "differs"


def test_the_brokers_properties_decide_what_has_an_effect(tmp_path: Path) -> None:
    root = str(make_host(tmp_path / "host"))
    properties = write(tmp_path, "/server.properties", "socket.receive.buffer.bytes=102400\n")
    call = ("check", "--root", root, "--only", "net.ipv4.tcp_rmem", "-w", "rtt=100ms", "-w", "broker=apache-kafka")
    result = invoke(*call, "--broker-config", str(properties), columns=200)
    assert "socket.receive.buffer.bytes" in result.stdout


def test_list_shows_why_a_knob_cannot_be_set(tmp_path: Path) -> None:
    root = str(make_host(tmp_path, read_only_proc_sys=True, sysctls={"net.core.rmem_max": None}))
    result = invoke("list", "--root", root, "--data-dir", "/data", columns=160)
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split()[-1] for line in result.stdout.splitlines() if line[:1].isalpha()}
    assert (rows["vm.swappiness"], rows["net.core.rmem_max"], rows["kernel.core_pattern"]) == ("no", "no", "checked")
    assert rows["mount.noatime"] == "yes"
    assert rows["mount.data_writeback"] == "named"
    assert "/proc/sys is mounted read-only" in result.stdout
    assert "/proc/sys/net/core/rmem_max does not exist" in result.stdout


def test_list_is_the_catalogue(tmp_path: Path) -> None:
    document = json.loads(invoke("list", "--json", "--root", str(make_host(tmp_path))).stdout)
    assert [knob["id"] for knob in document["knobs"]] == [knob.id for knob in KNOBS]
    assert [knob["title"] for knob in document["knobs"]] == [knob.title for knob in KNOBS]


def test_facts_of_a_host(tmp_path: Path) -> None:
    root = str(make_host(tmp_path, swaps="/dev/sdb1 partition 8388604 0 -2\n"))
    result = invoke("facts", "--root", root)
    assert result.exit_code == 0
    assert "Example CPU" in result.stdout
    assert "/dev/sdb1 8 GiB" in result.stdout
    assert "/data" in result.stdout


def test_a_captured_host_is_checked_elsewhere_and_never_changed(tmp_path: Path) -> None:
    root, capture = str(make_host(tmp_path / "host")), str(tmp_path / "capture")
    saved = invoke("facts", "--root", root, "--data-dir", "/data", "--save", capture)
    assert saved.exit_code == 0, saved.output
    checks = [
        json.loads(invoke("check", "--json", "--root", tree, "--data-dir", "/data").stdout) for tree in (root, capture)
    ]
    assert checks[0]["knobs"] == checks[1]["knobs"]
    for verb in (("apply", "--yes"), ("rollback", "--yes")):
        refused = invoke(*verb, "--root", capture)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "is a capture of another host" in refused.stderr
