"""The headers by which a record says how often it failed, until when it waits and where it comes from. Pure."""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Final

from highwater.pipeline.messaging.levels import level_of
from highwater.pipeline.messaging.record import Headers, Place, Record, parse_place

ATTEMPT: Final = "hw-attempt"
"""How often the record failed."""
DUE_MS: Final = "hw-due-ms"
"""The record is delivered at this time, in ms since 1970, and not before."""
TARGET: Final = "hw-target"
"""The topic in which it is delivered."""
TIMESTAMP_MS: Final = "hw-timestamp-ms"
"""The record's own timestamp: while it waits or is dead it has the time at which it began to."""
ORIGIN: Final = "hw-origin"
"""TOPIC/PARTITION/OFFSET of the record as it was first read."""
ERROR_CLASS: Final = "hw-error-class"
ERROR: Final = "hw-error"
DISPOSITION: Final = "hw-disposition"
REPLAYED_FROM: Final = "hw-replayed-from"
"""TOPIC/PARTITION/OFFSET of the dead letter that was replayed."""
TRACEPARENT: Final = "traceparent"
"""https://www.w3.org/TR/trace-context/."""

_WAITING: Final = (DUE_MS, TARGET, TIMESTAMP_MS)
_FAILED: Final = (ERROR_CLASS, ERROR, DISPOSITION)
_LONGEST_ERROR: Final = 1000


class Disposition(Enum):
    """Why a record is a dead letter: the reasons that KIP-1317 asks for."""

    POISON = "poison"
    """The record itself cannot be worked on."""
    EXHAUSTED = "exhausted"
    """The last of its attempts failed."""
    REJECTED = "rejected"
    """The handler refused it."""


def whole_number(record: Record, name: str) -> int | None:
    """The header as a number; None if it is missing. Raises ValueError if it is something else."""
    if record.header(name) is None:
        return None
    text = record.text(name)
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name} is not a whole number")
    return int(text)


def attempt_of(record: Record) -> int:
    """How often the record failed; 0 if the header is missing. Raises ValueError."""
    return whole_number(record, ATTEMPT) or 0


def origin_of(record: Record) -> Place:
    """Where the record was first read; its own place if it says nothing that can be read."""
    return parse_place(record.text(ORIGIN) or "") or record.place


def traceparent_of(record: Record) -> str:
    """The record's own, or one that follows from its origin, so that a retry has the same."""
    found = record.text(TRACEPARENT)
    if found is not None:
        return found
    digest = hashlib.sha256(str(origin_of(record)).encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-01"


def trace_id_of(record: Record) -> str | None:
    """The second part of traceparent; None if the record has none."""
    parts = (record.text(TRACEPARENT) or "").split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else None


def with_headers(record: Record, *, without: tuple[str, ...] = (), **new: str | int) -> Headers:
    """The headers of the record, with those that are named by argument replaced: hw_attempt is hw-attempt."""
    named = {name.replace("_", "-"): str(value).encode() for name, value in new.items()}
    kept = [(name, value) for name, value in record.headers if name not in named and name not in without]
    return (*kept, *named.items())


def known(record: Record) -> dict[str, str | int]:
    """What every record that we write again says: its trace, and where it comes from unless it is new."""
    trace: dict[str, str | int] = {"traceparent": traceparent_of(record)}
    return trace | {"hw_origin": str(origin_of(record))} if record.topic else trace


def waiting(record: Record, due_ms: int, target: str, *, attempt: int | None = None, **error: str) -> Headers:
    """Headers of a record that waits until `due_ms` and is delivered to `target` then."""
    attempts = {} if attempt is None else {"hw_attempt": attempt}
    return with_headers(
        record,
        without=_FAILED,
        **known(record),
        hw_due_ms=due_ms,
        hw_target=target,
        hw_timestamp_ms=own_timestamp_ms(record),
        **attempts,
        **error,
    )


def delivered(record: Record) -> Headers:
    """Headers of a record that has waited: without what the wait needed, but for the time at which it was due."""
    return with_headers(record, without=(TARGET, TIMESTAMP_MS), **known(record))


def dead(record: Record, disposition: Disposition, error_class: str, error: str, attempt: int) -> Headers:
    return with_headers(
        record,
        without=(*_WAITING, *_FAILED),
        **known(record),
        hw_attempt=attempt,
        hw_timestamp_ms=own_timestamp_ms(record),
        hw_disposition=disposition.value,
        **error_headers(error_class, error),
    )


def replayed(record: Record) -> Headers:
    """Headers of a dead letter that begins anew: no attempts, no error, and where it was dead."""
    return with_headers(
        record,
        without=(*_WAITING, *_FAILED, ATTEMPT),
        **known(record),
        hw_timestamp_ms=own_timestamp_ms(record),
        hw_replayed_from=str(record.place),
    )


def error_headers(error_class: str, error: str) -> dict[str, str]:
    """The error in one line, cut off where it is long."""
    line = " ".join(error.split())
    return {
        "hw_error_class": error_class,
        "hw_error": line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…",
    }


def time_ms(record: Record) -> int:
    """When the record came where it is: one that was delivered has its own timestamp again."""
    if level_of(record.topic) is not None or record.header(TIMESTAMP_MS) is not None:
        return record.timestamp_ms
    try:
        return whole_number(record, DUE_MS) or record.timestamp_ms
    except ValueError:
        return record.timestamp_ms


def own_timestamp_ms(record: Record) -> int:
    """The timestamp that the record had before it waited."""
    try:
        return whole_number(record, TIMESTAMP_MS) or record.timestamp_ms
    except ValueError:
        return record.timestamp_ms
