"""The knob: one setting of a host as data, with the formula that recommends its value.

`tuning.catalogue` holds all knobs. Whatever lists, checks, changes or measures a knob reads it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from .who_can_change import BY_SCOPE

if TYPE_CHECKING:
    from .facts.model import Facts
    from .workload import Workload

Value = int | str

Mechanism = Literal[
    "sysctl",  # a file of /proc/sys
    "sysfs",  # a file of /sys, of the host, a disk, a network interface's queue or a processor's clock
    "mount",  # an option of a mounted file system
    "swap",  # swap devices and files, and whatever turns them on at boot
    "unit",  # a property of a systemd service unit
    "login",  # a limit of logins, by pam_limits
    "advice",  # checked and explained, never changed by this program
]
Scope = Literal[
    "host",
    "network namespace",
    "unit",
    "login",
    "mount",  # target: a data directory
    "disk",  # target: a whole disk's name
    "interface",  # target: a network interface's name
    "receive queue",  # target: its directory below /sys/class/net, "eth0/queues/rx-0"
    "transmit queue",  # likewise, "eth0/queues/tx-0"
    "frequency policy",  # target: a directory of /sys/devices/system/cpu/cpufreq, "policy0"
    "interrupt",  # target: an interrupt's number
]
Comparison = Literal[
    "equal",
    "at_least",  # a higher value is never lowered
    "at_most",  # a lower value is never raised
    "about",  # within a factor of 1.5, as the inputs of the formula are no more precise
]
Unit = Literal["bytes", "KiB", "pages", "count", "centiseconds", "microseconds", "percent", ""]
Risk = Literal["low", "medium", "high", "critical"]
Persistence = Literal[
    "sysctl.d",
    "udev rule",
    "fstab",
    "systemd drop-in",
    "limits.d",
    "tmpfiles.d",
    "link file",  # systemd.link(5), of a network interface
    "boot line",
    "file system",  # fixed when the file system is made
    "nothing",  # the knob is only checked, so nothing is persisted
]
_USUAL: Final = cast("Persistence", "")
_PERSISTENCE: Final[Mapping[Mechanism, Persistence]] = {
    "sysctl": "sysctl.d",
    "sysfs": "udev rule",
    "mount": "fstab",
    "swap": "fstab",
    "unit": "systemd drop-in",
    "login": "limits.d",
    "advice": "nothing",
}
Group = Literal["memory", "limits", "storage", "disk", "network", "processor", "kernel"]


@dataclass(frozen=True)
class Source:
    title: str
    url: str


@dataclass(frozen=True)
class Authority:
    """The recommendation of a vendor, a project or a documentation; all are listed, also where they disagree."""

    who: str
    value: str
    source: Source


@dataclass(frozen=True)
class Target:
    """A recommended value and its derivation. `also`: other values that are as good; `note`: a remark on this host."""

    value: Value
    formula: str
    """The formula with its numbers filled in; for an `at_least` knob, without the `max` with the current value."""
    also: tuple[Value, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NotApplicable:
    """No value is recommended on this host, with the reason."""

    reason: str


Formula = Callable[["Facts", "Workload", str], Target | NotApplicable]
"""The third argument names the target (disk, directory, interface, interrupt, unit); empty for the host."""


@dataclass(frozen=True)
class Observation:
    """The current value of a knob; None, with the reason in `text`, when it is unknown."""

    value: Value | None
    text: str


Observer = Callable[["Facts", str], Observation]
"""Reads the value of a knob that is not the content of one file; the second argument names the target."""


@dataclass(frozen=True)
class Lifetime:
    """The kernel releases that have a knob, as (major, minor)."""

    since: tuple[int, int] | None = None
    removed: tuple[int, int] | None = None
    text: str = ""
    """What replaced it, and what to do instead."""


@dataclass(frozen=True)
class Knob:
    """One setting of a host. `path` may hold `{target}`."""

    id: str
    title: str
    group: Group
    unit: Unit
    recommend: Formula
    reason: str
    """One line: what goes wrong without it."""
    detail: str
    authorities: tuple[Authority, ...]
    risk: Risk
    risk_text: str
    mechanism: Mechanism = "sysctl"
    scope: Scope = "host"
    comparison: Comparison = "equal"
    path: str = ""
    """The file that holds the value; for a knob without such a file, the command that prints it.

    By default the file of the sysctl `id`.
    """
    sources: tuple[Source, ...] = ()
    """The sources of the authorities by default."""
    persistence: Persistence = _USUAL
    """The usual one of the mechanism by default."""
    capability: str = ""
    """Who can change it, and where: in containers, network namespaces, virtual machines.

    By default who can change most knobs of the scope.
    """
    field: int | None = None
    """The index of this knob's number in a file of several numbers; the others stay as they are."""
    twin: str | None = None
    """The sysctl in percent that the kernel sets to 0 when this one is written, and vice versa."""
    only_if_named: str = ""
    """The durability or safety that it trades away; such a knob is left alone unless the user names it."""
    lifetime: Lifetime = Lifetime()
    observe: Observer | None = None
    """None when the file at `path` holds the value."""

    def __post_init__(self) -> None:
        defaults = {
            "path": f"/proc/sys/{self.id.replace('.', '/')}",
            "sources": tuple(dict.fromkeys(authority.source for authority in self.authorities)),
            "persistence": _PERSISTENCE[self.mechanism],
            "capability": BY_SCOPE[self.scope],
        }
        for name, value in defaults.items():
            object.__setattr__(self, name, getattr(self, name) or value)

    @property
    def formula_in_words(self) -> str:
        """The recommendation for any host, without numbers of one host: the docstring of the formula."""
        return (self.recommend.__doc__ or "").strip().rstrip(".")

    @property
    def unit_property(self) -> str:
        """The property of a systemd unit that holds the value, such as LimitNOFILE; empty for any other knob."""
        return self.path.rpartition("--property=")[2] if self.scope == "unit" else ""
