"""Processes that may end while they are looked at."""

from __future__ import annotations

import psutil


def runs(process: psutil.Process) -> bool:
    """False for a zombie, too: its new parent, the first process of a container, may wait for no child."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def words_of(process: psutil.Process | None) -> list[str]:
    """The words of its command line; none if it has ended."""
    try:
        return [] if process is None else process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def parent_of(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None
