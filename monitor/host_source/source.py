"""Adds what agents say of hosts to snapshots: a host that is slow or dead delays nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from highwater.common.host_answer import AnswerError, HostAnswer, parse_answer
from highwater.monitor.host_source.asking import AskError, ask
from highwater.monitor.host_source.joining import with_hosts
from highwater.monitor.host_source.settings import HostSettings
from highwater.monitor.model import HOST_SOURCE, Host, Snapshot, SourceState
from highwater.monitor.serving import Source

LONGEST_S: Final = 10.0
_FIRST_WAIT_S: Final = 1.0
"""The first snapshot waits so long for hosts, so that its page has them."""


@dataclass(slots=True)
class _Asked:
    """What is known of one host."""

    settings: HostSettings
    answer: HostAnswer | None = None
    as_of_ms: int | None = None
    answered_at_ms: int | None = None
    """Monotonic."""
    error: str = "it has not answered yet"
    asking: asyncio.Task[None] | None = None
    requests: int = 0
    received_bytes: int = 0
    duration_ms: float = 0.0
    is_new: bool = False
    """It answered since the snapshot before."""


class WithHosts:
    """A source of snapshots with hosts. Belongs to one event loop; `close` before the loop ends."""

    def __init__(self, cluster: Source, hosts: Sequence[HostSettings], tick_s: float) -> None:
        self._cluster = cluster
        self._hosts = [_Asked(settings) for settings in hosts]
        self._timeout_s = min(tick_s, LONGEST_S)

    async def snapshot(self, number: int) -> Snapshot:
        """A host is asked in each tick, unless it still owes an answer; what it has said by then is in the snapshot."""
        for host in self._hosts:
            if host.asking is None or host.asking.done():
                host.requests += 1
                host.asking = asyncio.create_task(self._ask(host))
        snapshot = await self._cluster.snapshot(number)
        first = [host.asking for host in self._hosts if host.asking is not None and host.as_of_ms is None]
        if first and number == 0:
            await asyncio.wait(first, timeout=_FIRST_WAIT_S)
        return self._joined(snapshot)

    async def close(self) -> None:
        asking = [host.asking for host in self._hosts if host.asking is not None]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, host: _Asked) -> None:
        began_s = time.monotonic()
        try:
            body = await ask(host.settings, self._timeout_s)
            host.received_bytes += len(body)
            answer = parse_answer(body)
        except (AskError, AnswerError) as error:
            host.error = str(error)
        else:
            is_same = host.answer is not None and host.answer.monotonic_ms == answer.monotonic_ms
            host.answer, host.as_of_ms, host.error = answer, time.time_ns() // 1_000_000, ""
            host.answered_at_ms = time.monotonic_ns() // 1_000_000
            host.is_new = not is_same
        host.duration_ms = (time.monotonic() - began_s) * 1000

    def _joined(self, snapshot: Snapshot) -> Snapshot:
        hosts, sources, new = [], dict(snapshot.sources), set()
        for each in self._hosts:
            settings = each.settings
            hosts.append(
                Host(
                    settings.name,
                    settings.address,
                    each.answer,
                    each.as_of_ms,
                    each.error,
                    is_new=each.is_new,
                    wanted_brokers=settings.brokers,
                    answered_at_ms=each.answered_at_ms,
                )
            )
            name = HOST_SOURCE + settings.name
            sources[name] = SourceState(
                name, each.as_of_ms, each.error, each.requests, each.received_bytes, each.duration_ms
            )
            if each.is_new:
                new.add(settings.name)
            each.requests, each.received_bytes, each.is_new = 0, 0, False
        return with_hosts(replace(snapshot, sources=sources), hosts, frozenset(new))
