"""Systemd service units as their files tell them: settings with drop-ins merged, and limits of running processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..hostfiles import HostFiles


@dataclass(frozen=True)
class Instance:
    """A unit that runs now; of a template there may be several."""

    name: str
    main_pid: int
    """The first process of its control group."""
    limits: Mapping[str, tuple[int | None, int | None]]
    """Soft and hard limit by name (nofile, nproc, memlock), None for no limit."""


@dataclass(frozen=True)
class Unit:
    name: str
    path: str | None
    """The unit file that counts; None when there is none."""
    drop_ins: tuple[str, ...] = ()
    """In the order in which they are read: later ones win."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The [Service] settings that are in force by the files, last one of each: LimitNOFILE, MemoryHigh, …"""
    instances: tuple[Instance, ...] = ()


def read_unit(files: HostFiles, name: str) -> Unit:
    """Never raises; a unit that is not there has no path."""
    return Unit(name, None)
