"""`ansible-playbook tune.yml` as an operator runs it, against a fake host over the local connection."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.modules import TREE
from tests.playbooks.playing import Played, play
from tests.tuning.host_tree import Disk, make_host, read_sysctl, snapshot, write

JOURNAL = "var/lib/highwater-tuning/journal.jsonl"
MANAGED = "etc/sysctl.d/90-highwater.conf"
DROP_IN = "etc/systemd/system/highwater-broker@.service.d/90-highwater.conf"
LIMITS = "etc/security/limits.d/90-highwater.conf"
WORKLOAD = {"data_dirs": ["/data"]}


def _run(tmp_path: Path, root: Path, *arguments: str, playbook: str = "tune.yml", **variables: Any) -> Played:
    """From the top of the repository, as an operator may run it too."""
    settings = {"ansible_become": False, "tuning_workload": WORKLOAD, "tuning_root": str(root), **variables}
    files = ("-i", "playbooks/inventories/local", f"playbooks/{playbook}")
    return play(tmp_path, *files, *arguments, directory=TREE.parent, **settings)


def _run_on(tmp_path: Path, hosts: dict[str, Any]) -> Played:
    """On hosts of an inventory, which all are this machine."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"vars": {**local, "tuning_workload": WORKLOAD}, **hosts}}))
    return play(tmp_path, "-i", inventory, "playbooks/tune.yml", directory=TREE.parent)


def _recap(result: Played) -> dict[str, int]:
    line = result.stdout.strip().splitlines()[-1]
    return {name: int(count) for name, _, count in (word.partition("=") for word in line.split() if "=" in word)}


@pytest.mark.slow
def test_check_change_a_second_run_that_changes_nothing_and_the_way_back(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    before = snapshot(root)

    checked = _run(tmp_path, root, "--check", "--diff")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert _recap(checked)["changed"] == 1
    assert snapshot(root) == before, "check mode must not write"
    assert "-vm.swappiness = 60\n" in checked.stdout
    assert "-vm.dirty_ratio = 20\n" in checked.stdout
    assert "+vm.dirty_ratio = 0\n" in checked.stdout
    assert "+++ after: /etc/sysctl.d/90-highwater.conf\n" in checked.stdout
    assert "+LimitNOFILE=100000:524288\n" in checked.stdout

    changed = _run(tmp_path, root, "--diff")
    assert changed.returncode == 0, changed.stdout + changed.stderr
    assert _recap(changed)["changed"] == 1
    assert _diffs(changed) == _diffs(checked), "what check mode announced is what was done"
    assert "LimitNOFILE=100000:524288 of highwater-broker@.service: when it is next started" in changed.stdout
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert read_sysctl(root, "vm.dirty_bytes") == str(3052 * 2**20)
    assert "\nvm.swappiness = 1\n" in (root / MANAGED).read_text()
    assert (root / DROP_IN).is_file()
    assert (root / LIMITS).is_file()
    assert (root / JOURNAL).is_file()

    after = snapshot(root)
    again = _run(tmp_path, root, "--diff")
    assert _recap(again)["changed"] == 0
    assert _diffs(again) == []
    assert snapshot(root) == after

    (root / "proc/sys/vm/max_map_count").write_text("777777\n")  # somebody's later edit
    announced = _run(tmp_path, root, "--check", "--diff", playbook="rollback.yml")
    assert announced.returncode == 0, announced.stdout + announced.stderr
    assert snapshot(root) == {**after, "proc/sys/vm/max_map_count": "777777\n"}
    back = _run(tmp_path, root, "--diff", playbook="rollback.yml")
    assert back.returncode == 0, back.stdout + back.stderr
    assert _recap(back)["changed"] == 1
    assert _diffs(back) == _diffs(announced)
    assert "+vm.swappiness = 60\n" in back.stdout
    assert "left alone: vm.max_map_count was changed since" in _one_line(back.stdout + back.stderr)
    forced = _run(tmp_path, root, playbook="rollback.yml", tuning_force=True)
    assert _recap(forced)["changed"] == 1
    assert snapshot(root) == before


def test_knobs_and_a_profile_can_be_chosen(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    result = _run(
        tmp_path,
        root,
        tuning_profile="durable",
        tuning_only=["vm.dirty_bytes", "unit.limit_nofile"],
        tuning_login_domains=[],
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert read_sysctl(root, "vm.dirty_bytes") == str(512 * 2**20)
    assert read_sysctl(root, "vm.swappiness") == "60"
    assert (root / DROP_IN).read_text().count("=") == 1
    assert not (root / LIMITS).exists()


MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"tuning_only": ["vm.swappiness", "vm.max_map_cuont"]},
        "unknown knob 'vm.max_map_cuont'; did you mean vm.max_map_count?",
    ),
    ({"tuning_profile": "duarble"}, "no host profile is called 'duarble'; did you mean durable?"),
    ({"tuning_units": ["kafka"]}, "'kafka' is not the name of a service unit"),
    ({"tuning_workload": {"rtt": "3"}}, "rtt: '3' is not a duration"),
    ({"tuning_only": ["cpu.isolation"]}, "cpu.isolation"),
)


