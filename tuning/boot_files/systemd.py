"""Highwater's drop-ins of systemd units, one file per unit, and masked units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..errors import TuningError
from . import HEADER

_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9:_.@\\-]+\.(service|swap|mount|slice|socket)")
# What systemd-escape(1) leaves as it is.
_PLAIN: Final = re.compile(r"[A-Za-z0-9:_.]")


def check_unit(name: str) -> None:
    """Raises TuningError for a name that is not that of a unit, as names become parts of paths."""
    if not _UNIT_NAME.fullmatch(name):
        raise TuningError(f"{name!r} is not the name of a service unit, such as highwater-broker@.service")


def drop_in(unit: str) -> str:
    return f"/etc/systemd/system/{unit}.d/90-highwater.conf"


def mask(unit: str) -> str:
    """The file that masks a unit when it is empty (systemd.unit(5)); it also overrides units of generators."""
    return f"/etc/systemd/system/{unit}"


def parse_drop_in(text: str) -> dict[str, dict[str, str]]:
    """Settings by section; the last one of several wins."""
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1], {})
        elif line and line[0] not in "#;" and "=" in line:
            key, _, value = line.partition("=")
            current[key.strip()] = value.strip()
    return sections


def with_settings(present: str | None, section: str, settings: Mapping[str, str]) -> str | None:
    """Highwater's drop-in with these settings in a section (`Service`, `Mount`); other settings stay."""
    sections = parse_drop_in(present or "")
    sections[section] = sections.get(section, {}) | dict(settings)
    blocks = [
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in sorted(entries.items()))
        for name, entries in sections.items()
        if entries
    ]
    return HEADER + "\n".join(blocks) if blocks else None


def escape_path(path: str) -> str:
    """The name of a unit for a path, without its suffix: /dev/disk/by-uuid/1 is dev-disk-by\\x2duuid-1."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return "-"
    escaped = "-".join("".join(_escape(character) for character in part) for part in parts)
    return "\\x2e" + escaped[1:] if escaped.startswith(".") else escaped


def _escape(character: str) -> str:
    if _PLAIN.fullmatch(character):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
