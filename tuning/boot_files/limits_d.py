"""Highwater's file in limits.d: resource limits of logins; systemd units do not read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..errors import TuningError
from ..hostfiles import HostFiles
from . import HEADER

MANAGED_FILE: Final = "/etc/security/limits.d/90-highwater.conf"
# limits.conf(5): a user, @group, * or a range of ids.
_DOMAIN: Final = re.compile(r"[A-Za-z0-9@%*:_.-]+")


class LimitsEntry(NamedTuple):
    domain: str
    item: str
    """nofile, memlock (KiB), …"""


class Limits(NamedTuple):
    """A soft and a hard limit as written in the file: a number, or `unlimited`."""

    soft: str
    hard: str


def check_domain(domain: str) -> None:
    """Raises TuningError for a domain that is not a valid first field of a line."""
    if not _DOMAIN.fullmatch(domain):
        raise TuningError(f"{domain!r} is not a user, @group or * of limits.conf(5)")


def parse_limits(text: str) -> dict[LimitsEntry, Limits]:
    """Limits by domain and item; `-` sets both, and a missing limit is empty."""
    found: dict[LimitsEntry, Limits] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) != 4 or fields[1] not in ("soft", "hard", "-"):
            continue
        domain, kind, item, value = fields
        entry = LimitsEntry(domain, item)
        soft, hard = found.get(entry, Limits("", ""))
        found[entry] = Limits(value if kind in ("soft", "-") else soft, value if kind in ("hard", "-") else hard)
    return found


@dataclass(frozen=True)
class AtLogin:
    """The limits that a login gets, and the file that sets them; `ours`: Highwater's file has a line too."""

    soft: str
    hard: str
    path: str
    ours: bool


def at_login(files: HostFiles) -> dict[LimitsEntry, AtLogin]:
    """Limits by domain and item, as pam_limits(8) reads: limits.conf, then limits.d by name; the last line wins."""
    folder = MANAGED_FILE.rpartition("/")[0]
    names = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(".conf")]
    ours = parse_limits(files.read(MANAGED_FILE).text or "")
    found: dict[LimitsEntry, AtLogin] = {}
    for path in ["/etc/security/limits.conf", *names]:
        for entry, limits in parse_limits(files.read(path).text or "").items():
            before = found.get(entry)
            soft = limits.soft or (before.soft if before else "")
            hard = limits.hard or (before.hard if before else "")
            found[entry] = AtLogin(soft, hard, path, entry in ours)
    return found


def number(item: str, text: str) -> int | str:
    """A limit in the units of the catalogue: bytes for memory, which limits.conf counts in KiB."""
    if not text.isdecimal():
        return "infinity"
    return int(text) * 1024 if item == "memlock" else int(text)


def with_limits(present: str | None, limits: Mapping[LimitsEntry, Limits]) -> str | None:
    """Highwater's file with these limits; limits of other domains and items stay."""
    merged = parse_limits(present or "") | dict(limits)
    lines = [
        f"{entry.domain} {kind} {entry.item} {value}\n"
        for entry, values in merged.items()
        for kind, value in (("soft", values.soft), ("hard", values.hard))
        if value
    ]
    return HEADER + "".join(lines) if lines else None
