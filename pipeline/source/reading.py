"""What a task does: reads one range of one partition as Arrow record batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.pipeline.crash_points import CrashPoint, reach
from highwater.pipeline.errors import DataLossError
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.kafka.reader import OffsetOutOfRangeError, OffsetRange, UnreadableError, read_range
from highwater.pipeline.registry.decoding import Decoder
from highwater.pipeline.source.options import Options

_GONE: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)


def read(wanted: OffsetRange, options: Options) -> Iterator[Any]:
    """Yield pyarrow.RecordBatches with the columns of the options.

    Raises DataLossError if the log begins after the range does, or the topic was deleted, unless failOnDataLoss=false:
    then what is there is read. Raises RecordsError, ClientError and UnreadableError.
    """
    try:
        yield from _rows(wanted, options)
    finally:
        keep_what_is_imported()


@cache
def keep_what_is_imported() -> None:
    """Spark's workers (daemon.py) collect garbage after each task: 19 ms of CPU time for what is imported alone.

    A query has three workers: one that makes the source, one that plans, and one that reads.
    """
    gc.freeze()


def _rows(wanted: OffsetRange, options: Options) -> Iterator[Any]:
    decoder = None if options.formats is None else Decoder(options.formats)
    with POOL.borrow(options.settings) as client:
        while wanted.start_offset < wanted.end_offset:
            try:
                for decoded in read_range(
                    client,
                    wanted,
                    columns=options.columns,
                    read_committed=options.read_committed,
                    fetch_bytes=options.fetch_bytes,
                    patience_ms=options.poll_timeout_ms,
                ):
                    part, wanted = wanted, wanted._replace(start_offset=decoded.next_offset)
                    reach(CrashPoint.SOURCE_READING)
                    if decoded.rows.num_rows:
                        yield decoded.rows if decoder is None else decoder.rows(decoded.rows, part)
            except OffsetOutOfRangeError as error:
                if options.fail_on_data_loss:
                    raise DataLossError(str(error)) from None
                # An offset beyond the end is of an earlier topic of this name: nothing of the range is left.
                first = error.log.log_start_offset
                wanted = wanted._replace(start_offset=first if first > error.offset else wanted.end_offset)
            except UnreadableError as error:
                if error.error.code not in _GONE:
                    raise
                if options.fail_on_data_loss:
                    raise DataLossError(f"{error}: the topic was deleted") from None
                return
