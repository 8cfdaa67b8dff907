"""Captures the files that the tuner reads of a host as a tree, for analysis on another machine.

The readers, the checks and the planning run once over files that record every access, so no list of paths can become
outdated. Secrets are left out: environments and command lines of processes are never read, and unneeded content of
configuration files is removed.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from .catalogue import KNOBS
from .check import sysctl_path
from .effects import verify
from .errors import TuningError
from .facts import collect_from
from .facts.captured import MARKER, SCHEMA, is_captured
from .facts.model import Facts
from .facts.units import RESOURCE_SETTING
from .fingerprint import fingerprint
from .formulas.targets import targets_of
from .hostfiles import Attributes, HostFiles, Reading
from .planning import make_plan
from .proofs import read_proofs
from .runner import CapturedTreeRunner
from .sizing import size_host
from .workload import Workload

_SECRET_OPTION: Final = re.compile(r"\b(pass|password|passwd|secret|token|credentials?|username|user|key)=[^,\s]+")
_SECRET_WORD: Final = re.compile(r"pass|secret|token|credential|key", re.IGNORECASE)
_UNIT_FILE: Final = re.compile(r"\.(?:service|swap|mount|slice|target)(?:\.d/[^/]+\.conf)?$")
_NEVER: Final = re.compile(r"/(?:environ|shadow|gshadow)$|^/proc/(?:\d+|self)/cmdline$")
_MOST_LINKS: Final = 40


def save(root: Path, directory: Path, workload: Workload | None = None) -> Facts:
    """Write what is read of the host below `root` into `directory`; `collect(directory)` then equals what is returned.

    workload: of its own data directories and units, besides every local file system.
    Raises TuningError when `directory` is there and not empty, or cannot be written, or `root` is a capture itself.
    """
    if is_captured(root):
        raise TuningError(f"{root} is a capture already; copy it as it is")
    _make_empty(directory)
    recorder = _Recorder(root)
    facts = collect_from(recorder)
    _read_as_the_verbs_do(facts, workload or Workload())
    try:
        _Tree(recorder, directory).write()
    except OSError as error:
        reason = error.strerror or error
        raise TuningError(f"{directory} cannot be written ({reason}); name a folder on a disk with room") from error
    return facts


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        occupied = any(directory.iterdir())
    except OSError as error:
        raise TuningError(f"{directory} cannot be made ({error.strerror or error}); name another folder") from error
    if occupied:
        raise TuningError(f"{directory} is not empty; name a new folder")


def _read_as_the_verbs_do(facts: Facts, workload: Workload) -> None:
    """Read every knob on every target, and all that a plan reads, for data on any local disk."""
    local = (mount.mount_point for mount in facts.mounts if facts.device_of(mount.mount_point) is not None)
    everywhere = replace(workload, data_dirs=tuple(dict.fromkeys([*workload.data_dirs, *local])))
    for knob in KNOBS:
        for target in targets_of(knob.scope, facts, everywhere):
            if knob.path.startswith("/"):
                facts.files.read(knob.path.format(target=target))
        if knob.twin:
            facts.files.read(sysctl_path(knob.twin))
    with suppress(TuningError):  # errors are part of the analysis on the other machine
        make_plan(facts, everywhere, KNOBS)
        verify(facts, everywhere, KNOBS, CapturedTreeRunner())
        size_host(facts, everywhere)
        fingerprint(facts, everywhere.data_dirs)
        read_proofs(facts.files)


class _Recorder(HostFiles):
    """A host's files that record every access and return the same result when they are read again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.readings: dict[str, Reading] = {}
        self.verbatim: dict[str, str] = {}
        self.folders: dict[str, list[str]] = {}
        self.links: dict[str, str] = {}
        self.found: set[str] = set()
        """Paths whose existence or mode was read."""

    def read(self, path: str) -> Reading:
        if path not in self.readings:
            if _NEVER.search(path):
                return Reading(None, f"{path} is not read for a capture")
            self.readings[path] = super().read(path)
        return self.readings[path]

    def read_verbatim(self, path: str) -> str | None:
        text = super().read_verbatim(path)
        if text is not None:
            self.verbatim[path] = text
        return text

    def read_of_others(self, path: str) -> str | None:
        text = super().read_of_others(path)
        if text is not None:
            self.verbatim[path] = text
        return text

    def names(self, path: str) -> list[str]:
        if path not in self.folders and super().exists(path):
            self.folders[path] = super().names(path)
        return self.folders.get(path, [])

    def link(self, path: str) -> str | None:
        link = super().link(path)
        if link is not None:
            self.links[path] = link
        return link

    def exists(self, path: str) -> bool:
        found = super().exists(path)
        if found:
            self.found.add(path)
        return found

    def attributes(self, path: str) -> Attributes | None:
        attributes = super().attributes(path)
        if attributes is not None:
            self.found.add(path)
        return attributes


