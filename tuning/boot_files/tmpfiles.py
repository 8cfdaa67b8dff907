"""Highwater's file in tmpfiles.d: settings under /sys without a device, written again at every boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..hostfiles import HostFiles
from . import HEADER

MANAGED_FILE: Final = "/etc/tmpfiles.d/highwater.conf"
_DIRECTORIES: Final = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")


def parse_writes(text: str) -> dict[str, str]:
    """Path to value of the `w` lines (tmpfiles.d(5)); lines of other types are skipped."""
    writes: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(None, 6)
        if len(fields) == 7 and fields[0].rstrip("!-+=~^$") == "w":
            writes[_unquoted(fields[1])] = fields[6].replace("%%", "%")
    return writes


def with_writes(present: str | None, writes: Mapping[str, str]) -> str | None:
    """Highwater's file with a `w` line for each path; lines for other paths stay."""
    merged = parse_writes(present or "") | dict(writes)
    if not merged:
        return None
    # "-" is the default of mode, user, group and age; % begins a specifier.
    lines = [f"w {path} - - - - {value.replace('%', '%%')}\n" for path, value in sorted(merged.items())]
    return HEADER + "\n" + "".join(lines)


def other_writes(files: HostFiles) -> dict[str, tuple[str, str]]:
    """Writes of other files in tmpfiles.d: path to value and file. The order of two files is not defined."""
    found: dict[str, str] = {}
    for directory in _DIRECTORIES:
        for name in files.names(directory):
            if name.endswith(".conf"):
                found.setdefault(name, f"{directory}/{name}")
    return {
        path: (value, file)
        for file in found.values()
        if file != MANAGED_FILE
        for path, value in parse_writes(files.read(file).text or "").items()
    }


def _unquoted(field: str) -> str:
    return field[1:-1] if len(field) > 1 and field[0] == field[-1] and field[0] in "\"'" else field
