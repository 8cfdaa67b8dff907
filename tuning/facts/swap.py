"""Reads active swap, and what turns it on at boot: fstab, swap units, zram-generator, dphys-swapfile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..boot_files import fstab
from .model import Swap, SwapSource
from .reading import Reader, parse_whole
from .units import UNIT_DIRECTORIES, is_masked

_GENERATED: Final = ("/run/systemd/generator", "/run/systemd/generator.late")
_ZRAM_FILES: Final = tuple(
    f"{directory}/systemd/zram-generator.conf" for directory in ("/etc", "/run", "/usr/local/lib", "/usr/lib")
)
_DPHYS: Final = "/etc/dphys-swapfile"


def read_swaps(reader: Reader) -> tuple[Swap, ...] | None:
    text = reader.required("swaps", "/proc/swaps")
    if text is None:
        return None
    return tuple(swap for line in text.splitlines()[1:] if (swap := _active(line.split())) is not None)


def read_swap_sources(reader: Reader) -> tuple[SwapSource, ...]:
    return (*_in_fstab(reader), *_in_units(reader), *_in_zram_generator(reader), *_in_dphys(reader))


def _active(row: list[str]) -> Swap | None:
    """Filename, type, size and use in KiB, priority."""
    size, used, priority = (parse_whole(text) for text in (*row[2:5], *[""] * 3)[:3])
    if size is None or used is None:
        return None
    return Swap(fstab.unescaped(row[0]), row[1], size * 1024, used * 1024, priority or 0)


def _in_fstab(reader: Reader) -> Iterator[SwapSource]:
    for entry in fstab.swap_entries(reader.optional(fstab.PATH) or ""):
        yield SwapSource("fstab", fstab.PATH, entry.source)


def _in_units(reader: Reader) -> Iterator[SwapSource]:
    """Swap units in order of precedence, including those that a generator made from partition types.

    Units that generators made from fstab or from zram-generator's configuration are skipped.
    """
    seen: set[str] = set()
    for directory in (*UNIT_DIRECTORIES, *_GENERATED):
        for name in reader.files.names(directory):
            if not name.endswith(".swap") or name in seen:
                continue
            path = f"{directory}/{name}"
            text = reader.optional(path) or ""
            if directory in _GENERATED and ("SourcePath=/etc/fstab" in text or "zram" in name):
                continue
            seen.add(name)
            what = re.search(r"^What\s*=\s*(.+)$", text, re.MULTILINE)
            device = what[1].strip() if what else ""
            yield SwapSource("systemd", path, device, masked=is_masked(reader.files, path))


def _in_zram_generator(reader: Reader) -> Iterator[SwapSource]:
    """A section per device; without a mount point it is swap.

    Only the first directory's main file counts, and it goes before the drop-ins of all directories, in their order.
    """
    main = next((path for path in _ZRAM_FILES if reader.optional(path) is not None or reader.files.link(path)), None)
    drop_ins: dict[str, str] = {}
    for path in _ZRAM_FILES:
        for name in reader.files.names(f"{path}.d"):
            if name.endswith(".conf"):
                drop_ins.setdefault(name, f"{path}.d/{name}")
    paths = [*([main] if main else []), *(drop_ins[name] for name in sorted(drop_ins))]
    settings: dict[str, dict[str, str]] = {}
    source: dict[str, str] = {}
    for path in paths:
        for name, body in re.findall(r"^\[(zram\d+)\]\s*$([^\[]*)", reader.optional(path) or "", re.MULTILINE):
            source.setdefault(name, path)
            settings.setdefault(name, {}).update(re.findall(r"^\s*([a-z-]+)\s*=\s*(.*?)\s*$", body, re.MULTILINE))
    if main is not None and not source:
        yield SwapSource("zram-generator", main, "", masked=True)
    for name, values in settings.items():
        if not values.get("mount-point"):
            # A host-memory-limit of 0 excludes every host.
            off = values.get("zram-size") == "0" or values.get("host-memory-limit") == "0"
            yield SwapSource("zram-generator", source[name], f"/dev/{name}", masked=off)


def _in_dphys(reader: Reader) -> Iterator[SwapSource]:
    text = reader.optional(_DPHYS)
    if text is None:
        return
    settings = dict(re.findall(r"^\s*(CONF_\w+)=(\S*)", text, re.MULTILINE))
    off = settings.get("CONF_SWAPSIZE") == "0" or is_masked(reader.files, "/etc/systemd/system/dphys-swapfile.service")
    yield SwapSource("dphys-swapfile", _DPHYS, settings.get("CONF_SWAPFILE") or "/var/swap", masked=off)
