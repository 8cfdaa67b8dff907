"""Reads and changes the resources of a host: settings, files, mounts and swap devices."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from tempfile import NamedTemporaryFile
from typing import Final

from ..common.units import size_text
from .boot_files import fstab
from .errors import TuningError
from .facts.filesystems import read_mounts
from .facts.reading import Reader, parse_kibibytes
from .facts.swap import read_swaps
from .hostfiles import HostFiles
from .runner import Runner
from .steps import (
    MOUNT_FLAGS,
    MOUNT_LAYERS,
    FileStep,
    Resource,
    ResourceState,
    Step,
    SwapOffStep,
    setting_name,
)
from .three_way import normalized, same_state

# mount(8): flags of superblock and mount. A remount that does not name a flag turns it off.
_FLAGS: Final = MOUNT_FLAGS | {"ro", "rw", "sync", "dirsync", "mand", "lazytime"}
# The option that undoes another one, for options that are not undone by naming the previous option again.
_OPPOSITES: Final = {
    "noatime": "strictatime",
    "relatime": "strictatime",
    "nodiratime": "diratime",
    "lazytime": "nolazytime",
    "discard": "nodiscard",
    "nodiscard": "discard",
    "nodelalloc": "delalloc",
    "delalloc": "nodelalloc",
    "nobarrier": "barrier",
    "barrier": "nobarrier",
    "nouser_xattr": "user_xattr",
}
_DEFAULT_VALUES: Final = {"commit": "0", "stripe": "0", "max_batch_time": "15000", "min_batch_time": "0"}
_WAYS_OUT: Final = {
    errno.EPERM: "run as root, or ask whoever runs the host below",
    errno.EACCES: "run as root, or ask whoever runs the host below",
    errno.EROFS: "it is read-only here; change it on the host below",
    errno.ENOENT: "it is no longer there",
    errno.ENODEV: "it is no longer there",
    errno.ENXIO: "it is no longer there",
    errno.ENOSPC: "make room on that file system",
}


class Resources:
    """Reads and changes the resources of one host. All errors are TuningErrors of one line that name the resource."""

    def __init__(self, files: HostFiles, runner: Runner) -> None:
        self._files = files
        self._runner = runner

    def read(self, resource: Resource) -> ResourceState:
        """Its current state. Raises TuningError for a file that must not be edited."""
        readers: dict[str, Callable[[Resource], ResourceState]] = {
            "setting": self._read_setting,
            "file": self._read_file,
            "mount": self._read_mount,
            "superblock": self._read_mount,
            "swap": self._read_swap,
        }
        return readers[resource.kind](resource)

    def change_to(self, resource: Resource, wanted: ResourceState, now: ResourceState) -> None:
        """Change it from `now` to `wanted` and read it back. Raises TuningError when the change had no effect."""
        changers: dict[str, Callable[[Resource, ResourceState, ResourceState], None]] = {
            "setting": self._write_setting,
            "file": self._write_file,
            "mount": self._remount,
            "superblock": self._remount,
            "swap": self._switch_swap,
        }
        changers[resource.kind](resource, wanted, now)
        found = self.read(resource)
        if not same_state(resource, found, wanted):
            raise TuningError(_without_effect(resource, wanted, found))

    def obstacles(self, steps: Sequence[Step]) -> list[str]:
        """Obstacles to changes that are too dangerous to try: a swap device whose content does not fit into memory, and
        a text of /etc/fstab with an error.
        """
        return [*self._swap_obstacles(steps), *self._fstab_obstacles(steps)]

    def _fstab_obstacles(self, steps: Sequence[Step]) -> Iterator[str]:
        if not self._files.is_running_system or self._runner.absent:
            return
        for step in steps:
            if isinstance(step, FileStep) and step.path == fstab.PATH and step.before and step.after:
                known = self._errors_in_fstab(step.before)
                if new := [line for line in self._errors_in_fstab(step.after) if line not in known]:
                    yield f"{fstab.PATH} would get an error ({'; '.join(new)}), which can stop the next boot"

    def _errors_in_fstab(self, text: str) -> list[str]:
        """Lines of findmnt(8) that name an error in a text of fstab."""
        with NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape", newline="") as table:
            table.write(text)
            table.flush()
            # It looks at what lines name: a file server that does not answer must not hold it.
            done = self._runner.run(("timeout", "-k", "1", "20", "findmnt", "--verify", "--tab-file", table.name))
        lines = f"{done.stdout}\n{done.stderr}".replace(table.name, fstab.PATH).splitlines()
        return [line.strip() for line in lines if "[E]" in line or "parse error at" in line]

    def _swap_obstacles(self, steps: Sequence[Step]) -> list[str]:
        """Half of the available memory stays free for other processes."""
        leaving = {step.device for step in steps if isinstance(step, SwapOffStep)}
        used = sum(swap.used_bytes for swap in read_swaps(Reader(self._files)) or () if swap.device in leaving)
        available = parse_kibibytes(self._files.read("/proc/meminfo").text or "", "MemAvailable")
        if available is None or used <= available // 2:
            return []
        problem = (
            f"{', '.join(sorted(leaving))} holds {size_text(used)} and only {size_text(available)} of memory is "
            "available: taking it out of use could end processes; stop something first"
        )
        return [problem]

    def _read_setting(self, resource: Resource) -> ResourceState:
        texts = {path: self._files.read(path).text for path in resource.names}
        if any(text is None for text in texts.values()):
            return None
        texts |= {path: self._files.read(path).text for path in resource.companions}
        return {path: _writable_text(path, text) for path, text in texts.items() if text is not None}

    def _read_file(self, resource: Resource) -> ResourceState:
        (path,) = resource.names
        attributes = self._files.attributes(path)
        if attributes is None:
            return None
        if not attributes.regular:
            raise TuningError(f"{path} is a link or no regular file; put a regular file in its place, or leave it out")
        text = self._files.read_verbatim(path) or ""
        if "\0" in text:
            raise TuningError(f"{path} holds a null byte, so it is not a text file; see what is wrong with it")
        return {
            "text": text,
            "mode": f"{attributes.mode:o}",
            "user": str(attributes.user_id),
            "group": str(attributes.group_id),
        }

    def _read_mount(self, resource: Resource) -> ResourceState:
        (mount_point,) = resource.names
        found = [mount for mount in read_mounts(Reader(self._files)) if mount.mount_point == mount_point]
        if not found:
            return None
        layer = next(layer for layer in MOUNT_LAYERS if layer == resource.kind)
        return {"options": ",".join(found[-1].options_of(layer)), "source": found[-1].source}

    def _read_swap(self, resource: Resource) -> ResourceState:
        (device,) = resource.names
        for swap in read_swaps(Reader(self._files)) or ():
            if swap.device == device:
                return {"in_use": "yes", "priority": str(swap.priority)}
        return {"in_use": "no"} if self._files.exists(device) else None

    def _write_setting(self, resource: Resource, wanted: ResourceState, now: ResourceState) -> None:
        if wanted is None or now is None:
            raise TuningError(f"{resource} is no longer there")
        members = _members_to_write({path: wanted[path] for path in resource.names}, now)
        for path in members:
            self._write_member(path, wanted[path])
        # Restore what the kernel reset with it. In a captured tree, no kernel sets the other member of a pair to 0.
        for path in (*resource.companions, *(resource.names if self._runner.absent else ())):
            if path in wanted and path not in members and self._files.read(path).text != wanted[path]:
                self._write_member(path, wanted[path])

    def _write_member(self, path: str, text: str) -> None:
        try:
            self._files.write_setting(path, text)
        except OSError as error:
            raise TuningError(_refusal(setting_name(path), text, error)) from error

    def _write_file(self, resource: Resource, wanted: ResourceState, now: ResourceState) -> None:
        (path,) = resource.names
        try:
            if wanted is None:
                self._files.remove_file(path)
            else:
                owner = (int(wanted["user"]), int(wanted["group"])) if "user" in wanted else None
                self._files.replace_file(path, wanted["text"], int(wanted.get("mode", "644"), 8), owner)
        except OSError as error:
            way_out = _WAYS_OUT.get(error.errno or 0, "see what is wrong with that file system")
            raise TuningError(f"{path} cannot be written ({error.strerror or error}); {way_out}") from error

    def _remount(self, resource: Resource, wanted: ResourceState, now: ResourceState) -> None:
        if wanted is None or now is None:
            raise TuningError(f"{resource} is no longer mounted")
        self._run(resource, remount_command(resource, now["source"], now, wanted))

    def _switch_swap(self, resource: Resource, wanted: ResourceState, now: ResourceState) -> None:
        (device,) = resource.names
        if wanted is None or now is None:
            raise TuningError(f"{device} is no longer there")
        if wanted["in_use"] == "no":
            self._run(resource, ("swapoff", device))
            return
        priority = int(wanted.get("priority", "-1"))
        # The kernel itself assigns negative priorities, in the order in which devices are added.
        self._run(resource, ("swapon", *(("-p", str(priority)) if priority >= 0 else ()), device))

    def _run(self, resource: Resource, argv: tuple[str, ...]) -> None:
        if self._runner.absent:
            raise TuningError(f"{resource}: {argv[0]} is not run: {self._runner.absent}")
        done = self._runner.run(argv)
        if done.status != 0:
            raise TuningError(f"{resource}: `{' '.join(argv)}` failed: {done.complaint}")


def remount_command(resource: Resource, source: str, now: ResourceState, wanted: ResourceState) -> tuple[str, ...]:
    """The command that gives one layer of a mount the options of `wanted`, and leaves the other layer as it is.

    mount(2) changes the superblock together with the mount that it is given. It is given a copy of the mount, in a
    mount namespace that ends with the command: a read-only mount of a file system is not writable for a moment.
    """
    (mount_point,) = resource.names
    present, options = ((state or {}).get("options", "").split(",") for state in (now, wanted))
    of_mount = resource.kind == "mount"
    words = ["remount", *(["bind"] if of_mount else []), *remount_options(present, options)]
    # With both source and mount point given, mount(8) does not add the options of fstab.
    command = ("mount", "-o", ",".join(words), source, mount_point)
    return command if of_mount else ("unshare", "--mount", "--propagation", "unchanged", *command)


def remount_options(present: list[str], wanted: list[str]) -> list[str]:
    """The options of a remount that turns `present` into `wanted`: the flags that stay, the new options, and the
    opposites of the removed ones. File system options that a remount does not name stay as they are.
    """
    new = [option for option in wanted if option not in present]
    new_names = {option.partition("=")[0] for option in new}
    names_atime = {"noatime", "relatime", "strictatime", "atime"} & set(wanted)
    opposites = []
    for option in present:
        name, has_value, _ = option.partition("=")
        if option in wanted or name in new_names or (name in ("noatime", "relatime") and names_atime):
            continue
        if has_value and name in _DEFAULT_VALUES:
            opposites.append(f"{name}={_DEFAULT_VALUES[name]}")
        elif name in _OPPOSITES:
            opposites.append(_OPPOSITES[name])
    return [*(option for option in wanted if option in _FLAGS and option in present), *new, *opposites]


def _writable_text(path: str, text: str) -> str:
    """The text that can be written back: of a list of choices the chosen word, else the text as the kernel shows it."""
    return normalized(path, text) if "[" in text else text


def _members_to_write(wanted: dict[str, str], now: dict[str, str]) -> list[str]:
    """The member of a pair that is not 0: when it is written, the kernel sets the other one to 0.

    When both shall be 0, the percentage is written, as the key in bytes does not accept 0.
    """
    if len(wanted) == 1:
        return list(wanted)
    telling = [path for path, text in wanted.items() if text != "0"]
    return telling or [path for path in wanted if path.endswith("ratio") and now.get(path) != "0"]


def _refusal(name: str, value: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    way_out = _WAYS_OUT.get(error.errno or 0, "")
    return f"{name}: the kernel refuses {value!r} ({reason})" + (f"; {way_out}" if way_out else "")


def _without_effect(resource: Resource, wanted: ResourceState, found: ResourceState) -> str:
    if resource.kind == "setting" and wanted is not None:
        for path in resource.names:
            text = found[path] if found else None
            if text is None:
                return f"{setting_name(path)}: it disappeared while it was being set to {wanted[path]!r}"
            if normalized(path, text) != normalized(path, wanted[path]):
                name, value = setting_name(path), wanted[path]
                return f"{name}: the write of {value!r} had no effect, it reads {text!r}"
    if resource.kind in MOUNT_LAYERS and wanted is not None:
        options = found["options"] if found else "not mounted"
        return f"{resource}: the remount with {wanted['options']} had no effect, it is {options}"
    return f"{resource}: the change had no effect"
