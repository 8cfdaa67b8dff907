"""Memory: how much there is, what is left, and what a control group leaves of it."""

from __future__ import annotations

import re
from typing import Final

from .model import ControlGroup, Memory
from .reading import Reader, parse_kibibytes

_PAGE_SIZES_BYTES: Final = (4096, 16384, 65536)


def read_memory(reader: Reader, group: ControlGroup) -> Memory:
    return Memory(
        total_bytes=_meminfo(reader, "memory.total_bytes", "MemTotal"),
        available_bytes=_meminfo(reader, "memory.available_bytes", "MemAvailable"),
        cgroup_limit_bytes=group.memory_max_bytes,
        page_bytes=_page_bytes(reader),
    )


def _meminfo(reader: Reader, fact: str, key: str) -> int | None:
    kibibytes = reader.match(fact, "/proc/meminfo", rf"^{key}:\s+([0-9]{{1,20}}) kB$")
    return int(kibibytes) * 1024 if kibibytes else None


def _page_bytes(reader: Reader) -> int | None:
    """No file tells the page size; the same free memory in pages and in bytes does, however it moves in between."""
    pages = re.search(r"^nr_free_pages ([0-9]{1,20})$", reader.optional("/proc/vmstat") or "", re.MULTILINE)
    free_bytes = parse_kibibytes(reader.optional("/proc/meminfo") or "", "MemFree")
    if pages is None or not int(pages[1]) or not free_bytes:
        return None
    ratio = free_bytes / int(pages[1])
    return min(_PAGE_SIZES_BYTES, key=lambda size: max(size / ratio, ratio / size))
