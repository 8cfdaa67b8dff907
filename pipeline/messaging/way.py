"""The way of a record: all records that share its origin or its trace, in order of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from highwater.common.retry_topics import DEAD_LETTER_PREFIX
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.levels import level_of
from highwater.pipeline.messaging.record import Place, Record, parse_place


class Step(NamedTuple):
    """A place where the record was, and what happened there."""

    record: Record
    what: str


class Way:
    """Takes records of any topics, and keeps those that belong to the way of `first`."""

    def __init__(self, first: Record) -> None:
        self._origin = headers.origin_of(first)
        self._known = {self._origin, first.place}
        own = headers.trace_id_of(first)
        derived = headers.traceparent_of(first).split("-")
        self._traces = {own} if own else {derived[1]} if len(derived) > 1 else set()

    def has(self, record: Record) -> bool:
        if record.place in self._known or headers.trace_id_of(record) in self._traces:
            return True
        return any(
            parse_place(record.text(name) or "") in self._known for name in (headers.ORIGIN, headers.REPLAYED_FROM)
        )

    def steps(self, records: Iterable[Record]) -> list[Step]:
        """The steps in the order of the way: by attempt and time, the origin first."""
        found = {record.place: record for record in records if self.has(record)}
        return [Step(record, what_happened(record)) for record in sorted(found.values(), key=self._order)]

    def _order(self, record: Record) -> tuple[bool, int, Place]:
        return record.place != self._origin, headers.time_ms(record), record.place


def what_happened(record: Record) -> str:
    """One line about a step."""
    error = ": ".join(filter(None, (record.text(headers.ERROR_CLASS), record.text(headers.ERROR))))
    attempt = record.text(headers.ATTEMPT)
    if record.topic.startswith(DEAD_LETTER_PREFIX):
        return f"dead letter, {record.text(headers.DISPOSITION) or 'no reason'} after attempt {attempt or '?'}: {error}"
    if level_of(record.topic) is not None:
        return f"waits, after failure {attempt}: {error}" if error else "waits"
    if record.topic.endswith(".retry.parked"):
        return f"parked, after failure {attempt}: {error}" if error else "parked behind its key"
    if record.header(headers.REPLAYED_FROM) is not None:
        return f"replayed from {record.text(headers.REPLAYED_FROM)}"
    if record.header(headers.ORIGIN) is None:
        return "produced"
    return f"delivered again, for attempt {int(attempt) + 1}" if attempt and attempt.isdecimal() else "delivered"
