"""Turns off the swap of zram-generator and dphys-swapfile at boot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from . import HEADER

# Its drop-ins are read in the order of their names, whatever directory they are in: later ones win.
ZRAM_FILE: Final = "/etc/systemd/zram-generator.conf.d/90-highwater.conf"
DPHYS_SERVICE: Final = "dphys-swapfile.service"
# Of zram-tools (Debian) and of Ubuntu's zram-config.
ZRAM_SERVICES: Final = ("zramswap.service", "zram-config.service")
_SECTION: Final = re.compile(r"^\s*\[(zram\d+)\]\s*$", re.MULTILINE)


def zram_devices(text: str) -> list[str]:
    """The devices that a file of zram-generator.conf(5) sets up, `zram0` and so on."""
    return list(dict.fromkeys(_SECTION.findall(text)))


def without_zram(present: str | None, devices: Iterable[str]) -> str | None:
    """Highwater's drop-in with these devices turned off by host-memory-limit = 0, which excludes every host."""
    names = sorted({*zram_devices(present or ""), *devices}, key=lambda name: int(name.removeprefix("zram")))
    if not names:
        return None
    return HEADER + "".join(f"\n[{name}]\nhost-memory-limit = 0\n" for name in names)
