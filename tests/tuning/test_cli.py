"""`highwater tune` as a person and as a program see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.tuning.host_tree import Disk, make_host
from tuning.catalogue import KNOBS
from tuning.cli import app
from tuning.facts import collect
from tuning.profile_session import JOURNAL, apply_profile, plan_profile
from tuning.profiles import find_profile
from tuning.workload import Workload

GOOD = {
    "vm.swappiness": "1",
    "vm.dirty_background_bytes": "600000000",
    "vm.dirty_bytes": "3200000000",
    "vm.max_map_count": "262144",
    "net.core.rmem_max": "4194304",
    "net.core.wmem_max": "4194304",
}


def _invoke(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


def test_exit_code_1_when_something_differs(tmp_path: Path) -> None:
    result = _invoke("check", "--root", str(make_host(tmp_path)), "--data-dir", "/data")
    assert result.exit_code == 1
    assert "differ" in result.stdout
    for knob in KNOBS:
        assert knob.id in result.stdout


def test_exit_code_0_when_everything_is_as_recommended(tmp_path: Path) -> None:
    disks = (Disk("sda", "/data", mount_options="rw,noatime"),)
    make_host(tmp_path, sysctls=GOOD, disks=disks, nofile=(100000, 524288))
    result = _invoke("check", "--root", str(tmp_path), "--data-dir", "/data")
    assert result.exit_code == 0, result.stdout
    assert f"{len(KNOBS)} ok" in result.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    root = str(make_host(tmp_path, read_only_proc_sys=True, swaps="/dev/mapper/vg-swap partition 8388604 0 -2\n"))
    for arguments in (("check",), ("explain", "vm.dirty_bytes"), ("explain", "net.ipv4.tcp_rmem")):
        result = _invoke(*arguments, "--root", root, columns=columns)
        lines = [line for line in result.stdout.splitlines() if "https://" not in line]
        assert max(map(len, lines)) <= columns


def test_json_is_for_programs(tmp_path: Path) -> None:
    result = _invoke("check", "--json", "--root", str(make_host(tmp_path)), "--data-dir", "/data", "-w", "rtt=100ms")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["schema"] == "tuning.check/1"
    assert document["facts"]["cpu_count"] == 8
    knobs = {knob["id"]: knob for knob in document["knobs"]}
    assert knobs["net.ipv4.tcp_rmem"]["recommended"] == 250_000_000
    assert knobs["vm.swappiness"]["state"] == "differs"


def test_explain_shows_the_numbers_and_the_disagreement(tmp_path: Path) -> None:
    root = str(make_host(tmp_path))
    result = _invoke("explain", "vm.dirty_bytes", "--root", root, "--data-dir", "/data", columns=200)
    assert result.exit_code == 0
    assert "8 s × 400 MB/s (assumed for 1 × SSD) = 2.98 GiB" in result.stdout
    assert "Confluent" in result.stdout
    assert "https://docs.kernel.org/admin-guide/sysctl/vm.html" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "vm.swapines"), "unknown knob 'vm.swapines'; did you mean vm.swappiness?"),
        (("check", "-w", "rt=1ms"), "unknown workload input 'rt'; did you mean rtt?"),
        (("check", "-w", "rtt"), "--workload 'rtt' is not KEY=VALUE"),
        (("check", "-w", "rtt=3"), "rtt: '3' is not a duration"),
        (("check", "--data-dir", "data"), "data directory 'data' must be an absolute path"),
        (("check", "--root", "/nonexistent"), "--root /nonexistent holds no proc/ directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = _invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


def test_profiles_and_their_rollback_on_a_tree(tmp_path: Path) -> None:
    sysctls = {"vm.dirty_writeback_centisecs": "500", "vm.dirty_expire_centisecs": "3000", "vm.stat_interval": "1"}
    facts = collect(make_host(tmp_path, sysctls=sysctls))
    root = ("--root", str(tmp_path))
    listed = _invoke("profiles", *root, columns=200)
    assert listed.exit_code == 0
    assert "net.core.rmem_max: 212992 → 524288000" in listed.stdout
    changes = plan_profile(find_profile("notes"), facts, Workload())
    apply_profile(facts.files, "notes", changes)  # the process that did is none of the tree's: it counts as killed
    restored = _invoke("rollback", *root)
    assert (restored.exit_code, "vm.swappiness = 60\n" in restored.stdout) == (0, True)
    assert _invoke("rollback", *root).stdout == "no host profile is in force\n"
    facts.files.replace_file(JOURNAL, "{}", 0o644)
    refused = _invoke("rollback", *root)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
