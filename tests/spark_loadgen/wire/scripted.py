"""A broker in a thread whose answers to Produce are told beforehand."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.calibrate.null_broker import NullBroker


class ScriptedBroker(NullBroker):
    """Partition -> errors of its next answers, one after the other; then none. The topic has two partitions."""

    def __init__(self, topic: str, script: dict[int, Sequence[int]]) -> None:
        super().__init__({topic: 2})
        self._stop, self._stopping = os.pipe()
        self._thread = threading.Thread(target=self.serve, args=(self._stop,))
        self._left = threading.Event()
        self._script = defaultdict(list, {partition: list(errors) for partition, errors in script.items()})

    def error_for(self, topic: str, partition: int) -> int:
        return self._script[partition].pop(0) if self._script[partition] else 0

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Go away for good, at the next chance."""
        if not self._left.is_set():
            self._left.set()
            os.close(self._stopping)

    def close(self) -> None:
        self._thread.join()
        os.close(self._stop)

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.address
        return f"{host}:{port}"


@contextmanager
def scripted_broker(script: dict[int, Sequence[int]], topic: str = "scripted") -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(topic, script)
    broker.start()
    try:
        yield broker
    finally:
        broker.leave()
        broker.close()
