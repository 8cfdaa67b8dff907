"""Reads the active profile of TuneD, which sets kernel settings after the files of the boot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..hostfiles import HostFiles
from .sysctl_d import dotted

_ACTIVE: Final = "/etc/tuned/active_profile"
_MAIN: Final = "/etc/tuned/tuned-main.conf"
# Of TuneD before and since 2.23; the administrator's profiles come before the shipped ones.
_PROFILE_DIRECTORIES: Final = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_ENABLED: Final = "/etc/systemd/system/multi-user.target.wants"
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "thp.enabled": ("vm", "transparent_hugepages"),
    "thp.defrag": ("vm", "transparent_hugepage.defrag"),
    "cpu.governor": ("cpu", "governor"),
    "cpu.boost": ("cpu", "boost"),
    "disk.scheduler": ("disk", "elevator"),
    "disk.read_ahead_kb": ("disk", "readahead"),
}
_DEEPEST_INCLUDE: Final = 16


@dataclass(frozen=True)
class ProfileLine:
    section: str
    key: str
    value: str
    path: str
    number: int


@dataclass(frozen=True)
class ActiveProfile:
    name: str
    reapply_sysctl: bool
    """TuneD applies sysctl.d again after its own settings, so that those files win (its default)."""
    lines: tuple[ProfileLine, ...]
    """Lines of the profile and of included profiles, included ones first."""

    @property
    def sysctls(self) -> tuple[ProfileLine, ...]:
        return tuple(line for line in self.lines if line.section == "sysctl")

    def sets(self, knob_id: str, path: str) -> ProfileLine | None:
        """The line that governs a setting of /sys, by an option of one of TuneD's plugins or by its path."""
        option = _OPTIONS.get(knob_id, ("", ""))
        found = [line for line in self.lines if (line.section, line.key) in (option, ("sysfs", path))]
        return found[-1] if found else None


def active_profile(files: HostFiles) -> ActiveProfile | None:
    """The active profile; None without TuneD, without a profile, or if its service does not start at boot."""
    names = (files.read(_ACTIVE).text or "").split()
    if not names or "tuned.service" not in files.names(_ENABLED):
        return None
    lines = tuple(line for name in names for line in _profile(files, name, 0))
    return ActiveProfile(" ".join(names), _reapplies(files), lines)


def _reapplies(files: HostFiles) -> bool:
    for _, _, key, value in _numbered(files.read(_MAIN).text or ""):
        if key == "reapply_sysctl":
            return value.lower() not in _FALSE
    return True


def _profile(files: HostFiles, name: str, depth: int) -> Iterator[ProfileLine]:
    paths = [f"{directory}/{name}/tuned.conf" for directory in _PROFILE_DIRECTORIES]
    path = next((path for path in paths if files.exists(path)), None)
    if path is None or depth > _DEEPEST_INCLUDE or "/" in name:
        return
    own = list(_sections(files.read_of_others(path) or "", path))
    for line in own:
        if line.section == "main" and line.key == "include":
            for included in re.split(r"[\s,;]+", line.value):
                yield from _profile(files, included.removeprefix("-"), depth + 1)
    yield from own


def _sections(text: str, path: str) -> Iterator[ProfileLine]:
    for section, number, key, value in _numbered(text):
        key = dotted(key) if section == "sysctl" else key
        if section == "disk" and key == "readahead":
            value = value.lstrip(">").strip()  # `>` only raises, and so does the knob
        yield ProfileLine(section, key, " ".join(value.split()), path, number)


def _numbered(text: str) -> Iterator[tuple[str, int, str, str]]:
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif "=" in stripped and stripped[0] not in "=#;[":
            name, _, value = stripped.partition("=")
            yield section, number, name.rstrip(), value.lstrip().strip("\"'")
