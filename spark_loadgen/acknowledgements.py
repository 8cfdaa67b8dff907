"""What became of the records that librdkafka was given: failures, each of them, and the times of those that are timed.

A callback for every record would cost as much as sending it. So the client is told to report errors only; the rest is
known without a call: what has neither failed nor is outstanding is acknowledged. A record that shall be timed gets a
callback object of its own. When it is acknowledged the client, which was asked not to call, lets go of that object, at
the same place in its code where it would have called it. Nobody else holds it, so CPython finalizes it there and then,
and the finalizer takes the time.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from confluent_kafka import KafkaError, Message

from highwater.spark_loadgen.stamp import STAMP_BYTES, decode_stamps

Timed = tuple[int, int, int]
"""Of a record: intended, handed to the client, acknowledged; the first in ns since T0, the others CLOCK_MONOTONIC."""

ONLY_ERRORS: Final[dict[str, Any]] = {"delivery.report.only.error": True}
"""What the client's configuration must say for `Acknowledgements` to hold."""


class Acknowledgements:
    """Filled while the client is polled."""

    def __init__(self, errors: Counter[str]) -> None:
        self.failed_sequences: list[int] = []
        self.failed_bytes = 0
        self.timed: list[Timed] = []
        self._errors = errors

    def failed(self, error: KafkaError, message: Message) -> None:
        """The delivery report of every record without one of its own."""
        value = message.value()
        assert isinstance(value, bytes)
        self.refused(int(decode_stamps(value[:STAMP_BYTES])["sequence"][0]), len(value), error)

    def refused(self, sequence: int, value_bytes: int, error: KafkaError) -> None:
        """The client would not take a record at all, for instance because it is larger than message.max.bytes."""
        self.failed_bytes += value_bytes
        self.failed_sequences.append(sequence)
        self._errors[error.str()] += 1


class TimedRecord:
    """The delivery report of one record. Let go of it once the client has it."""

    __slots__ = ("_acknowledgements", "_intended_ns", "sent_ns")

    def __init__(self, acknowledgements: Acknowledgements, intended_ns: int) -> None:
        self._acknowledgements: Acknowledgements | None = acknowledgements
        self._intended_ns = intended_ns
        self.sent_ns = time.monotonic_ns()

    def __call__(self, error: KafkaError, message: Message) -> None:
        if self._acknowledgements is not None:
            self._acknowledgements.failed(error, message)
        self.cancel()

    def cancel(self) -> None:
        """There will be no acknowledgement."""
        self._acknowledgements = None

    def __del__(self) -> None:
        acked_ns = time.monotonic_ns()
        if self._acknowledgements is not None:
            self._acknowledgements.timed.append((self._intended_ns, self.sent_ns, acked_ns))
