"""Simulates a boot to find which file wins for a kernel setting.

The order is: `sysctl.KEY=` of the kernel's command line; sysctl.d(5), read by systemd-sysctl or, without systemd, by
procps' `sysctl --system`; the active profile of TuneD, and sysctl.d again if its `reapply_sysctl` is on; lines of
/etc/rc.local.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final

from ..hostfiles import HostFiles
from . import tuned
from .sysctl_d import PAIRED_KEYS, SysctlLine, dotted, parse_lines, single_blanks

# sysctl.d(5), and sysctl(8) of procps-ng 4: of files with the same name, the one in the first directory counts.
_DIRECTORIES: Final = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
_DIRECTORIES_OF_TUNED: Final = ("/run/sysctl.d", "/etc/sysctl.d")
_SYSCTL_CONF: Final = "/etc/sysctl.conf"
_SYSTEMD_SYSCTL: Final = ("/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl", "/run/systemd/system")
_RC_LOCAL: Final = ("/etc/rc.local", "/etc/rc.d/rc.local")
_GLOB: Final = re.compile(r"[*?[]")
_SYSCTL_COMMAND: Final = re.compile(
    r"""\bsysctl\s+(?:-\S{1,40}\s+){0,9}["']?(?P<key>[a-z0-9_./-]+)=(?P<value>[^"';&|#]*)"""
)
_TO_A_KEY: Final = re.compile(r">\s*/proc/sys/([a-z0-9_./-]+)")


@dataclass(frozen=True)
class Assignment:
    """One assignment of a key (dotted form) during a boot, with its place."""

    key: str
    value: str
    path: str
    line: int
    """Counted from 1; 0 where there are no lines."""
    reader: str
    """Who applies it: kernel, systemd-sysctl, sysctl --system, TuneD, rc.local."""
    idle: str = ""
    """Why its reader does not make it; empty for an assignment that is made."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    def __str__(self) -> str:
        remark = f": no effect, {self.idle}" if self.idle else ""
        return f"{self.where} sets {self.key} = {self.value} ({self.reader}){remark}"


@dataclass(frozen=True)
class Boot:
    """All assignments of a boot in the order in which they are made; idle ones have the places of their lines."""

    assignments: tuple[Assignment, ...]

    def chain(self, key: str) -> tuple[Assignment, ...]:
        """All assignments of the key or of the other member of its pair, in order; the last one that is made wins."""
        keys = {key, PAIRED_KEYS.get(key, key)}
        found = [item for wanted in keys for item in self._by_key.get(wanted, ())]
        # The kernel does not accept 0 for a member of a pair, so such a line has no effect.
        found = [item for item in found if not (item.key in PAIRED_KEYS and item.value == "0")]
        return tuple(self.assignments[number] for number in sorted(self._number[item] for item in found))

    def winner(self, key: str) -> Assignment | None:
        """The last assignment; None when the kernel's default stays. Its key may be the other member of the pair."""
        return next((item for item in reversed(self.chain(key)) if not item.idle), None)

    def explain(self, key: str) -> list[str]:
        """A line for each place that sets the key, the winner last."""
        winner = self.winner(key)
        others = [str(item) for item in self.chain(key) if item is not winner]
        if winner is None:
            return [*others, f"no file sets {key} at boot: the kernel's default stays"]
        return [*others, f"{winner}: it wins at boot"]

    def settings(self) -> dict[str, str]:
        """Key to value after the boot; for a pair only the member that is in force."""
        return {key: winner.value for key in self._by_key if (winner := self.winner(key)) and winner.key == key}

    @cached_property
    def _by_key(self) -> dict[str, list[Assignment]]:
        found: dict[str, list[Assignment]] = {}
        for item in self.assignments:
            found.setdefault(item.key, []).append(item)
        return found

    @cached_property
    def _number(self) -> dict[Assignment, int]:
        return {item: number for number, item in enumerate(self.assignments)}


def simulate_boot(files: HostFiles, texts: Mapping[str, str | None] | None = None) -> Boot:
    """Simulate the next boot with the current files. `texts` replaces the text of some paths; None: no file."""
    view = _View(files, texts or {})
    with_systemd = any(files.exists(path) for path in _SYSTEMD_SYSCTL)
    made = list(_kernel_command_line(files))
    if with_systemd:
        lines = list(view.lines(view.by_name(_DIRECTORIES)))
        made += _explicit_before_patterns(files, lines, _as_systemd_sysctl(lines))
    else:
        # sysctl(8) reads /etc/sysctl.conf last, whatever the other files are called.
        lines = list(view.lines([*view.by_name(_DIRECTORIES), _SYSCTL_CONF]))
        made += _explicit_before_patterns(files, lines, _assignments(lines, "sysctl --system"))
    profile = tuned.active_profile(files)
    if profile is not None:
        made += [Assignment(line.key, line.value, line.path, line.number, "TuneD") for line in profile.sysctls]
        if profile.reapply_sysctl and profile.sysctls:
            # TuneD's plugin_sysctl reads fewer directories than systemd.
            paths = [*view.by_name(_DIRECTORIES_OF_TUNED), _SYSCTL_CONF]
            made += _assignments(view.lines(paths), "TuneD, reapply_sysctl")
    made += _boot_scripts(files, view)
    return Boot(tuple(_values_resolved(made)))


