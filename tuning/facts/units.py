"""Reads systemd service units: settings with merged drop-ins, and limits of running processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..hostfiles import HostFiles
from .reading import parse_whole

# systemd.unit(5): the first directory that has a unit, or a drop-in of some name, counts.
UNIT_DIRECTORIES: Final = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
# Where systemd keeps the control groups of services: version 2, then its own hierarchy of version 1.
_SERVICE_GROUPS: Final = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
# The settings that are read. Commands and environments are not, because they may contain secrets.
RESOURCE_SETTING: Final = re.compile(
    r"(?:Limit|Memory|CPU|IO|Tasks|OOM|NUMA)\w+|Allowed(?:CPUs|MemoryNodes)|Nice|Slice|Type|Delegate"
)
_LIMIT_NAMES: Final = {"Max open files": "nofile", "Max processes": "nproc", "Max locked memory": "memlock"}


class Limit(NamedTuple):
    """A resource limit of a process; None is no limit."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class Instance:
    """A unit that runs now; of a template there may be several."""

    name: str
    main_pid: int
    """The first process of its control group."""
    limits: Mapping[str, Limit]
    """Limits by name: nofile, nproc, memlock (bytes)."""
    oom_score_adjust: int | None = None


@dataclass(frozen=True)
class Unit:
    name: str
    path: str | None
    """The unit file that counts; None when there is none."""
    masked: bool = False
    drop_ins: tuple[str, ...] = ()
    """Drop-in files in the order in which systemd reads them: later ones win."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Resource settings of [Service], the last one of each: LimitNOFILE, MemoryHigh, …"""
    instances: tuple[Instance, ...] = ()


def read_unit(files: HostFiles, name: str) -> Unit:
    """Never raises; a unit that is not there has no path."""
    path = _unit_file(files, name)
    drop_ins = _drop_ins(files, name)
    settings: dict[str, str] = {}
    for source in [path, *drop_ins] if path else drop_ins:
        for key, value in _service_settings(files.read(source).text or ""):
            if value:
                settings[key] = value
            else:
                settings.pop(key, None)  # an empty assignment resets earlier ones
    return Unit(
        name=name,
        path=path,
        masked=path is not None and is_masked(files, path),
        drop_ins=tuple(drop_ins),
        settings=settings,
        instances=tuple(_instances(files, name)),
    )


def is_masked(files: HostFiles, path: str) -> bool:
    """systemd.unit(5): a unit file that is empty or a link to /dev/null."""
    return files.link(path) == "/dev/null" or files.read(path).text == ""


def runs(files: HostFiles, unit: str) -> bool:
    """Whether a service has a control group now, which it has while it runs."""
    return any(files.exists(f"{directory}/{unit}") for directory in _SERVICE_GROUPS)


def parse_limits(text: str) -> dict[str, Limit]:
    """The limits of /proc/PID/limits by name; a line that is missing or says something else is left out."""
    limits = {}
    for title, name in _LIMIT_NAMES.items():
        match = re.search(rf"^{title}\s+([0-9]{{1,20}}|unlimited)\s+([0-9]{{1,20}}|unlimited)", text, re.MULTILINE)
        if match:
            soft, hard = (None if word == "unlimited" else int(word) for word in match.groups())
            limits[name] = Limit(soft, hard)
    return limits


def _names_of(name: str) -> list[str]:
    """The names whose files apply to a unit: for an instance `x@1.service` its own, then its template's."""
    stem, at, rest = name.partition("@")
    instance, _, suffix = rest.rpartition(".")
    return [name, f"{stem}@.{suffix}"] if at and instance else [name]


def _unit_file(files: HostFiles, name: str) -> str | None:
    for candidate in _names_of(name):
        for directory in UNIT_DIRECTORIES:
            path = f"{directory}/{candidate}"
            if files.link(path) is not None or files.exists(path):
                return path
    return None


def _drop_ins(files: HostFiles, name: str) -> list[str]:
    """Every drop-in by its file name: the more specific folder hides the same name in a more general one."""
    candidates = _names_of(name)
    stem, _, suffix = name.rpartition(".")
    prefix = stem.partition("@")[0]
    while "-" in prefix:
        prefix = prefix.rpartition("-")[0]
        candidates.append(f"{prefix}-.{suffix}")
    found: dict[str, str] = {}
    for candidate in [*candidates, suffix]:
        for directory in UNIT_DIRECTORIES:
            for file in files.names(f"{directory}/{candidate}.d"):
                if file.endswith(".conf"):
                    found.setdefault(file, f"{directory}/{candidate}.d/{file}")
    return [found[file] for file in sorted(found)]


def _service_settings(text: str) -> list[tuple[str, str]]:
    settings, section = [], ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped
        elif section == "[Service]" and "=" in stripped and stripped[0] not in "#;":
            key, _, value = stripped.partition("=")
            if RESOURCE_SETTING.fullmatch(key.strip()):
                settings.append((key.strip(), value.strip()))
    return settings


def _instances(files: HostFiles, name: str) -> list[Instance]:
    stem, _, suffix = name.rpartition(".")
    prefix, at, _ = stem.partition("@")
    # Instances share a slice named after their template; a dash in a unit's name is written as \x2d there.
    slice_ = f"/system-{prefix.replace('-', chr(92) + 'x2d')}.slice" if at else ""
    instances: list[Instance] = []
    for groups in _SERVICE_GROUPS:
        directory = groups + slice_
        wanted = re.compile(rf"{re.escape(prefix)}@.+\.{suffix}" if stem.endswith("@") else re.escape(name))
        for service in [entry for entry in files.names(directory) if wanted.fullmatch(entry)]:
            processes = (files.read(f"{directory}/{service}/cgroup.procs").text or "").split()
            pid = parse_whole(processes[0]) if processes else None
            if pid is not None and all(service != known.name for known in instances):
                instances.append(_instance(files, service, pid))
    return instances


def _instance(files: HostFiles, name: str, pid: int) -> Instance:
    return Instance(
        name=name,
        main_pid=pid,
        limits=parse_limits(files.read(f"/proc/{pid}/limits").text or ""),
        oom_score_adjust=parse_whole(files.read(f"/proc/{pid}/oom_score_adj").text or ""),
    )