class _Tree:
    """Writes the recorded files below a folder, at their real places on the host, with the links to them."""

    def __init__(self, source: _Recorder, directory: Path) -> None:
        self._source = source
        self._directory = directory
        self._links_on_the_way: dict[str, str | None] = {}

    def write(self) -> None:
        for path, link in self._source.links.items():
            parent = self._resolve(posixpath.dirname(path))
            self._make_link(posixpath.join(parent, posixpath.basename(path)), link)
        for path, text in self._texts():
            self._make_file(path, _without_secrets(path, text))
        for path, names in self._source.folders.items():
            self._make_folder(path, names)
        for path in sorted(self._source.found):
            self._make_placeholder(self._resolve(path))
        unreadable = {
            path: reading.reason
            for path, reading in self._source.readings.items()
            if reading.text is None and not reading.reason.endswith("does not exist")
        }
        marker = {"schema": SCHEMA, "unreadable": unreadable}
        (self._directory / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")

    def _texts(self) -> Iterator[tuple[str, str]]:
        for path, reading in self._source.readings.items():
            if reading.text is not None and path not in self._source.verbatim:
                yield path, f"{reading.text}\n" if reading.text else ""
        yield from self._source.verbatim.items()

    def _resolve(self, path: str, depth: int = 0) -> str:
        """Where `path` really lies on the host; the links that lead there are made on the way.

        Links of /proc lead to this process and its likes: what was read through them stays where it was asked for.
        """
        current = ""
        for part in posixpath.normpath(path).strip("/").split("/"):
            candidate = f"{current}/{part}"
            link = None if candidate.startswith("/proc/") else self._link_at(candidate)
            if link is None or depth > _MOST_LINKS:
                current = candidate
            else:
                self._make_link(candidate, link)
                current = self._resolve(posixpath.join(current or "/", link), depth + 1)
        return current

    def _link_at(self, path: str) -> str | None:
        if path not in self._links_on_the_way:
            self._links_on_the_way[path] = HostFiles.link(self._source, path)
        return self._links_on_the_way[path]

    def _make_link(self, path: str, link: str) -> None:
        place = self._place(path)
        if os.path.lexists(place):
            return
        if not path.startswith("/proc/") and link != "/dev/null":
            # Relative, so that no link in the tree leads to files of the machine that reads it.
            folder = posixpath.dirname(path)
            link = posixpath.relpath(posixpath.normpath(posixpath.join(folder, link)), folder)
        place.symlink_to(link)

    def _make_folder(self, path: str, names: list[str]) -> None:
        folder = self._resolve(path)
        self._place(folder).mkdir(exist_ok=True)
        for name in names:
            child = f"{folder}/{name}"
            link = self._link_at(child)
            if link is not None:
                self._make_link(child, link)
            else:
                self._make_placeholder(child)

    def _make_placeholder(self, path: str) -> None:
        place = self._place(path)
        if os.path.lexists(place) or path.startswith("/dev/"):
            return
        if self._source.is_folder(path):
            place.mkdir()
        else:
            self._write(place, "", path)

    def _make_file(self, path: str, text: str) -> None:
        real = self._resolve(path)
        if not real.startswith("/dev/"):
            self._write(self._place(real), text, real)

    def _write(self, place: Path, text: str, path: str) -> None:
        if place.is_dir():
            return
        place.unlink(missing_ok=True)
        place.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        attributes = HostFiles.attributes(self._source, path)
        # Always readable by its owner, as users of the tree are rarely root.
        place.chmod((attributes.mode & 0o777 if attributes else 0o444) | 0o400)

    def _place(self, path: str) -> Path:
        place = self._directory / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def _without_secrets(path: str, text: str) -> str:
    if path == "/etc/fstab":
        return _SECRET_OPTION.sub(r"\1=removed", text)
    if path == "/proc/cmdline":
        return re.sub(r"\S+", lambda word: _without_secret(word[0]), text)
    if "/systemd/" in path and _UNIT_FILE.search(path):
        return "".join(_told_lines(text))
    return text


def _without_secret(word: str) -> str:
    name = _SECRET_WORD.search(word)
    equals = -1 if name is None else word.find("=", name.end())
    return word if equals < 0 else f"{word[:equals]}=removed"


def _told_lines(text: str) -> Iterator[str]:
    """Yield a unit file's sections, resource limits, swap device, and the remarks that hold no setting."""
    for line in re.split(r"(?<=\n)(?<!\\\n)", text):
        key, equals, _ = line.partition("=")
        told = not equals or RESOURCE_SETTING.fullmatch(key.strip()) or key.strip() in ("What", "SourcePath")
        if told and "\\\n" not in line:
            yield line