@dataclass(frozen=True)
class _View:
    """The files of a host with some replaced by other texts."""

    files: HostFiles
    texts: Mapping[str, str | None]

    def by_name(self, directories: Iterable[str]) -> list[str]:
        """Files of sysctl.d in the order of their names; of one name, that in the earliest directory."""
        found: dict[str, str] = {}
        for directory in directories:
            names = set(self.files.names(directory))
            for path, text in self.texts.items():
                if path.rpartition("/")[0] == directory:
                    name = path.rpartition("/")[2]
                    names = names | {name} if text is not None else names - {name}
            for name in names:
                if name.endswith(".conf") and not name.startswith("."):
                    found.setdefault(name, f"{directory}/{name}")
        return [found[name] for name in sorted(found)]

    def lines(self, paths: Iterable[str]) -> Iterator[tuple[str, SysctlLine]]:
        """Each line with the path of its file."""
        yield from ((path, line) for path in paths for line in parse_lines(self.text(path)))

    def text(self, path: str) -> str:
        """Empty for a file that cannot be read."""
        return (self.texts[path] if path in self.texts else self.files.read_of_others(path)) or ""


def _assignments(lines: Iterable[tuple[str, SysctlLine]], reader: str) -> Iterator[Assignment]:
    for path, line in lines:
        if line.value is not None:
            yield Assignment(line.key, single_blanks(line.value), path, line.number, reader)


def _as_systemd_sysctl(lines: Sequence[tuple[str, SysctlLine]]) -> Iterator[Assignment]:
    """The assignments by systemd's rules (sysctl.c, parse_file() and apply_all()).

    A later line with an equal value is dropped, and the key keeps the place of the earlier line: the other member of a
    pair between the two wins. Any other later line takes the key to its own place. `-KEY` takes it away.
    """
    held: dict[str, tuple[str, SysctlLine]] = {}
    idle: dict[tuple[str, int], str] = {}
    for path, line in lines:
        before = held.get(line.key)
        if before is not None and before[1].value == line.value:
            idle[path, line.number] = f"as it repeats {before[0]}:{before[1].number}, which keeps its place"
        else:
            held[line.key] = (path, line)
    for path, line in lines:
        by, last = held[line.key]
        if line.value is not None:
            why = f"as {by}:{last.number} excludes the key" if last.value is None else idle.get((path, line.number), "")
            yield Assignment(line.key, single_blanks(line.value), path, line.number, "systemd-sysctl", why)


def _explicit_before_patterns(
    files: HostFiles, lines: Sequence[tuple[str, SysctlLine]], made: Iterable[Assignment]
) -> Iterator[Assignment]:
    """Expand patterns (`net.ipv4.conf.*.rp_filter`): a line that names a key, also to exclude it, takes precedence."""
    named = {line.key for _, line in lines}
    for item in made:
        if not _GLOB.search(item.key):
            yield item
            continue
        for key in _matching(files, item.key):
            if key not in named:
                yield replace(item, key=key)


def _matching(files: HostFiles, pattern: str) -> Iterator[str]:
    """Keys below /proc/sys that fit a dotted pattern."""
    found = [""]
    for part in (part.replace("/", ".") for part in pattern.split(".")):
        names = [(above, name) for above in found for name in files.names(f"/proc/sys{above}")]
        found = [f"{above}/{name}" for above, name in names if fnmatchcase(name, part)]
    yield from (path[1:].translate(str.maketrans("/.", "./")) for path in found)


def _kernel_command_line(files: HostFiles) -> Iterator[Assignment]:
    for word in (files.read("/proc/cmdline").text or "").split():
        name, equals, value = word.partition("=")
        if equals and name.startswith(("sysctl.", "sysctl/")):
            yield Assignment(dotted(name[len("sysctl.") :]), value, "/proc/cmdline", 0, "kernel")


def _boot_scripts(files: HostFiles, view: _View) -> Iterator[Assignment]:
    for path in _RC_LOCAL:
        if files.link(path) is not None:
            continue  # one of the two files is often a link to the other
        for number, line in enumerate(view.text(path).splitlines(), start=1):
            command = line.partition("#")[0]
            if found := _SYSCTL_COMMAND.search(command):
                yield Assignment(dotted(found["key"]), " ".join(found["value"].split()), path, number, "rc.local")
            if found := _TO_A_KEY.search(command):
                _, echo, value = command[: found.start()].rpartition("echo ")
                if echo:
                    value = " ".join(value.strip().strip("\"'").split())
                    yield Assignment(found[1].replace("/", "."), value, path, number, "rc.local")


def _values_resolved(made: Sequence[Assignment]) -> Iterator[Assignment]:
    """Resolve TuneD's `>N` (raise only) and `<N` (lower only) with the values of earlier assignments."""
    last: dict[str, str] = {}
    for item in made:
        if item.value[:1] in ("<", ">") and item.value[1:].strip().isdecimal():
            bound, before = int(item.value[1:]), last.get(item.key, "")
            if before.isdecimal():
                bound = (max if item.value[0] == ">" else min)(bound, int(before))
            item = replace(item, value=str(bound))
        last[item.key] = item.value
        yield item
