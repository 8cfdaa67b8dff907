"""What a knob is: one setting of a host as data, with the formula that recommends a value for it.

The entries themselves are in `tuning.catalogue`; everything that lists, checks, changes or proves a knob reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .facts import Facts
    from .workload import Workload

Value = int | str

Mechanism = Literal[
    "sysctl",  # a file of /proc/sys
    "sysfs",  # a file of /sys, of the host, a disk, a network interface's queue or a processor's clock
    "mount",  # an option of a mounted file system
    "swap",  # swap devices and files, and whatever brings them back
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
    "about",  # within a factor of 1.5, as the figures behind it are no better
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
    "file system",  # fixed when it is made
    "nothing",  # there is nothing to keep: it is only checked
]
Group = Literal["memory", "limits", "storage", "disk", "network", "processor", "kernel"]


@dataclass(frozen=True)
class Source:
    title: str
    url: str


@dataclass(frozen=True)
class Authority:
    """What somebody who should know recommends; where they disagree, every one of them is listed."""

    who: str
    value: str
    source: Source


@dataclass(frozen=True)
class Target:
    """A value and how it came about. `also` are other values that are as good; `note` is what this host makes of it."""

    value: Value
    formula: str
    """With the numbers filled in. Of an `at_least` knob: what the maximum is taken of, besides the current value."""
    also: tuple[Value, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NotApplicable:
    """There is nothing to recommend here, and why."""

    reason: str


Formula = Callable[["Facts", "Workload", str], Target | NotApplicable]
"""The third argument names the target (disk, directory, interface, interrupt, unit); empty for the host."""


@dataclass(frozen=True)
class Observation:
    """The value of a knob as it stands; None with a reason in `text` when it cannot be told."""

    value: Value | None
    text: str


Observer = Callable[["Facts", str], Observation]
"""How to tell the value of a knob that no file holds by itself; the second argument names the target."""


@dataclass(frozen=True)
class Lifetime:
    """The kernel releases that know a knob, as (major, minor)."""

    since: tuple[int, int] | None = None
    removed: tuple[int, int] | None = None
    text: str = ""
    """What became of it: of an obsolete knob, what to do instead."""


@dataclass(frozen=True)
class Knob:
    """One setting of a host. `path` may hold `{target}`."""

    id: str
    title: str
    group: Group
    mechanism: Mechanism
    path: str
    """The file that tells the value; of a knob without one, the command that does."""
    unit: Unit
    scope: Scope
    comparison: Comparison
    recommend: Formula
    reason: str
    """One line: what goes wrong without it."""
    detail: str
    authorities: tuple[Authority, ...]
    sources: tuple[Source, ...]
    risk: Risk
    risk_text: str
    persistence: Persistence
    capability: str
    """Who can change it: what a container, a network namespace or a virtual machine lets one do."""
    field: int | None = None
    """Which of several numbers in the file is meant; the others stay as they are."""
    twin: str | None = None
    """The sysctl in percent that the kernel sets to 0 when this one is written, and the other way about."""
    only_if_named: str = ""
    """Why it is left alone unless somebody names it: the durability or safety that it trades away."""
    lifetime: Lifetime = Lifetime()
    observe: Observer | None = None
    """None when the file at `path` holds the value."""

    @property
    def formula_in_words(self) -> str:
        """What is recommended on any host: the docstring of the formula, which has no host's numbers in it."""
        return (self.recommend.__doc__ or "").strip().rstrip(".")

    @property
    def unit_property(self) -> str:
        """The property of a systemd unit that holds the value, such as LimitNOFILE; empty for any other knob."""
        return self.path.rpartition("--property=")[2] if self.scope == "unit" else ""
