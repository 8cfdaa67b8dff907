"""The command line from plan to rollback, on a made tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.journal import APPLIED, SESSION, Owner
from tests.tuning.cli.invoking import invoke
from tests.tuning.host_tree import Disk, make_host, read_sysctl, snapshot, write

SYSCTL_FILE = "etc/sysctl.d/90-highwater.conf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_host(tmp_path / "host")


def _call(root: Path, verb: str, *arguments: str, columns: int = 100) -> tuple[int, str]:
    result = invoke(verb, "--root", str(root), *arguments, columns=columns)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def _settings(root: Path) -> dict[str, str]:
    """The tree without differences in white space, which a made tree has and a kernel has not."""
    return {path: " ".join(text.split()) for path, text in snapshot(root).items()}


def test_plan_apply_verify_and_rollback_restore_the_tree(root: Path) -> None:
    before = _settings(root)
    data = ("--data-dir", "/data")
    code, plan = _call(root, "plan", *data)
    assert code == 1
    assert "vm.swappiness" in plan
    assert "instead of vm.dirty_ratio = 20, which becomes 0" in plan
    assert f"+++ /{SYSCTL_FILE}" in plan
    assert "+vm.swappiness = 1" in plan
    assert "when it is next started" in plan
    assert _settings(root) == before

    code, applied = _call(root, "apply", "--yes", *data)
    assert code == 0, applied
    assert "To undo: highwater tune rollback" in applied
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert "vm.swappiness = 1" in (root / SYSCTL_FILE).read_text("utf-8")

    code, again = _call(root, "apply", "--yes", *data, "--skip", "mount.noatime")
    assert (code, "nothing to change" in again) == (0, True), again
    assert _call(root, "plan", *data, "--skip", "mount.noatime")[0] == 0

    code, verified = _call(root, "verify", "--only", "vm.swappiness", "--only", "vm.max_map_count")
    assert (code, "2 effective" in verified) == (0, True), verified

    code, status = _call(root, "status")
    assert code == 0, status
    assert "by highwater tune apply" in status
    assert "in force" in status

    code, previewed = _call(root, "rollback", "--dry-run")
    assert code == 0
    assert "vm.swappiness: 1 -> 60" in previewed
    assert read_sysctl(root, "vm.swappiness") == "1"

    code, rolled_back = _call(root, "rollback")
    assert code == 0, rolled_back
    assert _settings(root) == before
    assert not (root / "var/lib/highwater").exists()
    assert _call(root, "rollback") == (0, "no change by Highwater is in force\n")
    assert _call(root, "status")[0] == 0


def test_a_lost_journal_is_reported(root: Path) -> None:
    assert _call(root, "apply", "--yes", "--only", "vm.swappiness")[0] == 0
    shutil.rmtree(root / "var/lib/highwater")
    for verb in ("status", "rollback"):
        code, text = _call(root, verb)
        assert code == 1
        assert "are in no journal" in " ".join(text.split())
        assert f"/{SYSCTL_FILE}" in text
        assert "no change by Highwater" not in text


def test_a_later_edit_is_left_alone_unless_forced(root: Path) -> None:
    assert _call(root, "apply", "--yes", "--only", "vm.swappiness", "--only", "vm.max_map_count")[0] == 0
    write(root, "/proc/sys/vm/swappiness", "30\n")
    code, status = _call(root, "status")
    assert (code, "changed since" in status) == (1, True)
    code, verified = _call(root, "verify", "--only", "vm.swappiness")
    assert (code, "1 failed" in verified) == (1, True)
    code, rolled_back = _call(root, "rollback")
    assert code == 1
    assert "Left alone, as somebody changed it since" in rolled_back
    assert (read_sysctl(root, "vm.swappiness"), read_sysctl(root, "vm.max_map_count")) == ("30", "65530")
    assert _call(root, "rollback", "--force")[0] == 0
    assert read_sysctl(root, "vm.swappiness") == "60"


def test_the_next_apply_continues_one_that_was_killed(root: Path) -> None:
    only = ("--only", "vm.swappiness")
    assert _call(root, "apply", "--yes", *only)[0] == 0
    journal = root / APPLIED[1:]
    journal.write_text(journal.read_text().rpartition('{"crc32"')[0] + '{"crc')
    code, status = _call(root, "status", columns=200)
    assert (code, "ended after 2 of 2 changes; continue with `highwater tune apply`" in status) == (1, True), status
    code, again = _call(root, "apply", "--yes", *only)
    assert (code, "nothing to change" in again) == (0, True), again
    assert _call(root, "status")[0] == 0
    assert _call(root, "rollback")[0] == 0


def test_now_only_writes_no_configuration(root: Path) -> None:
    assert _call(root, "apply", "--yes", "--now-only", "--only", "vm.swappiness")[0] == 0
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert not (root / SYSCTL_FILE).exists()


def test_what_is_the_same_for_many_disks_is_one_row(tmp_path: Path) -> None:
    disks = [Disk(f"sd{letter}", f"/data{letter}") for letter in "abcdefgh"]
    root = make_host(tmp_path, disks=disks)
    for disk in disks:
        write(root, f"/sys/block/{disk.name}/queue/nomerges", "2\n")
    folders = [word for disk in disks for word in ("--data-dir", disk.mount_point)]
    code, plan = _call(root, "plan", "--now-only", "--only", "disk.nomerges", *folders)
    assert code == 1
    assert plan.count("disk.nomerges  2       0") == 1
    assert "sda, sdb, sdc, sdd, sde, sdf, … and 2 more" in plan
    assert "8 settings would change" in plan


def test_a_profile_and_its_values(root: Path) -> None:
    code, plan = _call(root, "plan", "--profile", "notes", "--json")
    assert code == 1
    changes = {change["what"]: (change["before"], change["after"]) for change in json.loads(plan)["changes"]}
    assert changes["net.core.rmem_max"] == ("212992", "524288000")
    assert "vm.max_map_count" not in changes
    refused = invoke("plan", "--root", str(root), "--profile", "notes", "--only", "vm.max_map_count")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "profile notes does not set vm.max_map_count" in refused.stderr


def test_logins_get_their_limits_when_somebody_is_named(root: Path) -> None:
    call = ("plan", "--root", str(root), "--only", "login.nofile")
    assert "/etc/security/limits.d" in invoke(*call, "--login", "kafka", columns=160).stdout


def test_apply_first_rolls_back_the_profile_of_a_dead_benchmark(root: Path) -> None:
    from highwater.tuning.engine import apply
    from highwater.tuning.runner import runner_for
    from highwater.tuning.steps import SettingStep, TuningPlan

    files = HostFiles(root)
    step = SettingStep("vm.swappiness", "", "/proc/sys/vm/swappiness", "60", "10")
    apply(files, runner_for(root), TuningPlan((step,)), Owner("profile notes", 4711, "12345"), journal=SESSION)
    _, status = _call(root, "status")
    assert "profile notes" in status
    assert "highwater tune rollback restores the host" in " ".join(status.split())
    assert _call(root, "apply", "--yes", "--only", "vm.max_map_count")[0] == 0
    assert read_sysctl(root, "vm.swappiness") == "60"


def test_a_damaged_journal_stops_everything_that_changes(root: Path) -> None:
    write(root, APPLIED, "rubbish\nmore of it\n")
    before = snapshot(root)
    for verb in (("apply", "--yes"), ("rollback",), ("rollback", "--dry-run"), ("status",), ("plan",)):
        refused = invoke(*verb, "--root", str(root))
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.output
        assert APPLIED in refused.stderr
    assert snapshot(root) == before


def test_apply_without_a_terminal_needs_yes(root: Path) -> None:
    before = snapshot(root)
    for more in ((), ("--json",)):
        refused = invoke("apply", "--root", str(root), "--only", "vm.swappiness", *more)
        assert refused.exit_code == 2
        assert refused.stderr.endswith("nobody can answer here; add --yes\n")
    assert snapshot(root) == before


@pytest.mark.parametrize(("answer", "code", "swappiness"), [("n\n", 2, "60"), ("y\n", 0, "1")])
def test_apply_asks_at_a_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, swappiness: str
) -> None:
    monkeypatch.setattr("highwater.tuning.cli.apply.someone_can_answer", lambda: True)
    asked = invoke("apply", "--root", str(root), "--only", "vm.swappiness", answer=answer)
    assert (asked.exit_code, "Change 1 setting, 1 file?" in asked.stdout) == (code, True), asked.output
    assert read_sysctl(root, "vm.swappiness") == swappiness


def test_without_root_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for verb in (("apply", "--yes", "--only", "vm.swappiness"), ("rollback",)):
        refused = invoke(*verb)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr == "error: this changes the host and needs root; nothing was changed (try it with sudo)\n"


def test_an_interrupt_reports_the_state_of_the_host(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(root)
    writes = []

    def interrupted_at_the_second(files: HostFiles, path: str, text: str) -> None:
        writes.append(path)
        if len(writes) == 2:
            raise KeyboardInterrupt
        files.locate(path).write_text(f"{text}\n", encoding="utf-8")

    monkeypatch.setattr(HostFiles, "write_setting", interrupted_at_the_second)
    ended = invoke("apply", "--yes", "--root", str(root), "--only", "vm.swappiness", "--only", "vm.max_map_count")
    assert ended.exit_code == 130
    assert ended.stderr == "interrupted: every change was rolled back\n"
    assert len(writes) == 3
    assert snapshot(root) == before


@pytest.mark.parametrize("name", ["/proc/self/root", "/tmp/.."])
def test_this_host_by_another_name_is_this_host(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    refused = invoke("apply", "--yes", "--only", "vm.swappiness", "--root", name)
    assert (refused.exit_code, "needs root" in refused.stderr) == (2, True)


def test_a_named_knob_that_this_host_cannot_set_is_refused(tmp_path: Path) -> None:
    root = make_host(tmp_path, read_only_proc_sys=True)
    before = snapshot(root)
    refused = invoke("apply", "--yes", "--root", str(root), "--only", "vm.swappiness")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "read-only" in refused.stderr
    assert snapshot(root) == before


def test_the_script_does_what_apply_does(tmp_path: Path) -> None:
    ours, theirs = make_host(tmp_path / "ours"), make_host(tmp_path / "theirs")
    data = ("--data-dir", "/data", "--skip", "mount.noatime")
    printed = invoke("plan", "--script", "--root", str(ours), *data)
    assert printed.exit_code == 1
    assert invoke("apply", "--script", "--root", str(ours), *data).stdout == printed.stdout
    script = write(tmp_path, "/tune.sh", printed.stdout)
    assert _call(ours, "apply", "--yes", *data)[0] == 0
    environment = {"PATH": "/usr/bin:/bin", "HIGHWATER_ROOT": str(theirs)}
    subprocess.run(["/bin/sh", str(script)], env=environment, check=True, capture_output=True, timeout=60)
    notes = ("var/lib/highwater/",)
    pairs = ("proc/sys/vm/dirty_ratio", "proc/sys/vm/dirty_background_ratio")  # no kernel zeroes them for the script
    left, right = (
        {path: text for path, text in _settings(tree).items() if not path.startswith(notes) and path not in pairs}
        for tree in (ours, theirs)
    )
    assert left == right

    back = write(tmp_path, "/back.sh", invoke("rollback", "--script", "--root", str(ours)).stdout)
    assert read_sysctl(ours, "vm.swappiness") == "1"
    environment["HIGHWATER_ROOT"] = str(ours)
    subprocess.run(["/bin/sh", str(back)], env=environment, check=True, capture_output=True, timeout=60)
    assert read_sysctl(ours, "vm.swappiness") == "60"
    assert read_sysctl(ours, "vm.dirty_ratio") == "20"
    assert not (ours / SYSCTL_FILE).exists()
