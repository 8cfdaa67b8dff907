"""Sends the messages of one task to the control broker, without ever making the load wait.

A thread of its own encodes and sends. When the control broker does not take messages, none is queued beyond a small
bound: the task skips a message, and the next one that is sent has its content. So a broker that is slow or gone costs
messages but no counts; only what is unsent at the end of the load is missing, and its number is reported.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from highwater.spark_loadgen.model import TelemetryReport, TelemetryTarget
from highwater.spark_loadgen.telemetry.changes import Changed, Changes
from highwater.spark_loadgen.telemetry.message import TaskMessage

WAITING_MAX: Final = 16
"""Messages that are not acknowledged yet; a control broker takes one a second."""
_CONNECT_S: Final = 2
_FLUSH_S: Final = 5
_CONFIGURATION: Final[dict[str, Any]] = {
    "log_level": 0,  # the report names a control broker that is gone, the terminal does not
    "client.id": "highwater-telemetry",
    "enable.idempotence": True,  # a message that is sent again is not in the log twice
    "message.timeout.ms": 0,  # messages wait until the end of the load
    "linger.ms": 20,
    "compression.type": "none",  # the body is compressed
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
    "queue.buffering.max.kbytes": 64 << 10,
}


class Publisher:
    """Call `offer` in the thread of the load, at most once a second, and `finish` when the load is over."""

    def __init__(self, target: TelemetryTarget, task: int) -> None:
        """Connect, for two seconds at most; a broker that does not answer is asked again in the background.

        Raises KafkaException when the client refuses its configuration.
        """
        self._target = target
        self._task = task
        self._key = f"{target.trial}/{task}".encode()
        before = _threads()
        self._producer = Producer(
            {**_CONFIGURATION, **target.connection, "bootstrap.servers": target.bootstrap_servers}
        )
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(target.topic, timeout=_CONNECT_S)
        # The load's client is made later, so all new threads belong to this one.
        self._client_threads = _threads() - before
        self._inbox: queue.SimpleQueue[Changed | None] = queue.SimpleQueue()
        self._number = 0
        self._skipped = 0
        self._bytes = 0
        self._refused = 0
        self._taking_ns = 0
        self._thread_ns = 0
        self._thread = threading.Thread(target=self._send_all, name="telemetry", daemon=True)
        self._thread.start()

    def offer(self, changes: Changes, *, last: bool = False) -> None:
        """Take what has changed and queue it; if too many messages wait, skip this one. Never blocks."""
        if not last and self._inbox.qsize() + len(self._producer) >= WAITING_MAX:
            self._skipped += 1
            return
        started_ns = time.thread_time_ns()
        self._inbox.put(changes.take(last=last))
        self._taking_ns += time.thread_time_ns() - started_ns

    def finish(self) -> TelemetryReport:
        """Send what waits, for a few seconds at most."""
        self._inbox.put(None)
        self._thread.join()
        cpu_ns = self._taking_ns + self._thread_ns + _cpu_ns(self._client_threads)
        unsent = len(self._producer) + self._refused
        self._producer.purge()
        return TelemetryReport(
            messages=self._number - unsent,
            message_bytes=self._bytes,
            skipped=self._skipped,
            unsent=unsent,
            cpu_ns=cpu_ns,
        )

    def _send_all(self) -> None:
        while (changed := self._inbox.get()) is not None:
            for part in changed.parts():
                self._send(part)
            self._producer.poll(0)
        self._producer.flush(_FLUSH_S)
        self._thread_ns = time.thread_time_ns()

    def _send(self, changed: Changed) -> None:
        message = TaskMessage(
            trial=self._target.trial,
            task=self._task,
            number=self._number,
            second=changed.second,
            first=changed.first,
            skipped=self._skipped,
            last=changed.last,
            counts=changed.counts,
            cpu_ratio=changed.cpu_ratio,
            histograms=changed.histograms,
        ).encode()
        self._number += 1
        try:
            self._producer.produce(self._target.topic, value=message, key=self._key)
            self._bytes += len(message)
        except (BufferError, KafkaException):
            self._refused += 1


def _threads() -> set[str]:
    """The ids of this process's threads."""
    return {entry.name for entry in Path("/proc/self/task").iterdir()}


def _cpu_ns(threads: Iterable[str]) -> int:
    """CPU time that threads of this process have used; those that have ended count nothing."""
    total = 0
    for thread in threads:
        try:
            total += int(Path(f"/proc/self/task/{thread}/schedstat").read_text("ascii").split()[0])
        except (OSError, ValueError, IndexError):
            continue
    return total
