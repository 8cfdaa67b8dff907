"""Delivery results of librdkafka: every failed record, and the acknowledgement times of timed ones.

A callback for every record would cost as much as sending it. So the client is configured to report errors only: a
record that has neither failed nor is outstanding is acknowledged. A timed record gets its own callback object. When
the record is acknowledged, the client does not call that object but drops its reference to it, at the place in its code
where it would call it. That reference is the last one, so CPython finalizes the object at once, and the finalizer reads
the clock.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from highwater.spark_loadgen.stamp import STAMP_BYTES, decode_stamps

Timed = tuple[int, int, int]
"""Intended, sent and acknowledged time of a record; the first in ns since T0, the others of CLOCK_MONOTONIC."""

ONLY_ERRORS: Final[dict[str, Any]] = {"delivery.report.only.error": True}
"""The client configuration that `Acknowledgements` requires."""


class Acknowledgements:
    """Filled while the client is polled."""

    def __init__(self, errors: Counter[str]) -> None:
        self.failed_sequences: list[int] = []
        self.failed_bytes = 0
        self.timed: list[Timed] = []
        self._errors = errors

    def on_failed(self, error: KafkaError, message: Message) -> None:
        """The delivery callback of every record that has no callback object of its own."""
        value = message.value()
        assert isinstance(value, bytes)
        self.add_failed(int(decode_stamps(value[:STAMP_BYTES])["sequence"][0]), len(value), error)

    def add_failed(self, sequence: int, value_bytes: int, error: KafkaError) -> None:
        """The client refused a record, for instance because it is larger than message.max.bytes."""
        self.failed_bytes += value_bytes
        self.failed_sequences.append(sequence)
        self._errors[error.str()] += 1


class TimedRecord:
    """The delivery callback of one timed record. The caller must drop its reference once the client has one."""

    __slots__ = ("_acknowledgements", "_intended_ns", "sent_ns")

    def __init__(self, acknowledgements: Acknowledgements, intended_ns: int) -> None:
        self._acknowledgements: Acknowledgements | None = acknowledgements
        self._intended_ns = intended_ns
        self.sent_ns = time.monotonic_ns()

    def __call__(self, error: KafkaError, message: Message) -> None:
        if self._acknowledgements is not None:
            self._acknowledgements.on_failed(error, message)
        self.cancel()

    def cancel(self) -> None:
        """Record nothing when this object is finalized."""
        self._acknowledgements = None

    def __del__(self) -> None:
        acked_ns = time.monotonic_ns()
        if self._acknowledgements is not None:
            self._acknowledgements.timed.append((self._intended_ns, self.sent_ns, acked_ns))
