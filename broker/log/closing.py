"""Closes many logs: their last flushes (fsync) run together and take hardly longer than one."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from highwater.broker.log.flush import FlushTicket
from highwater.broker.log.partition_log import PartitionLog
from highwater.common.listener_rules import descriptors

_THREADS: Final = 16
_MOST_TOGETHER: Final = 16 * _THREADS
"""The most logs with a file open at once, if there are descriptors for them."""


def close_logs(logs: Iterable[PartitionLog], *, clean: bool) -> None:
    """Close all files. A clean close first blocks until all that was written is on the disk."""
    left = iter(logs)
    count = min(_MOST_TOGETHER, descriptors().files)
    while together := list(islice(left, count)):
        if clean:
            _flush(together)
        for log in together:
            log.close(clean=False)


def _flush(logs: Sequence[PartitionLog]) -> None:
    begun: list[tuple[PartitionLog, FlushTicket]] = []
    try:
        for log in logs:
            if (ticket := log.begin_last_flush()) is not None:
                begun.append((log, ticket))  # noqa: PERF401 - those begun so far must be known
        tickets = [ticket for _, ticket in begun]
        if len(tickets) < _THREADS:
            for ticket in tickets:
                ticket.sync()
        else:
            with ThreadPoolExecutor(_THREADS, "closing logs") as threads:
                list(threads.map(FlushTicket.sync, tickets))
    finally:
        for log, ticket in begun:
            log.complete_flush(ticket)
    for log, ticket in begun:
        if not ticket.is_synced:
            raise OSError(errno.ENOSPC, "No space left on device", str(log.directory))
