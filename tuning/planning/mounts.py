"""Options of mounted file systems: the remount now, and what mounts them at boot, /etc/fstab or a mount unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..facts import Mount
from ..persistence import fstab, systemd
from ..steps import RemountStep
from .draft import Chosen, Draft

_SOURCE: Final = "mount.fstab_source"
# Options of which a mount has one; a name that ends in = stands for every value.
_FAMILIES: Final = (
    ("noatime", "relatime", "strictatime", "atime"),
    ("data=",),
    ("commit=",),
    ("barrier", "nobarrier", "barrier="),
    ("delalloc", "nodelalloc"),
    ("discard", "nodiscard"),
)
# What a mount has without being told: fstab need not name it.
_DEFAULTS: Final = frozenset({"relatime", "barrier", "delalloc", "nodiscard", "data=ordered", "commit=5"})
# Of them and their like, what /proc/self/mountinfo shows by showing nothing.
_NOT_SHOWN: Final = _DEFAULTS - {"relatime"} | {"strictatime"}
# ext4(5): refused by a remount.
_AT_MOUNT_ONLY: Final = "data="
_UNITS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


def plan(draft: Draft, chosen: Sequence[Chosen]) -> None:
    """Raises TuningError when /etc/fstab cannot be read, or mounts a directory twice."""
    by_mount: dict[str, tuple[Mount, dict[str, Chosen]]] = {}
    for item in chosen:
        mount = draft.facts.mount_of(item.report.target)
        if mount is None:
            continue
        if item.knob.id == _SOURCE:
            if draft.options.keep and _SOURCE in draft.options.named | draft.options.accepted:
                _plan_source(draft, mount, item)
            continue
        by_mount.setdefault(mount.mount_point, (mount, {}))[1].setdefault(str(item.report.recommended), item)
    for mount, items in by_mount.values():
        _remount(draft, mount, items)
        if draft.options.keep:
            _keep(draft, mount, items)


def _remount(draft: Draft, mount: Mount, items: Mapping[str, Chosen]) -> None:
    options = mount.options
    for wanted, item in items.items():
        if item.report.state != "differs":
            continue
        if wanted.startswith(_AT_MOUNT_ONLY):
            draft.pending.append(f"{wanted} on {mount.mount_point}: when it is next mounted")
            continue
        options = fstab.changed_options(options, wanted, _family(wanted))
    options = tuple(option for option in options if option in mount.options or option not in _NOT_SHOWN)
    if options != mount.options:
        draft.live.append(RemountStep(mount.mount_point, mount.options, options))


def _keep(draft: Draft, mount: Mount, items: Mapping[str, Chosen]) -> None:
    text = draft.text(fstab.PATH) or ""
    entry = fstab.find_mount(text, mount.mount_point)
    if entry is not None:
        options = entry.options
        for wanted in items:
            if _needs_word(options, wanted):
                options = fstab.changed_options(options, wanted, _family(wanted))
        if options != entry.options:
            draft.put(fstab.PATH, fstab.with_options(text, entry, options), _why(mount, items))
        return
    unit = f"{systemd.escape_path(mount.mount_point)}.mount"
    present = _unit_options(draft, unit)
    if present is None:
        words = ",".join(wanted for wanted, item in items.items() if item.report.state == "differs")
        if words:
            draft.warnings.append(
                f"neither /etc/fstab nor a mount unit mounts {mount.mount_point}: {words} lasts until it is next "
                "mounted; say so where it is mounted"
            )
        return
    options = present
    for wanted in items:
        if _needs_word(options, wanted):
            options = fstab.changed_options(options, wanted, _family(wanted))
    if options != present:
        path = systemd.drop_in(unit)
        text_of_unit = systemd.with_settings(draft.text(path), "Mount", {"Options": ",".join(options)})
        draft.put(path, text_of_unit, _why(mount, items))


def _plan_source(draft: Draft, mount: Mount, item: Chosen) -> None:
    text = draft.text(fstab.PATH) or ""
    entry = fstab.find_mount(text, mount.mount_point)
    wanted = str(item.report.recommended)
    if entry is not None and item.report.state == "differs" and wanted.startswith("UUID="):
        draft.put(
            fstab.PATH, fstab.with_source(text, entry, wanted), f"{mount.mount_point} by what it is, not by its turn"
        )


def _needs_word(options: tuple[str, ...], wanted: str) -> bool:
    """Whether these options of a file would mount without `wanted`."""
    if wanted in options or (wanted == "barrier" and "barrier=1" in options):
        return False
    return wanted not in _DEFAULTS or any(_family(option) == _family(wanted) for option in options)


def _family(option: str) -> tuple[str, ...]:
    for family in _FAMILIES:
        if any(option.startswith(name) if name.endswith("=") else option == name for name in family):
            return family
    return ()


def _unit_options(draft: Draft, unit: str) -> tuple[str, ...] | None:
    """Options of a mount unit by its file and our drop-in; None without such a unit."""
    files = draft.facts.files
    text = next((found for path in _UNITS if (found := files.read(f"{path}/{unit}").text) is not None), None)
    if text is None:
        return None
    ours = systemd.parse_drop_in(draft.text(systemd.drop_in(unit)) or "").get("Mount", {})
    options = ours.get("Options") or systemd.parse_drop_in(text).get("Mount", {}).get("Options", "defaults")
    return tuple(options.split(","))


def _why(mount: Mount, items: Mapping[str, Chosen]) -> str:
    return f"{','.join(items)} for {mount.mount_point}"
