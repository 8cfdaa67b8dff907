"""Which file wins for a kernel setting at boot: the order of all that set it, played through without a boot.

In order: `sysctl.KEY=` of the kernel's command line; sysctl.d(5) as systemd-sysctl or, without systemd, procps' `sysctl
--system` reads it; the active profile of TuneD, and after it sysctl.d once more where `reapply_sysctl` is on; lines of
/etc/rc.local.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..hostfiles import HostFiles


@dataclass(frozen=True)
class Assignment:
    """A place that sets a key (dotted form), in the order of a boot."""

    key: str
    value: str
    path: str
    line: int
    reader: str
    """Who applies it: kernel, systemd-sysctl, sysctl --system, TuneD, rc.local."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Boot:
    """All assignments of a boot in the order in which they are made."""

    assignments: tuple[Assignment, ...]

    def chain(self, key: str) -> tuple[Assignment, ...]:
        """Whatever sets the key, or the other member of its pair, in order; the last one wins."""
        raise NotImplementedError

    def winner(self, key: str) -> Assignment | None:
        """None when nothing sets it: the kernel's default stays. Its key is the pair's other one where that wins."""
        raise NotImplementedError

    def explain(self, key: str) -> list[str]:
        """A line for each place that sets the key, the winner last."""
        raise NotImplementedError


def simulate_boot(files: HostFiles, without: Collection[str] = ()) -> Boot:
    """What the next boot would set, by the files as they are. `without`: paths that are taken for absent."""
    raise NotImplementedError
