"""What the commands of messaging share: errors in one line, records as rows and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from highwater.admin.terminal import CommandError, UsageError, bytes_text, json_bytes, reporting, time_text
from highwater.common.units import shortened
from highwater.pipeline.errors import ClientError, PipelineError, SettingsError
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.filter import FilterError
from highwater.pipeline.messaging.record import Record

WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Select only records for which this is true: RocketMQ's SQL92 filter over headers, key, value, topic, "
        "partition, offset and timestamp. "
        "Example: \"hw-disposition = 'exhausted' AND timestamp >= '2026-01-31T12:00:00Z'\".",
        show_default=False,
    ),
]
_USAGE: Final = (ClientError, FilterError, SettingsError)


@contextmanager
def reporting_all() -> Iterator[None]:
    """Do what `reporting` does, with the errors of this room too."""
    with reporting():
        try:
            yield
        except _USAGE as error:
            raise UsageError(str(error)) from None
        except PipelineError as error:
            raise CommandError(str(error)) from None


def json_of(record: Record) -> dict[str, Any]:
    """A record in the form of `broker consume --json`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"key": name} | json_bytes("value", value) for name, value in record.headers],
    }


def row_of(record: Record) -> tuple[object, ...]:
    """Place, time, key, value, disposition, attempts, error."""
    error = ": ".join(filter(None, (record.text(headers.ERROR_CLASS), record.text(headers.ERROR))))
    return (
        str(record.place),
        time_text(record.timestamp_ms),
        bytes_text(record.key),
        shortened(bytes_text(record.value), 60),
        record.text(headers.DISPOSITION),
        record.text(headers.ATTEMPT),
        shortened(error, 120),
    )


ROW_COLUMNS: Final = ("Record", "Time", "Key", "Value", "Disposition", "Attempts", "Error")
