"""Finds the files that Highwater wrote, also without a journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..hostfiles import HostFiles
from . import HEADER, fstab, limits_d, swap, sysctl_d, systemd, tmpfiles, udev

_UNITS: Final = "/etc/systemd/system"


def marked_files(files: HostFiles) -> Iterator[str]:
    """Paths of files that Highwater wrote or edited, according to their text."""
    drop_ins = (systemd.drop_in(name.removesuffix(".d")) for name in files.names(_UNITS) if name.endswith(".d"))
    whole = (sysctl_d.MANAGED_FILE, udev.MANAGED_FILE, tmpfiles.MANAGED_FILE, limits_d.MANAGED_FILE, swap.ZRAM_FILE)
    for path in (*whole, *drop_ins):
        if HEADER.strip() in (files.read(path).text or ""):
            yield path
    if fstab.MARK in (files.read(fstab.PATH).text or ""):
        yield fstab.PATH
