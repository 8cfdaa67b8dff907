"""When the time of each member is up; the next one is found without a look at all members."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace


class Deadlines:
    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._queue: list[tuple[int, str]] = []
        """No entry is later than its name is due: that of a time that was put off moves when it is the first."""
        self._queued_ms: dict[str, int] = {}
        """The time in the entry of each name; entries with another time do not count."""

    def __contains__(self, name: str) -> bool:
        return name in self._due_ms

    def set(self, name: str, due_ms: int) -> None:
        self._due_ms[name] = due_ms
        queued_ms = self._queued_ms.get(name)
        if queued_ms is None or due_ms < queued_ms:
            self._queued_ms[name] = due_ms
            heappush(self._queue, (due_ms, name))

    def discard(self, name: str) -> None:
        self._due_ms.pop(name, None)

    @property
    def next_ms(self) -> int | None:
        while self._queue:
            queued_ms, name = self._queue[0]
            due_ms = self._due_ms.get(name)
            if self._queued_ms.get(name) != queued_ms:
                heappop(self._queue)
            elif due_ms is None:
                heappop(self._queue)
                del self._queued_ms[name]
            elif due_ms > queued_ms:
                self._queued_ms[name] = due_ms
                heapreplace(self._queue, (due_ms, name))
            else:
                return due_ms
        return None

    def due(self, now_ms: int) -> list[str]:
        """Return the names whose time is up, in the order in which they were first set."""
        return [name for name, due_ms in self._due_ms.items() if due_ms <= now_ms]
