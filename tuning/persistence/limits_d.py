"""Our file of limits.d: resource limits of logins, by pam_limits. Systemd units do not read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..errors import TuningError
from . import HEADER

MANAGED_FILE: Final = "/etc/security/limits.d/90-highwater.conf"
# limits.conf(5): a user, @group, * or a range of ids.
_DOMAIN: Final = re.compile(r"[A-Za-z0-9@%*:_.-]+")


class Entry(NamedTuple):
    domain: str
    item: str
    """nofile, memlock (KiB), …"""


class Limits(NamedTuple):
    """As they are written: a number, or `unlimited`."""

    soft: str
    hard: str


def check_domain(domain: str) -> None:
    """Raises TuningError for what would be more than the first field of a line."""
    if not _DOMAIN.fullmatch(domain):
        raise TuningError(f"{domain!r} is not a user, @group or * of limits.conf(5)")


def parse_limits(text: str) -> dict[Entry, Limits]:
    """Limits by domain and item; `-` sets both, and one that is not there is empty."""
    found: dict[Entry, Limits] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) != 4 or fields[1] not in ("soft", "hard", "-"):
            continue
        domain, kind, item, value = fields
        entry = Entry(domain, item)
        soft, hard = found.get(entry, Limits("", ""))
        found[entry] = Limits(value if kind in ("soft", "-") else soft, value if kind in ("hard", "-") else hard)
    return found


def with_limits(present: str | None, limits: Mapping[Entry, Limits]) -> str | None:
    """Our file with these limits; those of other domains and items stay."""
    merged = parse_limits(present or "") | dict(limits)
    lines = [
        f"{entry.domain} {kind} {entry.item} {value}\n"
        for entry, values in merged.items()
        for kind, value in (("soft", values.soft), ("hard", values.hard))
        if value
    ]
    return HEADER + "".join(lines) if lines else None
