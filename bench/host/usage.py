"""What some processes of this host have used so far: CPU, and memory now and at its most."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU and memory of all processes together; peak_rss_bytes adds up the peak of each."""

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int


def usage_of(process_ids: Iterable[int]) -> Usage | None:
    """Children that have ended count too, once they were waited for. None when one of the processes is gone."""
    cpu_s, rss_bytes, peak_rss_bytes = 0.0, 0, 0
    found = False
    for process_id in process_ids:
        try:
            process = psutil.Process(process_id)
            times = process.cpu_times()
            rss_bytes += process.memory_info().rss
            status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
        except (psutil.Error, OSError):
            return None
        cpu_s += times.user + times.system + times.children_user + times.children_system
        peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        peak_rss_bytes += int(peak[1]) * 1024 if peak else 0
        found = True
    return Usage(cpu_s, rss_bytes, peak_rss_bytes) if found else None
