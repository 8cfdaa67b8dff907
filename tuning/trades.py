"""Settings in force that trade crash safety for speed, with their cost in words.

Reports print them beside results. They are read from the live system: mount options and sysctls of write-back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..common.units import percent_text, size_text
from .facts.model import Facts, Mount
from .facts.reading import parse_whole

# ext4(5), "commit": the default; jbd2 then commits metadata every five seconds.
_DEFAULT_COMMIT_S: Final = 5
# Documentation/admin-guide/sysctl/vm.rst: the kernel's default.
_DEFAULT_DIRTY_EXPIRE_CENTISECS: Final = 3000
# Twice the kernel's default of 20 %, and the most that the catalogue's formula recommends.
_MOST_DIRTY_SHARE: Final = 0.40


@dataclass(frozen=True)
class Trade:
    """A setting in force, its place (a mount point; empty for the host), and what a crash or power cut may cost."""

    setting: str
    place: str
    cost: str

    def __str__(self) -> str:
        return f"{self.setting}{f' on {self.place}' if self.place else ''}: {self.cost}"


def durability_trades(facts: Facts, data_dirs: Iterable[str] = ()) -> list[Trade]:
    """The trades of the mounts of `data_dirs`, from `facts`, then those of the whole host, read at the call."""
    mounts = {mount.mount_point: mount for path in data_dirs if (mount := facts.mount_of(path)) is not None}
    return [*(trade for mount in mounts.values() for trade in _of_mount(mount)), *_of_host(facts)]


def _of_mount(mount: Mount) -> Iterator[Trade]:
    for option in mount.options:
        name, _, value = option.partition("=")
        if option == "data=writeback":
            yield Trade(
                option, mount.mount_point, "after a crash files may hold old blocks of others in their new part"
            )
        elif option == "nobarrier" or (name == "barrier" and value == "0"):
            yield Trade(
                option, mount.mount_point, "a power cut may lose or reorder what was synced and damage the journal"
            )
        elif name == "commit" and value.isdecimal() and int(value) > _DEFAULT_COMMIT_S:
            yield Trade(
                option, mount.mount_point, f"a crash may cost {value} s of metadata instead of {_DEFAULT_COMMIT_S}"
            )


def _of_host(facts: Facts) -> Iterator[Trade]:
    limit, usable = _number(facts, "vm.dirty_bytes"), facts.memory.usable_bytes
    if limit and usable and limit > _MOST_DIRTY_SHARE * usable:
        share = f"{percent_text(limit / usable)} of available memory"
        yield Trade(f"vm.dirty_bytes={limit}", "", f"a power cut may cost {size_text(limit)} ({share})")
    ratio = _number(facts, "vm.dirty_ratio")
    if not limit and ratio is not None and ratio > 100 * _MOST_DIRTY_SHARE:
        yield Trade(f"vm.dirty_ratio={ratio}", "", f"a power cut may cost {ratio} % of available memory")
    expire = _number(facts, "vm.dirty_expire_centisecs")
    if expire is not None and expire > _DEFAULT_DIRTY_EXPIRE_CENTISECS:
        yield Trade(
            f"vm.dirty_expire_centisecs={expire}",
            "",
            f"a power cut may cost what was written in the last {expire / 100:g} s, instead of 30",
        )


def _number(facts: Facts, key: str) -> int | None:
    text = facts.files.read("/proc/sys/" + key.replace(".", "/")).text
    return parse_whole(text or "")
