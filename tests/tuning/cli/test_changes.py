"""The command line from plan to rollback, on a made tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.journal import APPLIED, FOLDER, SESSION, Owner
from tests.tuning.cli.invoking import assert_refused, invoke
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
    assert f"To verify exactly what was applied: highwater tune verify --root {root}\n" in applied
    assert f"To undo it: highwater tune rollback --root {root}\n" in applied
    assert applied.endswith("applied: 8 changes made, 1 not run\n")
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

    code, rolled_back = _call(root, "rollback", "--yes")
    assert code == 0, rolled_back
    assert _settings(root) == before
    assert not (root / FOLDER[1:]).exists()
    assert _call(root, "rollback", "--yes") == (0, "no change by Highwater is in force\n")
    assert _call(root, "status")[0] == 0


def test_a_lost_journal_is_reported(root: Path) -> None:
    assert _call(root, "apply", "--yes", "--only", "vm.swappiness")[0] == 0
    shutil.rmtree(root / FOLDER[1:])
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
    code, rolled_back = _call(root, "rollback", "--yes")
    assert code == 1
    assert "Left alone, because it was changed since" in rolled_back
    assert (read_sysctl(root, "vm.swappiness"), read_sysctl(root, "vm.max_map_count")) == ("30", "65530")
    assert _call(root, "rollback", "--yes", "--force")[0] == 0
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
    assert _call(root, "rollback", "--yes")[0] == 0


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
    for verb in (("apply", "--yes"), ("rollback", "--yes"), ("rollback", "--dry-run"), ("status",), ("plan",)):
        refused = invoke(*verb, "--root", str(root))
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.output
        assert APPLIED in refused.stderr
    assert snapshot(root) == before


def test_apply_without_a_terminal_needs_yes(root: Path) -> None:
    before = snapshot(root)
    for more in ((), ("--json",)):
        refused = invoke("apply", "--root", str(root), "--only", "vm.swappiness", *more)
        assert refused.exit_code == 2
        assert refused.stderr.endswith("no terminal to answer on; add --yes\n")
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
    for verb in (("apply", "--yes", "--only", "vm.swappiness"), ("rollback", "--yes")):
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


@pytest.mark.parametrize("form", ["link", "second name", "null byte"])
def test_a_script_is_refused_where_apply_is(root: Path, form: str) -> None:
    text = "/dev/sda1 /data ext4 defaults 0 2\n"
    place = write(root, "/etc/fstab", f"{text}\0" if form == "null byte" else text)
    if form == "link":
        place.rename(root / "elsewhere")
        place.symlink_to("../elsewhere")
    elif form == "second name":
        (root / "elsewhere").hardlink_to(place)
    before = snapshot(root)
    options = ("--root", str(root), "--data-dir", "/data", "--only", "mount.noatime")
    applied, printed = invoke("apply", "--yes", *options), invoke("plan", "--script", *options)
    assert applied.exit_code == 2
    assert_refused(printed, applied.stderr.removeprefix("error: "))
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
    notes = ("var/lib/highwater",)
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


def _last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_verify_is_about_what_was_applied_and_not_about_what_is_recommended(root: Path) -> None:
    code, nothing = _call(root, "verify")
    assert (code, _last_line(nothing)) == (0, "nothing is applied, so there is nothing to verify")
    assert "To verify recommended values: highwater tune verify --recommended" in nothing
    assert _call(root, "verify", "--recommended")[0] == 1, "most of this host is not as recommended"

    # Applied with a workload of its own, which nobody has to repeat.
    only = ("--only", "vm.dirty_bytes", "--only", "vm.swappiness", "-w", "disk_write_rate=100MB/s")
    assert _call(root, "apply", "--yes", *only)[0] == 0
    code, verified = _call(root, "verify")
    assert (code, _last_line(verified)) == (0, "everything that is applied is in effect: 3 effective")
    assert "vm.max_map_count" not in verified
    code, checked = _call(root, "check", "--only", "vm.swappiness")
    assert (code, _last_line(checked)) == (0, "no knob differs from its recommended value")
    code, filtered = _call(root, "verify", "--only", "vm.swappiness")
    assert (code, _last_line(filtered)) == (0, "everything that is applied is in effect: 1 effective")

    write(root, "/etc/sysctl.d/99-other.conf", "vm.swappiness = 60\n")
    code, undone = _call(root, "verify")
    assert (code, _last_line(undone)) == (1, "not everything that is applied is in effect: 2 effective, 1 failed")
    assert "undone at the next boot" in " ".join(undone.split())
    (root / "etc/sysctl.d/99-other.conf").unlink()
    (root / SYSCTL_FILE).unlink()
    code, gone = _call(root, "verify")
    assert (code, "it is gone" in gone or "as it was before apply" in gone) == (1, True), gone


def test_what_waits_for_a_restart_is_told_apart_from_what_failed(root: Path) -> None:
    assert _call(root, "apply", "--yes", "--only", "unit.limit_nofile", "--only", "unit.io_weight")[0] == 0
    code, verified = _call(root, "verify")
    assert (code, _last_line(verified)) == (
        0,
        "everything that is applied is in effect, or waits for a restart: 1 effective, 2 pending",
    )
    later = "/etc/systemd/system/highwater-broker@.service.d/99-other.conf"
    write(root, later, "[Service]\nIOWeight=50\n")
    code, verified = _call(root, "verify")
    assert code == 1
    assert "another file of the unit sets IOWeight=50" in " ".join(verified.split())


def test_rollback_asks_and_without_a_terminal_it_names_the_option(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _call(root, "apply", "--yes", "--only", "vm.swappiness")[0] == 0
    for options in ((), ("--json",), ("--force",)):
        refused = invoke("rollback", "--root", str(root), *options)
        assert_refused(
            refused, "rollback asks before it changes anything, and there is no terminal to answer on; add --yes"
        )
    assert read_sysctl(root, "vm.swappiness") == "1"

    monkeypatch.setattr("highwater.tuning.cli.rollback.someone_can_answer", lambda: True)
    kept = invoke("rollback", "--root", str(root), answer="n\n")
    assert (kept.exit_code, read_sysctl(root, "vm.swappiness")) == (2, "1")
    assert "vm.swappiness: 1 -> 60" in kept.stdout
    assert "Restore 2 changes?" in kept.stdout
    assert kept.stdout.endswith("nothing was changed\n")
    taken = invoke("rollback", "--root", str(root), answer="y\n")
    assert (taken.exit_code, read_sysctl(root, "vm.swappiness")) == (0, "60")
    assert _last_line(taken.stdout) == "2 changes restored"
    assert invoke("rollback", "--root", str(root)).exit_code == 0, "nothing to restore, so nothing to ask"


def test_check_and_plan_say_the_same_of_a_knob_without_effect(root: Path) -> None:
    """No swap is active on this host, so that vm.swappiness has no effect now. It is set all the same."""
    write(root, "/proc/swaps", "Filename Type Size Used Priority\n")
    only = ("--only", "vm.swappiness", "--only", "vm.dirty_bytes")
    code, checked = _call(root, "check", *only)
    assert code == 1
    assert "No effect now: no swap is active." in " ".join(checked.split())
    assert _last_line(checked) == "2 knobs differ: apply would change 2; 1 with little or no effect for now"
    code, planned = _call(root, "plan", *only)
    assert code == 1
    assert "With little or no effect for now\n  vm.swappiness: no effect now: no swap is active" in planned
    assert _last_line(planned) == "2 settings, 1 file would change; 1 with little or no effect for now"
    assert f"To apply it: highwater tune apply --only vm.swappiness --only vm.dirty_bytes --root {root}\n" in planned


def test_check_and_plan_say_the_same_of_a_knob_that_cannot_be_changed(tmp_path: Path) -> None:
    root = make_host(tmp_path, read_only_proc_sys=True)
    skip = [word for knob in KNOBS if knob.mechanism != "sysctl" for word in ("--skip", knob.id)]
    _, checked = _call(root, "check", *skip)
    code, planned = _call(root, "plan", *skip)
    assert code == 0
    count = re.fullmatch(r"nothing would change; (\d+) cannot be changed here", _last_line(planned))
    assert count is not None, planned
    assert _last_line(checked) == f"{count[1]} knobs differ: apply would change none; {count[1]} cannot be changed here"
