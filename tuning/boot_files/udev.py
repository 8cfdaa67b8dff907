"""Highwater's udev rules: settings of disks and interfaces, written when a device appears or changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ..hostfiles import HostFiles
from . import HEADER

MANAGED_FILE: Final = "/etc/udev/rules.d/90-highwater.rules"
_RULE: Final = re.compile(r'(?P<match>ACTION==.*), ATTR\{(?P<attribute>[^}]+)\}="(?P<value>[^"]*)"')
# An assignment; with == it is a condition.
_WRITES: Final = re.compile(r'ATTR\{([^{}]+)\}\s*=\s*"([^"]*)"')
_DIRECTORIES: Final = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d")
# Setting a scheduler resets nr_requests, and udev writes in the order of the rules.
_FIRST: Final = "queue/scheduler"
# All other characters are udev patterns (* ? [ |) or end the quotes.
_LITERAL: Final = re.compile(r"[A-Za-z0-9_.:/+-]+")
# From the most to the least stable identity; the first one that udev knows is used.
_IDENTITIES: Final = ("ID_SERIAL", "ID_WWN", "DM_UUID", "MD_UUID", "ID_PATH")


class Rule(NamedTuple):
    """The match of a device, one of its files, and the text for it."""

    match: str
    attribute: str
    value: str


def disk_match(name: str, udev: Mapping[str, str]) -> str:
    """The match of a disk, by a unique property in `udev`, or by kernel name if there is none."""
    return f'ACTION=="add|change", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", {_identity(name, udev)}'


def interface_match(name: str, udev: Mapping[str, str]) -> str:
    """The match of a network interface. An interface is renamed after it is added, which is a `move` event."""
    identity = _identity(name, {key: value for key, value in udev.items() if key == "ID_PATH"})
    return f'ACTION=="add|change|move", SUBSYSTEM=="net", {identity}'


def parse_rules(text: str) -> dict[tuple[str, str], str]:
    """Value by device match and attribute, of rules that this module wrote; other rules are skipped."""
    found = (_RULE.fullmatch(line.strip()) for line in text.splitlines())
    return {(match["match"], match["attribute"]): match["value"] for match in found if match}


def with_rules(present: str | None, rules: Iterable[Rule]) -> str | None:
    """Highwater's file with these rules, in the order of devices; other lines stay, at the end."""
    merged = parse_rules(present or "") | {(rule.match, rule.attribute): rule.value for rule in rules}
    foreign = [
        line for line in (present or "").splitlines() if line and line[0] != "#" and not _RULE.fullmatch(line.strip())
    ]
    rules_in_order = sorted(merged.items(), key=lambda rule: (rule[0][0], rule[0][1] != _FIRST, rule[0][1]))
    lines = [f'{match}, ATTR{{{attribute}}}="{value}"' for (match, attribute), value in rules_in_order]
    if not lines and not foreign:
        return None
    return HEADER + "".join(f"{line}\n" for line in [*lines, *foreign])


class Rival(NamedTuple):
    """A rule of another program that is read after Highwater's and writes an attribute of some device."""

    path: str
    line: int
    attribute: str
    value: str


def later_rules(files: HostFiles) -> list[Rival]:
    """Rules in files whose names sort after Highwater's; of files with the same name, the first directory counts."""
    found: dict[str, str] = {}
    for directory in _DIRECTORIES:
        for name in files.names(directory):
            if name.endswith(".rules") and name > MANAGED_FILE.rpartition("/")[2]:
                found.setdefault(name, f"{directory}/{name}")
    return [
        Rival(found[name], number, match[1], match[2])
        for name in sorted(found)
        for number, line in enumerate((files.read_of_others(found[name]) or "").splitlines(), start=1)
        if not line.lstrip().startswith("#")
        for match in _WRITES.finditer(line)
    ]


def _identity(name: str, udev: Mapping[str, str]) -> str:
    for key in _IDENTITIES:
        if key in udev and _LITERAL.fullmatch(udev[key]):
            return f'ENV{{{key}}}=="{udev[key]}"'
    return f'KERNEL=="{name}"'
