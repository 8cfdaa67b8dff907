"""Reads /etc/fstab as mount(8) does, and edits it in place: all bytes but the requested field stay.

Bytes of a text that are no UTF-8 are surrogates (`HostFiles.read_verbatim`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..errors import TuningError

PATH: Final = "/etc/fstab"
MARK: Final = "#highwater-tune# "
"""Prefix of a line that Highwater turned off; the line itself follows unchanged."""
BIND: Final = frozenset({"bind", "rbind"})
"""Options of a line that shows a folder at another place; mount(8) then uses flags of the mount alone."""
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")
# libmount and getmntent(3): other white space belongs to a field.
_FIELDS: Final = re.compile(r"[^ \t]+")


@dataclass(frozen=True)
class FstabEntry:
    """One line of fstab(5). `source` and `mount_point` have no octal escapes, and `source` has no quotes."""

    line: int
    """Index of the line."""
    source: str
    mount_point: str
    filesystem: str
    options: tuple[str, ...]
    options_span: tuple[int, int]
    source_span: tuple[int, int]


def parse(text: str) -> Iterator[FstabEntry]:
    for index, line in enumerate(_lines(text)):
        fields = list(_FIELDS.finditer(line.rstrip("\r\n")))
        if len(fields) < 3 or fields[0][0].startswith("#"):
            continue
        options = fields[3] if len(fields) > 3 else None
        yield FstabEntry(
            line=index,
            source=unescaped(fields[0][0]).replace('"', ""),
            mount_point=unescaped(fields[1][0]),
            filesystem=unescaped(fields[2][0]),
            # mount(8): a line without options has the defaults.
            options=tuple(options[0].split(",")) if options else ("defaults",),
            options_span=options.span() if options else (fields[2].end(), fields[2].end()),
            source_span=fields[0].span(),
        )


def find_mount(text: str, mount_point: str) -> FstabEntry | None:
    """The line that mounts a directory; None when there is none. Raises TuningError when there are several."""
    wanted = _simplified(mount_point)
    found = [entry for entry in parse(text) if entry.filesystem != "swap" and _simplified(entry.mount_point) == wanted]
    if len(found) > 1:
        numbers = " and ".join(str(entry.line + 1) for entry in found)
        raise TuningError(f"{PATH} mounts {mount_point} in lines {numbers}; leave one of them")
    return found[0] if found else None


def with_options(text: str, entry: FstabEntry, options: Iterable[str]) -> str:
    """The file with another list of options in one line."""
    start, end = entry.options_span
    field = ",".join(options) if end > start else " " + ",".join(options)
    return _with_line(text, entry.line, lambda line: line[:start] + field + line[end:])


def with_source(text: str, entry: FstabEntry, source: str) -> str:
    start, end = entry.source_span
    return _with_line(text, entry.line, lambda line: line[:start] + source + line[end:])


def with_line(text: str, line: str) -> str:
    """The file with one more line at its end."""
    return text + ("\n" if text and not text.endswith("\n") else "") + line + "\n"


def with_text(text: str, entry: FstabEntry, line: str) -> str:
    """The file with another line, without its end, in place of one."""
    return _with_line(text, entry.line, lambda old: line + ("\n" if old.endswith("\n") else ""))


def without(text: str, entry: FstabEntry) -> str:
    """The file without one line."""
    return _with_line(text, entry.line, lambda _: "")


def changed_options(options: tuple[str, ...], wanted: str, instead_of: Iterable[str]) -> tuple[str, ...]:
    """Replace the first of `instead_of` in `options` by `wanted`, or append it; the order of the others stays.

    Names of `instead_of` that end in `=` stand for every value.
    """
    outdated = tuple(instead_of)

    def meant(option: str) -> bool:
        return option == wanted or any(
            option.startswith(name) if name.endswith("=") else option == name for name in outdated
        )

    changed: list[str] = []
    for option in options:
        if not meant(option):
            changed.append(option)
        elif wanted not in changed:
            changed.append(wanted)
    return tuple(changed if wanted in changed else [*changed, wanted])


def swap_entries(text: str) -> list[FstabEntry]:
    """The lines that turn swap on at boot."""
    return [entry for entry in parse(text) if entry.filesystem == "swap" and "noauto" not in entry.options]


def commented_out(text: str, entries: Iterable[FstabEntry]) -> str:
    """The file with these lines commented out, each after `MARK`."""
    for entry in entries:
        text = _with_line(text, entry.line, lambda line: MARK + line)
    return text


def _lines(text: str) -> list[str]:
    """Lines with their line ends, split only at line feeds, like the C library."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _with_line(text: str, index: int, change: Callable[[str], str]) -> str:
    lines = _lines(text)
    lines[index] = change(lines[index])
    return "".join(lines)


def _simplified(path: str) -> str:
    """A path as the kernel shows it: `/data/` and `//data` are /data."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", ".")) if path.startswith("/") else path


def unescaped(field: str) -> str:
    """Octal escapes stand for bytes, so that one character can take several."""
    encoded = field.encode(errors="surrogateescape")
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), encoded).decode(errors="surrogateescape")
