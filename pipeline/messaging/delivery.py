"""A record in the hands of a handler, and what the handler writes in the transaction that finishes it."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.pipeline.messaging.clock import now_ms
from highwater.pipeline.messaging.delay import delay
from highwater.pipeline.messaging.headers import TRACEPARENT, traceparent_of
from highwater.pipeline.messaging.record import Headers, Outgoing
from highwater.pipeline.messaging.retrying import Work


class Delivery:
    """A record in the hands of a handler."""

    def __init__(self, work: Work) -> None:
        self._record = work.record
        self.attempt = work.attempt
        """How often the record failed before: 0 at first."""
        self.sent: list[Outgoing] = []

    @property
    def topic(self) -> str:
        return self._record.topic

    @property
    def partition(self) -> int:
        return self._record.partition

    @property
    def offset(self) -> int:
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        return self._record.timestamp_ms

    @property
    def key(self) -> bytes | None:
        return self._record.key

    @property
    def value(self) -> bytes | None:
        return self._record.value

    @property
    def headers(self) -> Headers:
        return self._record.headers

    def header(self, name: str) -> bytes | None:
        """The last header of that name; None if it is missing."""
        return self._record.header(name)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        after: str | None = None,
    ) -> None:
        """Write a record in the transaction that finishes this one, or nothing if this one fails.

        With `after`, a delay such as 30s, a mover delivers it so much later. It belongs to the same trace.
        """
        all_headers = {TRACEPARENT: traceparent_of(self._record).encode(), **(headers or {})}
        if after is not None:
            self.sent.append(delay(topic, value, key, after=after, headers=all_headers))
        else:
            self.sent.append(Outgoing(topic, key, value, tuple(all_headers.items()), now_ms()))
