"""Reads the size of memory, its available part, and the limit of a control group."""

from __future__ import annotations

import re
from statistics import median
from typing import Final

from .model import ControlGroup, Memory
from .reading import Reader, parse_kibibytes

_PAGE_SIZES_BYTES: Final = (4096, 16384, 65536)
# The same memory in /proc/vmstat's pages and in /proc/meminfo's kB; on kernels of ten years.
_IN_PAGES_AND_KIBIBYTES: Final = (
    ("nr_free_pages", "MemFree"),
    ("nr_mapped", "Mapped"),
    ("nr_page_table_pages", "PageTables"),
    ("nr_slab_reclaimable", "SReclaimable"),
    ("nr_slab_unreclaimable", "SUnreclaim"),
    ("nr_active_file", "Active(file)"),
    ("nr_inactive_file", "Inactive(file)"),
)


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
    """The page size. No file has it, so it is the ratio of the same memory in bytes and in pages.

    The median of several ratios is used: with hot-plugged memory, MemFree may count more than nr_free_pages.
    """
    counters, sizes = reader.optional("/proc/vmstat") or "", reader.optional("/proc/meminfo") or ""
    ratios: list[float] = []
    for counter, key in _IN_PAGES_AND_KIBIBYTES:
        pages = re.search(rf"^{counter} ([0-9]{{1,20}})$", counters, re.MULTILINE)
        size_bytes = parse_kibibytes(sizes, key)
        if pages is not None and int(pages[1]) and size_bytes:
            ratios.append(size_bytes / int(pages[1]))
    if not ratios:
        return None
    ratio = median(ratios)
    return min(_PAGE_SIZES_BYTES, key=lambda size: max(size / ratio, ratio / size))
