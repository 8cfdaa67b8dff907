"""Highwater's file in sysctl.d: kernel settings under /proc/sys that every boot sets again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from . import HEADER

MANAGED_FILE: Final = "/etc/sysctl.d/90-highwater.conf"
# Writing one of a pair makes the kernel set the other to 0 (Documentation/admin-guide/sysctl/vm.rst).
PAIRED_KEYS: Final[Mapping[str, str]] = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_ratio": "vm.dirty_bytes",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
    "vm.dirty_background_ratio": "vm.dirty_background_bytes",
}


class Line(NamedTuple):
    """An assignment of a sysctl.d file: its key in dotted form, its value with single blanks."""

    number: int
    key: str
    value: str


def parse_lines(text: str) -> Iterator[Line]:
    """Assignments in the order of the file; comments and invalid lines are skipped."""
    for number, line in enumerate(text.splitlines(), start=1):
        key, equals, value = line.partition("=")
        # A leading minus says that a failure to set the key is no error.
        key = key.strip().removeprefix("-").strip()
        if equals and key and key[0] not in "#;":
            yield Line(number, dotted(key), " ".join(value.split()))


def parse_settings(text: str) -> dict[str, str]:
    return {line.key: line.value for line in parse_lines(text)}


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
    lines = [HEADER]
    for key in sorted(merged):
        comment = f"# {comments[key]}\n" if key in comments else ""
        lines.append(f"{comment}{key} = {merged[key]}\n")
    return "\n".join(lines)


def dotted(key: str) -> str:
    """The dotted form of a key. sysctl.d(5): if the first separator is a slash, dots belong to names."""
    first = next((character for character in key if character in "./"), ".")
    return key if first == "." else key.translate(str.maketrans("./", "/."))
