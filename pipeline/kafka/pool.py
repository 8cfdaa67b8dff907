"""The clients of this process, kept for the next task until they were idle for five minutes."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import Settings

IDLE_S: Final = 300.0


class Pool:
    """Lends each client to one borrower at a time."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: defaultdict[Settings, list[tuple[Client, float]]] = defaultdict(list)
        self._timer: threading.Timer | None = None

    @contextmanager
    def borrow(self, settings: Settings) -> Iterator[Client]:
        """A client for the time of a with statement, with the connections of an earlier borrower if there was one."""
        with self._lock:
            waiting = self._idle[settings]
            client = waiting.pop()[0] if waiting else Client(settings)
        try:
            yield client
        finally:
            with self._lock:
                self._idle[settings].append((client, time.monotonic()))
                self._watch()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._idle_s, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _close_idle(self) -> None:
        oldest_s = time.monotonic() - self._idle_s
        with self._lock:
            self._timer = None
            for settings, waiting in list(self._idle.items()):
                for client, since_s in waiting:
                    if since_s <= oldest_s:
                        client.close()
                kept = [each for each in waiting if each[1] > oldest_s]
                if kept:
                    self._idle[settings] = kept
                else:
                    del self._idle[settings]
            if self._idle:
                self._watch()

    def close(self) -> None:
        """Close what nobody has borrowed."""
        with self._lock:
            clients = [client for waiting in self._idle.values() for client, _ in waiting]
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for client in clients:
            client.close()

    def after_fork(self) -> None:
        """Close the child's copies of the sockets, with which its parent goes on."""
        clients = [client for waiting in self._idle.values() for client, _ in waiting]
        self._forget()
        for client in clients:
            client.close()


POOL: Final = Pool()
os.register_at_fork(after_in_child=POOL.after_fork)