@pytest.mark.slow
def test_a_mistake_fails_before_anything_is_changed(tmp_path: Path) -> None:
    """A host for each mistake."""
    roots = {f"host{number}": make_host(tmp_path / f"host{number}") for number in range(len(MISTAKES))}
    before = {host: snapshot(root) for host, root in roots.items()}
    hosts = {
        host: {"tuning_root": str(root), **variables}
        for (host, root), (variables, _) in zip(roots.items(), MISTAKES, strict=True)
    }
    result = _run_on(tmp_path, {"hosts": hosts})
    assert result.returncode == 2
    assert "Traceback" not in result.stdout + result.stderr
    told = {part.partition("]")[0]: _one_line(part) for part in result.stdout.split("\nfatal: [")[1:]}
    for host, (_, message) in zip(roots, MISTAKES, strict=True):
        assert message in told[host]
        assert snapshot(roots[host]) == before[host]


@pytest.mark.slow
def test_a_container_that_cannot_be_tuned_says_why_and_fails_for_what_is_named(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host", read_only_proc_sys=True, pid_namespace="pid:[4026532281]")
    before = snapshot(root)
    keys = ["vm.swappiness", "vm.dirty_bytes", "vm.max_map_count"]
    result = _run(tmp_path, root, tuning_only=keys)
    assert result.returncode == 2
    message = _one_line(result.stdout)
    for key in keys:
        assert f"{key} cannot be changed here: /proc/sys is mounted read-only in this container" in message
    assert snapshot(root) == before
    looked = _run(tmp_path, root, "--check")
    assert looked.returncode == 0
    (line,) = re.findall(r"left as it is: (.*?) cannot be changed here: (.*?)\.? ", _one_line(looked.stderr))
    assert "vm.swappiness" in line[0].split(", ")
    assert "vm.swappiness = 1 on the host below" in looked.stdout, "what to ask whoever runs the machine below for"


def _with_a_disk_that_is_not_mounted(path: Path) -> Path:
    root = make_host(path, disks=(Disk("sda", "/data"), Disk("sdb", "/data/ssd1", rotational=True)))
    table = root / "proc/self/mountinfo"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if " /data/ssd1 " not in line))
    return root


@pytest.mark.slow
def test_a_disk_that_is_not_mounted_fails_the_host_and_counts_as_mounted_in_check_mode(tmp_path: Path) -> None:
    root = _with_a_disk_that_is_not_mounted(tmp_path / "host")
    before = snapshot(root)
    disks: dict[str, Any] = {
        "storage_disks": [{"device": "/dev/sdb", "mount_point": "/data/ssd1"}],
        "tuning_workload": {},
    }
    refused = _run(tmp_path, root, **disks)
    assert refused.returncode == 2
    assert "no disk is mounted on /data/ssd1; run provision.yml first" in _one_line(refused.stdout)
    assert snapshot(root) == before
    looked = _run(tmp_path, root, "--check", "--diff", **disks)
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert '+ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sdb", ' in looked.stdout
    assert "mount /" not in looked.stdout, "the root is not tuned in the place of a disk to come"


@pytest.mark.slow
def test_the_groups_of_a_host_say_which_units_get_limits(tmp_path: Path) -> None:
    wanted = {
        "brokers": ["highwater-broker@.service"],
        "reference_kafka": ["reference-kafka@.service"],
        "zookeeper": [],
        "others": ["highwater-broker@.service"],
    }
    hosts = {f"in_{group}": {"tuning_root": str(make_host(tmp_path / group))} for group in wanted}
    children = {group: {"hosts": {f"in_{group}": hosts[f"in_{group}"]}} for group in wanted}
    result = _run_on(tmp_path, {"children": children})
    assert result.returncode == 0, result.stdout + result.stderr
    drop_ins = {group: sorted((tmp_path / group / "etc/systemd/system").iterdir()) for group in wanted}
    assert {group: [path.name.removesuffix(".d") for path in paths] for group, paths in drop_ins.items()} == wanted


@pytest.mark.parametrize("playbook", ["tune.yml", "rollback.yml"])
def test_a_damaged_journal_stops_everything(tmp_path: Path, playbook: str) -> None:
    root = make_host(tmp_path / "host")
    write(root, f"/{JOURNAL}", "not a journal\nat all\n")
    before = snapshot(root)
    result = _run(tmp_path, root, playbook=playbook)
    assert result.returncode == 2
    assert "journal.jsonl" in _one_line(result.stdout)
    assert "Traceback" not in result.stdout + result.stderr
    assert snapshot(root) == before


def test_a_later_file_is_warned_about(tmp_path: Path) -> None:
    root = make_host(tmp_path / "host")
    (root / "etc/sysctl.d/99-site.conf").write_text("vm.swappiness = 10\n")
    result = _run(tmp_path, root, "--check", tuning_only=["vm.swappiness"])
    assert result.returncode == 0
    assert "/etc/sysctl.d/99-site.conf:1 sets vm.swappiness = 10" in _one_line(result.stdout + result.stderr)


def _diffs(result: Played) -> list[str]:
    return [line for line in result.stdout.splitlines() if line[:1] in ("+", "-", "@")]


def _one_line(text: str) -> str:
    """Ansible wraps warnings at the width of a terminal and prints messages escaped."""
    return " ".join(text.replace("\\'", "'").split())
