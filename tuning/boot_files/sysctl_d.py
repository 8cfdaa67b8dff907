"""Highwater's file in sysctl.d: kernel settings under /proc/sys that every boot sets again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from . import HEADER

# read_line() of systemd; splitlines() would also split at a form feed.
_LINE_END: Final = re.compile("\r\n|[\n\r\0]")
MANAGED_FILE: Final = "/etc/sysctl.d/90-highwater.conf"
# Writing one of a pair makes the kernel set the other to 0 (Documentation/admin-guide/sysctl/vm.rst).
PAIRED_KEYS: Final[Mapping[str, str]] = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_ratio": "vm.dirty_bytes",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
    "vm.dirty_background_ratio": "vm.dirty_background_bytes",
}


class SysctlLine(NamedTuple):
    """A line of a sysctl.d file: its key in dotted form, and its value as written; None for `-KEY` without a value."""

    number: int
    key: str
    value: str | None


def parse_lines(text: str) -> Iterator[SysctlLine]:
    """Assignments and exclusions in the order of the file; comments and invalid lines are skipped."""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        key, equals, value = line.partition("=")
        key = key.strip()
        # A leading minus: a failure to set the key is no error; without a value: patterns do not set the key.
        named = key.removeprefix("-").strip()
        if named and key[0] not in "#;" and (equals or key[0] == "-"):
            yield SysctlLine(number, dotted(named), value.strip() if equals else None)


def single_blanks(value: str) -> str:
    return " ".join(value.split())


def parse_settings(text: str) -> dict[str, str]:
    return {line.key: single_blanks(line.value) for line in parse_lines(text) if line.value is not None}


def with_settings(present: str | None, settings: Mapping[str, str], comments: Mapping[str, str]) -> str | None:
    """Highwater's file with `settings` (dotted keys): one line per key, after its comment if it has one.

    Other settings in the file stay, except for the other member of a pair, which would undo the new line.
    """
    merged = parse_settings(present or "")
    for key in settings:
        merged.pop(PAIRED_KEYS.get(key, ""), None)
    merged.update(settings)
    if not merged:
        return None
    excluded = [f"-{line.key}\n" for line in parse_lines(present or "") if line.value is None]
    lines = [HEADER, *dict.fromkeys(excluded)]
    for key in sorted(merged):
        comment = f"# {comments[key]}\n" if key in comments else ""
        lines.append(f"{comment}{key} = {merged[key]}\n")
    return "\n".join(lines)


def dotted(key: str) -> str:
    """The dotted form of a key. sysctl.d(5): if the first separator is a slash, dots belong to names."""
    first = next((character for character in key if character in "./"), ".")
    if first == "/":
        key = "/".join(part for part in key.split("/") if part).translate(str.maketrans("./", "/."))
    return key
