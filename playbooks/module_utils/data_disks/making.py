"""Applies a storage plan and undoes it; a run may be killed after any step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ..highwater.tuning.boot_files import fstab
from ..highwater.tuning.errors import TuningError
from ..highwater.tuning.facts.filesystems import read_mounts
from ..highwater.tuning.facts.model import Facts, Mount
from ..highwater.tuning.facts.reading import Reader
from ..highwater.tuning.hostfiles import HostFiles
from ..highwater.tuning.resources import remount_command
from ..highwater.tuning.runner import Completed, Runner
from ..highwater.tuning.steps import RemountStep
from . import ledger
from .device import look_at
from .judging import Judgement, Plan, edited_fstab, mkfs_command, unseen_options

# A bare mount point takes no files of anybody but root: what would be written there belongs on the disk.
_BARE_MODE: Final = 0o000


@dataclass(frozen=True)
class Removal:
    """What is to be taken away of one disk."""

    entry: ledger.Entry
    unmount: bool
    wipe: bool

    def describe(self) -> list[str]:
        entry = self.entry
        told = [f"unmount {entry.mount_point}"] if self.unmount else []
        told.append(
            f"take the line of {entry.mount_point} out of /etc/fstab"
            if entry.line_before is None
            else f"put the line of {entry.mount_point} in /etc/fstab back as it was"
        )
        if self.wipe:
            told.append(f"ERASE {entry.device}, with all that is on it")
        return told


def carry_out(plan: Plan, facts: Facts, runner: Runner) -> None:
    """Raises TuningError for the first step that fails; what was done before it stays, and the next run goes on."""
    with _alone(facts.files):
        for judged in plan.judgements:
            _Making(judged, facts, runner).run()


def removals(
    entries: Mapping[str, ledger.Entry], facts: Facts, runner: Runner, *, wipe: Collection[str]
) -> tuple[list[Removal], list[str]]:
    """What there is to be taken away, and the faults that forbid all of it. A mount that was there before stays."""
    faults = []
    for device in sorted(wipe):
        entry = next((entry for entry in entries.values() if entry.device == device), None)
        if entry is None or not entry.formatted:
            known = ", ".join(sorted(entry.device for entry in entries.values() if entry.formatted)) or "none"
            faults.append(f"{device} was not formatted here and is not erased (formatted here: {known})")
            continue
        try:
            found = look_at(device, facts, runner).filesystem
        except TuningError as error:
            faults.append(str(error))
            continue
        if found is None or found.uuid != entry.uuid:
            faults.append(f"{device} no longer carries the file system that was made here; it is not erased")
    mounted = {mount.mount_point for mount in facts.mounts}
    found_here = [
        Removal(entry, entry.line_before is None and entry.mount_point in mounted, entry.device in wipe)
        for entry in entries.values()
    ]
    return found_here, faults


def take_away(found: list[Removal], facts: Facts, runner: Runner) -> None:
    """Raises TuningError for a file system that is in use; what was taken away before it stays away."""
    files = facts.files
    if found:
        with _alone(files):
            for removal in found:
                _take_one_away(removal, files, facts, runner)
    if not ledger.read(files):
        ledger.remove(files)


def edit_fstab(files: HostFiles, runner: Runner, edit: Callable[[str], str]) -> str:
    """Return the text before. The first such text is copied; systemd reads the new one."""
    path = files.real_path(fstab.PATH)
    before = files.read_verbatim(path) or ""
    after = edit(before)
    if after != before:
        if not files.exists(ledger.FSTAB_BEFORE):
            files.replace_file(ledger.FSTAB_BEFORE, before, 0o600)
        now = files.attributes(path)
        owner = (now.user_id, now.group_id) if now else None
        files.replace_file(path, after, now.mode if now else 0o644, owner)
        if files.exists("/run/systemd/system"):
            _run(runner, "systemd cannot read /etc/fstab", "systemctl", "daemon-reload")
    return before


class _Making:
    def __init__(self, judged: Judgement, facts: Facts, runner: Runner) -> None:
        assert judged.device is not None
        assert judged.entry is not None
        self._judged, self._facts, self._runner = judged, facts, runner
        self._disk, self._device, self._entry = judged.disk, judged.device, judged.entry
        self._files = facts.files

    def run(self) -> None:
        if self._judged.format:
            self._remember(replace(self._entry, state="formatting"))
            self._format()
        if self._judged.mount:
            self._remember(self._entry)
            self._make_mount_point()
            self._mount()
        else:
            for step in self._judged.remounts:
                self._remount(step)
            edit_fstab(self._files, self._runner, self._fstab_line)
        mount = self._mounted()
        unseen = (option for option in unseen_options(self._disk, mount.options) if option not in self._judged.later)
        self._remember(replace(self._entry, unseen=tuple(unseen)))

    def _format(self) -> None:
        disk, uuid = self._disk, self._entry.uuid
        if self._judged.half_made:
            self._do(f"{disk.device} cannot be erased", "wipefs", "--all", self._device.real_path)
        now = look_at(disk.device, self._facts, self._runner)
        if now.signatures or now.claimed or now.number != self._device.number:
            raise TuningError(f"{disk.device} is no longer as it was when it was looked at; run the playbook again")
        self._do(f"{disk.device} cannot be formatted", *mkfs_command(disk, now, uuid, self._facts.kernel_version))
        made = look_at(disk.device, self._facts, self._runner).filesystem
        if made is None or (made.type, made.uuid) != (disk.filesystem, uuid):
            raise TuningError(f"{disk.device} does not carry what mkfs was to make of it; is the disk sound?")

    def _make_mount_point(self) -> None:
        path = self._disk.mount_point
        attributes = self._files.attributes(path)
        if attributes is None:
            missing = (*self._files.missing_folders(path), path)
            made = dict.fromkeys([*self._entry.folders_made, *missing])
            self._entry = replace(self._entry, folders_made=tuple(made))
            self._remember(self._entry)
            for folder in missing:
                self._files.make_folder(folder)
        elif attributes.mode != _BARE_MODE and self._entry.mode_before is None and not self._entry.folders_made:
            self._entry = replace(self._entry, mode_before=attributes.mode)
            self._remember(self._entry)
        self._files.locate(path).chmod(_BARE_MODE)

    def _mount(self) -> None:
        """Mount by the line of fstab, which is thereby known to work, or is gone again."""
        path = self._disk.mount_point
        before = edit_fstab(self._files, self._runner, self._fstab_line)
        if self._files.exists("/run/udev/control"):
            # systemd unmounts a file system whose device it does not know of yet.
            self._runner.run(["udevadm", "settle", "--timeout=30"])
        done = self._runner.run(["mount", path])
        try:
            if done.status:
                raise TuningError(f"{self._disk.device} cannot be mounted on {path}: {_complaint(done)}")
            self._mounted()
        except TuningError:
            edit_fstab(self._files, self._runner, lambda _: before)
            raise

    def _remount(self, step: RemountStep) -> None:
        argv = remount_command(step.resource, self._mounted().source, *step.states)
        self._do(f"{self._disk.mount_point} cannot be mounted with {','.join(step.new or step.after_options)}", *argv)

    def _mounted(self) -> Mount:
        found = mount_at(self._files, self._disk.mount_point)
        if found is None or found.device_number != self._device.number:
            raise TuningError(
                f"{self._disk.device} is not what is mounted on {self._disk.mount_point} now, although mount did not "
                "complain; `findmnt --verify` tells what /etc/fstab lacks"
            )
        return found

    def _fstab_line(self, text: str) -> str:
        return edited_fstab(text, self._disk, self._entry.uuid, self._judged.earlier)

    def _remember(self, entry: ledger.Entry) -> None:
        entries = ledger.read(self._files)
        if entries.get(entry.mount_point) != entry:
            ledger.write(self._files, {**entries, entry.mount_point: entry})

    def _do(self, what: str, *argv: str) -> None:
        _run(self._runner, what, *argv)


def mount_at(files: HostFiles, path: str) -> Mount | None:
    """The topmost of what is mounted there."""
    return next((mount for mount in reversed(read_mounts(Reader(files))) if mount.mount_point == path), None)


def _take_one_away(removal: Removal, files: HostFiles, facts: Facts, runner: Runner) -> None:
    entry = removal.entry
    if removal.unmount:
        _run(
            runner,
            f"{entry.mount_point} cannot be unmounted (fuser -vm {entry.mount_point} shows who uses it)",
            "umount",
            entry.mount_point,
        )
    edit_fstab(files, runner, lambda text: _without_ours(text, entry))
    if removal.wipe:
        now = look_at(entry.device, facts, runner)
        if now.claimed:
            raise TuningError(f"{entry.device} is still in use and is not erased")
        _run(runner, f"{entry.device} cannot be erased", "wipefs", "--all", now.real_path)
    if mount_at(files, entry.mount_point) is None:
        if entry.mode_before is not None and files.exists(entry.mount_point):
            files.locate(entry.mount_point).chmod(entry.mode_before)
        for folder in reversed(entry.folders_made):
            files.remove_folder_if_empty(folder)
    rest = {path: kept for path, kept in ledger.read(files).items() if path != entry.mount_point}
    ledger.write(files, rest)


def _without_ours(text: str, entry: ledger.Entry) -> str:
    """The line of our file system goes, or is again what it was; a line of another one there is somebody else's."""
    line = fstab.find_mount(text, entry.mount_point)
    if line is None or line.source.lower() != f"uuid={entry.uuid}":
        return text
    if entry.line_before is None:
        return fstab.without(text, line)
    return fstab.with_text(text, line, entry.line_before)


def _run(runner: Runner, what: str, *argv: str) -> None:
    done = runner.run(argv)
    if done.status:
        raise TuningError(f"{what}: {_complaint(done)}")


def _complaint(done: Completed) -> str:
    """What a program of util-linux or a mkfs says first; advice follows."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else done.complaint


@contextmanager
def _alone(files: HostFiles) -> Iterator[None]:
    """Two runs at once would format one disk twice."""
    files.locate(ledger.FOLDER).mkdir(parents=True, exist_ok=True)
    try:
        with files.lock_folder(ledger.FOLDER):
            yield
    except BlockingIOError as error:
        raise TuningError("another run is at work on the disks of this host; wait for its end") from error
