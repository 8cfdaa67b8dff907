"""A tree that behaves like a kernel and its commands, with faults on demand and a death at any operation."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.tuning.facts.filesystems import read_mounts
from highwater.tuning.facts.reading import Reader
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.runner import Completed
from highwater.tuning.steps import MOUNT_FLAGS

TWINS = {"dirty_bytes": "dirty_ratio", "dirty_background_bytes": "dirty_background_ratio"}
TWINS |= {twin: key for key, twin in TWINS.items()}
FLAGS = {*MOUNT_FLAGS, "ro", "rw", "lazytime"}
SMALLEST_DIRTY_BYTES = 8192
REQUESTS_OF_SCHEDULER = {"none": 128, "mq-deadline": 256}


class KilledError(BaseException):
    """The process is no more: nothing of it runs after this, whatever it wanted to clean up."""


class FakeKernel(HostFiles):
    """Settings of pairs zero each other, lists of choices show the chosen one, and values that are too small vanish.

    refused: path to the errno of a write. ignored: paths whose writes have no effect. vanishing: paths that are gone
    after the first write. full: folders on a file system without room.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.refused: dict[str, int] = {}
        self.ignored: set[str] = set()
        self.vanishing: set[str] = set()
        self.full: tuple[str, ...] = ()
        self.operations: list[str] = []
        self.die_at: int | None = None
        self.die_half_way = False
        self.dead = False

    def write_setting(self, path: str, text: str) -> None:
        self._operation(f"write {path}")
        if path in self.refused:
            raise OSError(self.refused[path], os.strerror(self.refused[path]))
        if path in self.vanishing:
            self.locate(path).unlink()
            return
        if path in self.ignored or not self.exists(path):
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            return
        folder, _, name = path.rpartition("/")
        if name in TWINS:
            if name.endswith("bytes") and int(text) < SMALLEST_DIRTY_BYTES:
                if text == "0":
                    raise OSError(errno.EINVAL, "Invalid argument")
                return
            super().write_setting(f"{folder}/{TWINS[name]}", "0")
        if name == "nr_requests" and "[none]" in (self.read(f"{folder}/scheduler").text or "") and int(text) > 128:
            raise OSError(errno.EINVAL, "Invalid argument")
        if name == "scheduler" and text in REQUESTS_OF_SCHEDULER and self.exists(f"{folder}/nr_requests"):
            super().write_setting(f"{folder}/nr_requests", str(REQUESTS_OF_SCHEDULER[text]))
        present = self.read(path).text or ""
        if "[" in present:
            choices = [word.strip("[]") for word in present.split()]
            if text not in choices:
                raise OSError(errno.EINVAL, "Invalid argument")
            text = " ".join(f"[{choice}]" if choice == text else choice for choice in choices)
        elif "\t" in present:
            text = "\t".join(text.split())
        super().write_setting(path, text)

    def append(self, path: str, text: str, *, durable: bool, private: bool = False) -> None:
        self._operation(
            f"append {path}", lambda: super(FakeKernel, self).append(path, text[: len(text) // 2], durable=False)
        )
        self._need_room(path)
        super().append(path, text, durable=durable, private=private)

    def cut(self, path: str, size_bytes: int) -> None:
        self._operation(f"cut {path}")
        super().cut(path, size_bytes)

    def make_folder(self, path: str) -> None:
        self._operation(f"mkdir {path}")
        super().make_folder(path)

    def remove_folder_if_empty(self, path: str) -> None:
        self._operation(f"rmdir {path}")
        super().remove_folder_if_empty(path)

    def remove_file(self, path: str) -> None:
        self._operation(f"rm {path}")
        super().remove_file(path)

    def discard_temporary(self, path: str) -> None:
        self._operation(f"rm temporary of {path}")
        super().discard_temporary(path)

    def _write_whole(self, temporary: Path, text: str, mode: int, owner: tuple[int, int] | None) -> None:
        self._operation(f"write {temporary}", lambda: temporary.write_text(text[: len(text) // 2]))
        temporary.touch()
        self._need_room("/" + str(temporary.relative_to(self.root)))
        super()._write_whole(temporary, text, mode, owner)

    def _put_in_place(self, temporary: Path, target: Path) -> None:
        self._operation(f"rename {temporary}")
        super()._put_in_place(temporary, target)

    def _need_room(self, path: str) -> None:
        if path.startswith(self.full or ("nothing",)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _operation(self, name: str, half: Callable[[], object] | None = None) -> None:
        """Count an operation; die before it, or after half of it."""
        if self.dead:
            raise KilledError
        self.operations.append(name)
        if len(self.operations) == self.die_at:
            self.dead = True
            if half is not None and self.die_half_way:
                half()
            raise KilledError


@dataclass
class FakeRunner:
    """mount, swapon and swapoff act on the tree's tables, other commands only succeed; not those that are `failing`."""

    kernel: FakeKernel
    failing: frozenset[str] = frozenset()
    absent: str = ""
    commands: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str]) -> Completed:
        self.kernel._operation(f"run {' '.join(argv)}")
        self.commands.append(" ".join(argv))
        in_copy = argv[0] == "unshare"
        if in_copy:
            argv = argv[argv.index("mount") :]
        if argv[0] in self.failing:
            return Completed(1, "", f"{argv[0]}: it did not work\n")
        if argv[0] == "mount":
            self._remount(argv[2].split(","), argv[-1], in_copy=in_copy)
        elif argv[0] in ("swapon", "swapoff"):
            self._swap(argv)
        return Completed(0)

    def _remount(self, given: list[str], mount_point: str, *, in_copy: bool) -> None:
        """As mount(2) does it: flags are replaced as a whole, options of the file system only where they are named.

        Without `bind` it changes the superblock, of all its mounts; in_copy: the flags of a copy of the mount.
        """
        table = self.kernel.locate("/proc/self/mountinfo")
        mounts = read_mounts(Reader(self.kernel))
        device = [mount.device_number for mount in mounts if mount.mount_point == mount_point][-1]
        lines = []
        for line, mount in zip(table.read_text().splitlines(), mounts, strict=True):
            before, _, after = line.partition(" - ")
            words, of_filesystem = before.split(" "), after.split(" ")
            if mount.mount_point == mount_point and not in_copy:
                words[5] = ",".join(dict.fromkeys(word for word in given if word in {*MOUNT_FLAGS, "ro", "rw"}))
            if mount.device_number == device and "bind" not in given:
                others = {word.partition("=")[0]: word for word in mount.superblock_options if word not in FLAGS}
                others |= {word.partition("=")[0]: word for word in given if "=" in word}
                others.pop("commit", None) if "commit=0" in given else None
                flags = [word for word in given if word in FLAGS - MOUNT_FLAGS]
                of_filesystem[2] = ",".join(dict.fromkeys([*flags, *others.values()]))
            lines.append(f"{' '.join(words)} - {' '.join(of_filesystem)}")
        table.write_text("\n".join(lines) + "\n")

    def _swap(self, argv: Sequence[str]) -> None:
        table = self.kernel.locate("/proc/swaps")
        device = argv[-1]
        lines = [line for line in table.read_text().splitlines() if line.split()[0] != device]
        if argv[0] == "swapon":
            priority = argv[argv.index("-p") + 1] if "-p" in argv else "-2"
            lines.append(f"{device} partition 1048576 0 {priority}")
        table.write_text("\n".join(lines) + "\n")


def whole_tree(root: Path) -> dict[str, str]:
    """Every folder, and every file with its mode and text."""
    return {
        str(path.relative_to(root)): (
            "folder" if path.is_dir() else f"{path.stat().st_mode:o} {path.read_bytes().decode()}"
        )
        for path in root.rglob("*")
        if not path.is_symlink()
    }


def reboot(root: Path, boot_settings: dict[str, str]) -> None:
    """The kernel comes up with its own settings; every line that nobody waited for may be lost."""
    (root / "proc/sys/kernel/random/boot_id").write_text("another\n")
    for path, text in boot_settings.items():
        if path.startswith(("proc/", "sys/")) and not path.endswith("boot_id") and text != "folder":
            (root / path).write_text(text.partition(" ")[2])
    for journal in (root / "var/lib/highwater-tuning").glob("*.jsonl"):
        text = journal.read_text()
        while re.search(r'"entry":\{"change":\d+,"entry":"done"\}\}\n\Z', text):
            text = text[: text.rstrip("\n").rfind("\n") + 1]
        journal.write_text(text)
