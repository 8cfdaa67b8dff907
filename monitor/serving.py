"""The process of the monitor: collector, figures, events, history, and the newest view for the pages."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import psutil

from highwater.common.bench_topics import trials_in
from highwater.common.ceilings import Ceilings
from highwater.monitor.events import Event, events_between
from highwater.monitor.figures.cluster import Figures, figures
from highwater.monitor.figures.memory import Memory
from highwater.monitor.garbage import GarbageKeeper, let_go
from highwater.monitor.history.kinds import DETAILS, Value
from highwater.monitor.history.rows import read_at_ms, rows_of
from highwater.monitor.history.tick import Tick
from highwater.monitor.model import Snapshot
from highwater.monitor.state import Cost, MonitorState

if TYPE_CHECKING:
    from highwater.monitor.history.writer import HistoryWriter  # `top` has no history, and does not load its library

View = tuple[Snapshot, Figures]
BENCH_TICK_S: Final = 5.0
"""A trial of the bench is short."""
_MOST_NOTED: Final = 1000
_MOST_RECENT: Final = 2000
_AFTER_A_TICK_S: Final = 1.0
"""What a source may take longer than a tick, as it keeps the deadline itself."""


class Source(Protocol):
    """Where snapshots come from."""

    async def snapshot(self, number: int) -> Snapshot: ...


class Monitor:
    """One cluster, from tick to tick. Belongs to one event loop; `view` and `state` may be called from any thread."""

    def __init__(
        self,
        source: Source,
        tick_s: float,
        writer: HistoryWriter | None = None,
        told: Callable[[Snapshot, Figures], None] | None = None,
        bench_tick_s: float = BENCH_TICK_S,
        ceilings: Sequence[Ceilings] = (),
    ) -> None:
        """`told` is called with each new view in a thread, one after the other, such as for alerts.

        bench_tick_s: the longest tick while the bench measures the cluster.
        """
        self._source = source
        self._writer = writer
        self._told = told
        self._bench_tick_s = bench_tick_s
        self._ceilings = ceilings
        self._memory = Memory()
        self._view: View | None = None
        self._process = psutil.Process()
        self._cpu_at: tuple[float, float] | None = None
        self._details_bucket: int | None = None
        self._noted: deque[Event] = deque(maxlen=_MOST_NOTED)
        self._recent: deque[Event] = deque(maxlen=_MOST_RECENT)
        self._state = MonitorState(started_ms=time.time_ns() // 1_000_000, tick_s=tick_s)

    def view(self) -> View | None:
        """The newest snapshot and its figures; None before the first."""
        return self._view

    def recent(self) -> list[Event]:
        """What changed since the start, the newest first."""
        return list(reversed(self._recent))

    def note(self, event: Event) -> None:
        """Have an event written with the next tick: what somebody did by the monitor. From any thread."""
        self._noted.append(event)

    def state(self) -> MonitorState:
        return replace(self._state, history=self._writer.state if self._writer is not None else None)

    async def run(self) -> None:
        """Tick until the task is cancelled. A tick that takes longer than its time leaves out those it overlaps.

        Raises HistoryError if another cluster answers than that of the history.
        """
        number = 0
        due_s = time.monotonic()
        with GarbageKeeper() as garbage:
            while True:
                await self._tick(number)
                garbage.settle()
                number += 1
                tick_s = self._pace_s()
                due_s += tick_s
                late_s = time.monotonic() - due_s
                if late_s > 0:
                    missed = int(late_s // tick_s) + 1
                    self._state = replace(self._state, late_ticks=self._state.late_ticks + missed)
                    due_s += missed * tick_s
                await asyncio.sleep(due_s - time.monotonic())

    def _pace_s(self) -> float:
        is_measured = self._view is not None and bool(trials_in(self._view[0].topics))
        return min(self._state.tick_s, self._bench_tick_s) if is_measured else self._state.tick_s

    async def _tick(self, number: int) -> None:
        began_s = time.monotonic()
        try:
            snapshot = await asyncio.wait_for(self._source.snapshot(number), self._state.tick_s + _AFTER_A_TICK_S)
        except Exception as error:  # pages show a tick that failed; the next one may be well
            text = str(error) or f"no snapshot within {self._state.tick_s:g} s"
            self._state = replace(self._state, failed_ticks=self._state.failed_ticks + 1, error=" ".join(text.split()))
            return
        if self._writer is not None:
            self._writer.check_cluster(snapshot.cluster_id)
        # Of a large cluster all this takes long: pages are answered meanwhile.
        happened: list[Event] = []
        if self._view is not None:
            happened = await asyncio.to_thread(events_between, self._view[0], snapshot)
            self._recent.extend(happened)
        made = await asyncio.to_thread(self._figures, snapshot)
        parts = [] if self._view is None else _parts_of(self._view)
        self._view = (snapshot, made)
        await asyncio.to_thread(let_go, parts)
        cost = self._cost(snapshot, began_s)
        self._state = replace(self._state, ticks=self._state.ticks + 1, error="", cost=cost)
        if self._told is not None:
            # It may wait for a disk.
            await asyncio.to_thread(self._told, snapshot, made)
        if self._writer is not None:
            noted = [self._noted.popleft() for _ in range(len(self._noted))]
            # The history keeps details every five minutes, and to make their rows takes long.
            bucket = snapshot.taken_at_ms // DETAILS[0].every_ms
            silent = [kind.name for kind in DETAILS] if bucket == self._details_bucket else []
            self._details_bucket = bucket
            tick = await asyncio.to_thread(_history_tick, (snapshot, made), cost, [*noted, *happened], silent)
            self._writer.submit(tick)

    def _figures(self, snapshot: Snapshot) -> Figures:
        self._memory.add(snapshot)
        return figures(self._memory, self._ceilings)

    def _cost(self, snapshot: Snapshot, began_s: float) -> Cost:
        with self._process.oneshot():
            times, rss_bytes = self._process.cpu_times(), self._process.memory_info().rss
        now_s, cpu_s = time.monotonic(), times.user + times.system
        share = None
        if self._cpu_at is not None and now_s > self._cpu_at[0]:
            share = (cpu_s - self._cpu_at[1]) / (now_s - self._cpu_at[0])
        self._cpu_at = (now_s, cpu_s)
        sources = snapshot.sources.values()
        return Cost(
            rss_bytes=rss_bytes,
            cpu_s=cpu_s,
            cpu_share=share,
            tick_ms=(now_s - began_s) * 1000,
            requests=sum(source.requests for source in sources),
            received_bytes=sum(source.received_bytes for source in sources),
        )


def _parts_of(view: View) -> list[object]:
    snapshot, made = view
    of_topics = (snapshot.topics, made.topics, made.partitions)
    of_groups = (snapshot.groups, made.groups, made.group_partitions)
    return [part for parts in (*of_topics, *of_groups) for part in parts.values()]


def _history_tick(view: View, cost: Cost, happened: Sequence[Event], silent: Sequence[str]) -> Tick:
    snapshot, made = view
    own: dict[str, Value] = {
        "tick_ms": round(cost.tick_ms, 1),
        "monitor_rss_bytes": cost.rss_bytes,
        "monitor_cpu_s": round(cost.cpu_s, 2),
    }
    rows = rows_of(snapshot, made, own, has_details=not silent)
    return Tick(snapshot.taken_at_ms, rows, happened, silent, read_at_ms(snapshot), snapshot.cluster_id)
