"""Plans mount options: the remount now, and the edit of fstab or mount unit for the next boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..boot_files import fstab, systemd
from ..facts.model import Facts, Mount
from ..steps import MOUNT_LAYERS, layer_of, remount_steps
from .draft import Draft, SelectedKnob

FSTAB_SOURCE: Final = "mount.fstab_source"
# Groups of mutually exclusive mount options; a name that ends in = stands for every value.
_FAMILIES: Final = (
    ("noatime", "relatime", "strictatime", "atime"),
    ("data=",),
    ("commit=",),
    ("barrier", "nobarrier", "barrier="),
    ("delalloc", "nodelalloc"),
    ("discard", "nodiscard"),
    ("lazytime", "nolazytime"),
)
# Default options of a mount, which fstab need not name.
_DEFAULTS: Final = frozenset({"relatime", "barrier", "delalloc", "nodiscard", "nolazytime", "data=ordered", "commit=5"})
# Options that /proc/self/mountinfo does not show when they are in force.
_NOT_SHOWN: Final = _DEFAULTS - {"relatime"} | {"strictatime"}
# ext4(5): refused by a remount.
_AT_MOUNT_ONLY: Final = "data="
_UNITS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


def plan(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Raises TuningError when /etc/fstab cannot be read, or mounts a directory twice."""
    by_mount: dict[str, tuple[Mount, dict[str, SelectedKnob]]] = {}
    superblocks: set[str] = set()
    for item in chosen:
        mount = draft.facts.mount_of(item.report.target)
        if mount is None:
            continue
        if item.knob.id == FSTAB_SOURCE:
            if draft.options.persist:
                _plan_source(draft, mount, item)
            continue
        by_mount.setdefault(mount.mount_point, (mount, {}))[1].setdefault(str(item.report.recommended), item)
    for mount, items in by_mount.values():
        if mount.device_number in superblocks:  # an earlier mount of this file system has changed its superblock
            items = {wanted: item for wanted, item in items.items() if layer_of(wanted) == "mount"}
        superblocks.add(mount.device_number)
        _remount(draft, mount, items)
        if draft.options.persist:
            for layer in MOUNT_LAYERS:
                _persist(draft, mount, {wanted: item for wanted, item in items.items() if layer_of(wanted) == layer})


def _remount(draft: Draft, mount: Mount, items: Mapping[str, SelectedKnob]) -> None:
    options = mount.options
    for wanted, item in items.items():
        if item.report.state != "differs":
            continue
        if wanted.startswith(_AT_MOUNT_ONLY):
            draft.pending.append(f"{wanted} on {mount.mount_point}: when it is next mounted")
            continue
        options = fstab.changed_options(options, wanted, exclusive_options(wanted))
    options = tuple(option for option in options if option in mount.options or option not in _NOT_SHOWN)
    draft.live += remount_steps(mount, options)


def _persist(draft: Draft, mount: Mount, items: Mapping[str, SelectedKnob]) -> None:
    if not items:
        return
    kept = boot_mount(draft.facts, draft.text, mount, next(iter(items)))
    if kept is None:
        words = ",".join(wanted for wanted, item in items.items() if item.report.state == "differs")
        if words:
            draft.warnings.append(
                f"neither {fstab.PATH} nor a mount unit mounts {mount.mount_point}: {words} lasts until it is next "
                "mounted; add the option where it is mounted"
            )
        return
    options = kept.options
    for wanted in items:
        if lacks_option(options, wanted):
            options = fstab.changed_options(options, wanted, exclusive_options(wanted))
    if options == kept.options:
        return
    why = f"{mount.mount_point} is mounted with {','.join(items)}"
    text = draft.text(kept.path)
    if kept.entry is not None:
        draft.put(kept.path, fstab.with_options(text or "", kept.entry, options), why)
    else:
        draft.put(kept.path, systemd.with_settings(text, "Mount", {"Options": ",".join(options)}), why)


def _plan_source(draft: Draft, mount: Mount, item: SelectedKnob) -> None:
    text = draft.text(fstab.PATH) or ""
    entry = fstab.find_mount(text, mount.mount_point)
    wanted = str(item.report.recommended)
    if entry is not None and item.report.state == "differs" and wanted.startswith("UUID="):
        draft.put(
            fstab.PATH, fstab.with_source(text, entry, wanted), f"{mount.mount_point} by UUID, not by device name"
        )


@dataclass(frozen=True)
class BootMount:
    """How a file system is mounted at boot: the file to edit, and the options that the files give now."""

    path: str
    options: tuple[str, ...]
    entry: fstab.FstabEntry | None
    """The entry of fstab; None for the drop-in of a mount unit."""

    @property
    def is_bind(self) -> bool:
        return not fstab.BIND.isdisjoint(self.options)


def boot_mount(facts: Facts, read: Callable[[str], str | None], mount: Mount, option: str) -> BootMount | None:
    """How the option's layer of a mount is made at boot; None when neither fstab nor a mount unit makes it.

    The superblock of a bind mount gets its options from another mount of the same file system. Raises TuningError when
    fstab mounts the place twice.
    """
    if layer_of(option) == "mount":
        return _boot_mount(read, mount)
    others = (other for other in facts.mounts if other.device_number == mount.device_number and other != mount)
    kept = (_boot_mount(read, each) for each in (mount, *others))
    return next((each for each in kept if each is not None and not each.is_bind), None)


def _boot_mount(read: Callable[[str], str | None], mount: Mount) -> BootMount | None:
    entry = fstab.find_mount(read(fstab.PATH) or "", mount.mount_point)
    if entry is not None:
        return _fitting(BootMount(fstab.PATH, entry.options, entry), mount, entry.filesystem)
    unit = f"{systemd.escape_path(mount.mount_point)}.mount"
    text = next((found for path in _UNITS if (found := read(f"{path}/{unit}")) is not None), None)
    if text is None:
        return None
    drop_in, own = systemd.drop_in(unit), systemd.parse_drop_in(text).get("Mount", {})
    ours = systemd.parse_drop_in(read(drop_in) or "").get("Mount", {}).get("Options")
    options = tuple((ours or own.get("Options", "defaults")).split(","))
    return _fitting(BootMount(drop_in, options, None), mount, own.get("Type", "auto"))


def _fitting(kept: BootMount, mount: Mount, types: str) -> BootMount | None:
    """None if its file makes a mount of another type: with options of this one it could not be mounted."""
    is_of_type = any(kind == "auto" or mount.filesystem.startswith(kind) for kind in types.split(","))
    return kept if kept.is_bind or is_of_type else None


def lacks_option(options: tuple[str, ...], wanted: str) -> bool:
    """Whether a mount with these options of a file would lack `wanted`."""
    if wanted in options or (wanted == "barrier" and "barrier=1" in options):
        return False
    return wanted not in _DEFAULTS or any(exclusive_options(option) == exclusive_options(wanted) for option in options)


def in_effect(live: tuple[str, ...], wanted: str) -> bool:
    """Whether a mount with these options of /proc/self/mountinfo has the option `wanted`."""
    if wanted in live:
        return True
    return wanted in _NOT_SHOWN and not any(exclusive_options(option) == exclusive_options(wanted) for option in live)


def exclusive_options(option: str) -> tuple[str, ...]:
    """The group of mutually exclusive options that contains this one; empty when it excludes no other."""
    for family in _FAMILIES:
        if any(option.startswith(name) if name.endswith("=") else option == name for name in family):
            return family
    return ()
