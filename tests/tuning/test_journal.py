"""The journal's lines: what was cut short never was, and what is damaged stops everything."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning import engine
from highwater.tuning.errors import TuningError
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.journal import (
    APPLIED,
    EARLIER_FOLDER,
    FOLDER,
    SCHEMA,
    Journal,
    Owner,
    _line_of,
    change_lock,
    read_boot_id,
)
from highwater.tuning.runner import CapturedTreeRunner, SystemRunner, runner_for
from highwater.tuning.steps import (
    CommandStep,
    FileStep,
    RemountStep,
    SettingStep,
    SwapOffStep,
    TuningPlan,
    as_json,
    from_json,
)
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, whole_tree
from tests.tuning.host_tree import Disk, make_host, sysctl_path, write
from tests.waiting import wait_until

SWAPPINESS = SettingStep("vm.swappiness", "", sysctl_path("vm.swappiness"), "60", "1")
SYSCTL_FILE = FileStep("/etc/sysctl.d/90-highwater.conf", None, "vm.swappiness = 1 # größer\u2028\n")
OWNER = Owner("highwater tune apply", 999999, "12345")


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    make_host(tmp_path)
    (tmp_path / "var/lib").mkdir(parents=True)
    kernel = FakeKernel(tmp_path)
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((SWAPPINESS, SYSCTL_FILE)), OWNER)
    return kernel


def journal_of(kernel: FakeKernel) -> Path:
    return kernel.root / APPLIED[1:]


def test_its_lines_are_json_that_anybody_can_read(kernel: FakeKernel) -> None:
    documents = [json.loads(line) for line in journal_of(kernel).read_text().splitlines()]
    assert [document["entry"]["entry"] for document in documents] == ["begin", "done", "done", "end"]
    begin = documents[0]["entry"]
    assert begin["owner"] == {"name": "highwater tune apply", "pid": 999999, "started": "12345"}
    assert begin["boot_id"] == "0c1a3a6e-0000-4000-8000-000000000001"
    assert begin["kernel"] == "6.1.0-18-amd64"
    assert begin["changes"][0]["before"] == {SWAPPINESS.path: "60"}


def test_being_root_does_not_help_where_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/highwater-tuning").write_text("")
    with pytest.raises(TuningError, match=r"Not a directory.*; make it a folder"), change_lock(HostFiles(tmp_path)):
        pass


def test_a_command_of_a_process_that_was_killed_still_holds_the_host(tmp_path: Path) -> None:
    """A swapoff takes minutes: until it is through, nobody can tell what there is to go back from."""
    files = HostFiles(tmp_path)
    (tmp_path / "var/lib").mkdir(parents=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with change_lock(files):
                os.set_inheritable(writing, True)
                # It says its number, and waits to be ended.
                SystemRunner().run(("sh", "-c", f"echo $$ >/proc/self/fd/{writing}; exec tail -f /dev/null"))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        command = int(told.readline())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with pytest.raises(TuningError, match="another process is changing"), change_lock(files):
            pass
        os.kill(command, signal.SIGKILL)
        assert told.read() == ""  # it is ending: the kernel closes its files one by one
    wait_until(lambda: _is_free(files), "the lock of changes is free")


def _is_free(files: HostFiles) -> bool:
    try:
        with change_lock(files):
            return True
    except TuningError:
        return False


def _give_to_a_group(part: Path) -> None:
    os.chown(part, 0, 65534)
    part.chmod(part.stat().st_mode | 0o020)


_OF_ANOTHER: Mapping[str, Callable[[Path], object]] = {
    "everybody may write it": lambda part: part.chmod(part.stat().st_mode | 0o002),
    "a group may write it": _give_to_a_group,
    "another user owns it": lambda part: os.chown(part, 65534, 0, follow_symlinks=False),
}


@pytest.mark.parametrize("way", _OF_ANOTHER)
@pytest.mark.parametrize("part", ["var", "var/lib", FOLDER[1:], APPLIED[1:], "earlier", "a link of another"])
def test_a_journal_that_another_user_may_have_written_is_not_obeyed(kernel: FakeKernel, part: str, way: str) -> None:
    if os.geteuid() != 0 and way != "everybody may write it":
        pytest.skip("needs root, to give a file away")
    place = kernel.root / part
    if part == "earlier":
        place = kernel.root / EARLIER_FOLDER[1:]
        place.parent.mkdir()
        (kernel.root / FOLDER[1:]).rename(place)
    elif part == "a link of another":
        place = kernel.root / FOLDER[1:]
        place.rename(kernel.root / "elsewhere")
        place.symlink_to("../../elsewhere")
        place = place if way == "another user owns it" else kernel.root / "elsewhere"
    _OF_ANOTHER[way](place)
    before = whole_tree(kernel.root)
    more = TuningPlan((SettingStep("", "", sysctl_path("vm.max_map_count"), "65530", "262144"),))
    for attempt in (
        lambda: engine.apply(kernel, FakeRunner(kernel), more, OWNER),
        lambda: engine.rollback(kernel, FakeRunner(kernel)),
        lambda: engine.status(kernel),
    ):
        with pytest.raises(TuningError, match=r"nothing was changed") as error:
            attempt()
        assert "another user may change /" in str(error.value)
        assert "\n" not in str(error.value)
    assert whole_tree(kernel.root) == before


def test_a_journal_of_an_earlier_version_is_taken_up_where_it_is(kernel: FakeKernel) -> None:
    earlier = kernel.root / EARLIER_FOLDER[1:]
    earlier.parent.mkdir()
    (kernel.root / FOLDER[1:]).rename(earlier)
    more = SettingStep("", "", sysctl_path("vm.max_map_count"), "65530", "262144")
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((more,)), OWNER)
    assert len(engine.status(kernel).changes) == 3
    done = engine.rollback(kernel, FakeRunner(kernel))
    assert (len(done.restored), done.kept, done.problems) == (3, (), ())
    assert not list((kernel.root / "var/lib").iterdir())


@pytest.mark.parametrize("kept_bytes", [0, 1, 20])
def test_a_line_without_its_end_was_never_written(kernel: FakeKernel, kept_bytes: int) -> None:
    lines = journal_of(kernel).read_text().splitlines(keepends=True)
    journal_of(kernel).write_text("".join(lines[:3]) + lines[3][:kept_bytes])
    assert "ended after 2 of 2 changes" in engine.interrupted(kernel)
    more = SettingStep("", "", sysctl_path("vm.max_map_count"), "65530", "262144")
    engine.apply(kernel, FakeRunner(kernel), TuningPlan((more,)), OWNER)
    assert engine.interrupted(kernel) == ""
    assert len(engine.rollback(kernel, FakeRunner(kernel)).restored) == 3
    assert not journal_of(kernel).exists()


def test_a_beginning_that_was_cut_short_is_no_journal(kernel: FakeKernel) -> None:
    journal_of(kernel).write_text(journal_of(kernel).read_text()[:100])
    assert engine.status(kernel).changes == ()
    assert engine.rollback(kernel, FakeRunner(kernel)).restored == ()
    assert not journal_of(kernel).parent.exists()


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda text: text.replace('"60"', '"61"'), 1),
        (lambda text: text.replace('{"change":1,', '{"change":7,'), 3),
        (lambda text: text.replace('"end"', '"END"'), 4),
        (lambda text: "\0" * 10 + "\n" + text, 1),
        (lambda text: text.partition("\n")[2], 1),
        (lambda text: text + "{}\n", 5),
        (lambda text: text + "[]\n", 5),
        (lambda text: text + "[" * 100_000 + "\n", 5),
        (lambda text: text + "\n", 5),
    ],
)
def test_a_damaged_line_stops_everything(kernel: FakeKernel, damage: object, line: int) -> None:
    assert callable(damage)
    journal_of(kernel).write_text(damage(journal_of(kernel).read_text()))
    before = whole_tree(kernel.root)
    more = TuningPlan((SettingStep("", "", sysctl_path("vm.max_map_count"), "65530", "262144"),))
    for attempt in (
        lambda: engine.apply(kernel, FakeRunner(kernel), more, OWNER),
        lambda: engine.rollback(kernel, FakeRunner(kernel)),
        lambda: engine.status(kernel),
    ):
        with pytest.raises(
            TuningError, match=rf"^line {line} of {APPLIED} is damaged \(.*\), so nothing .* away$"
        ) as error:
            attempt()
        assert "\n" not in str(error.value)
    assert whole_tree(kernel.root) == before


def test_another_schema_is_not_guessed_at(kernel: FakeKernel) -> None:
    files = HostFiles(kernel.root)
    journal = Journal(files, APPLIED)
    run = journal.read().runs[0]
    journal.remove()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("highwater.tuning.journal.SCHEMA", "tuning.journal/9")
        Journal(files, APPLIED).begin(run)
    with pytest.raises(TuningError, match=r"its schema is 'tuning\.journal/9', not 'tuning\.journal/1'"):
        Journal(files, APPLIED).read()


def test_it_is_on_the_disk_with_its_folder_before_anything_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_host(tmp_path)
    (tmp_path / "var/lib").mkdir(parents=True)
    events: list[str] = []
    real_sync, real_write = os.fsync, HostFiles.write_setting

    def sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_relative_to(tmp_path / "var"):
            kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
            events.append(f"{kind} {path.relative_to(tmp_path)}")
        real_sync(descriptor)

    def write(files: HostFiles, path: str, text: str) -> None:
        events.append("write")
        real_write(files, path, text)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(HostFiles, "write_setting", write)
    engine.apply(HostFiles(tmp_path), CapturedTreeRunner(), TuningPlan((SWAPPINESS,)), OWNER)
    folder, file = "var/lib/highwater-tuning", "var/lib/highwater-tuning/journal.jsonl"
    assert events == [
        "folder var/lib",
        f"file {file}",
        f"folder {folder}",
        "write",
        f"file {file}",
    ]


@pytest.mark.parametrize(
    "step",
    [
        SettingStep("vm.dirty_bytes", "", "/proc/sys/vm/dirty_bytes", "0", "1", "/proc/sys/vm/dirty_ratio", "20"),
        SYSCTL_FILE,
        FileStep("/etc/x", "a", None, 0o600, "why"),
        RemountStep("/data", ("rw", "relatime"), ("rw", "noatime"), "mount"),
        SwapOffStep("/dev/sdb1", "partition", -2),
        CommandStep(("systemctl", "daemon-reload"), (), "why"),
    ],
)
def test_steps_go_through_json(step: SettingStep | FileStep | RemountStep | SwapOffStep | CommandStep) -> None:
    assert from_json(json.loads(json.dumps(as_json(step)))) == step
    assert "\n" not in step.describe()


def test_commands_are_run_without_a_shell_and_never_raise(tmp_path: Path) -> None:
    runner = SystemRunner()
    done = runner.run(("printf", "%s", "$HOME; echo 'x'"))
    assert (done.status, done.stdout) == (0, "$HOME; echo 'x'")
    assert runner.run(("cat", "/nonexistent")).complaint == "cat: /nonexistent: No such file or directory"
    assert runner.run(("false",)).complaint == "exit status 1"
    assert runner.run(("no-such-program",)).status == 127
    assert runner.run(("cat",)).stdout == "", "there is nothing to read"
    assert (runner_for(Path("/")).absent, runner_for(tmp_path).absent) == ("", "not on a captured tree")
    assert runner_for(tmp_path).run(("true",)).status == 127


def test_a_remount_of_an_earlier_version_is_taken_back_layer_by_layer(tmp_path: Path) -> None:
    """Such a journal has both layers of a mount in one list."""
    kernel = FakeKernel(make_host(tmp_path, disks=[Disk("sda", "/data", mount_options="rw,nosuid,noatime,commit=30")]))
    before, after = "rw,nosuid,relatime", "rw,nosuid,noatime,commit=30"
    lists = {"before_options": before.split(","), "after_options": after.split(",")}
    step: dict[str, Any] = {"step": "mount", "mount_point": "/data", **lists}
    states = {name: {"options": text, "source": "/dev/sda1"} for name, text in (("before", before), ("after", after))}
    run: dict[str, Any] = {
        "entry": "begin",
        "schema": SCHEMA,
        "owner": {"name": "a", "pid": 1, "started": "0"},
        "boot_id": "",
    }
    run |= {"utc": "", "kernel": "", "changes": [{"step": step, **states, "folders": []}]}
    run["boot_id"] = read_boot_id(kernel)
    lines = [_line_of(entry) for entry in (run, {"entry": "done", "change": 0, "found": None}, {"entry": "end"})]
    write(tmp_path, APPLIED, "".join(lines))
    done = engine.rollback(kernel, FakeRunner(kernel))
    assert (len(done.restored), done.kept, done.problems) == (2, (), ())
    assert " / /data rw,nosuid,relatime - ext4 /dev/sda1 rw\n" in kernel.locate("/proc/self/mountinfo").read_text()
