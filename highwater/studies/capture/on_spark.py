"""A capture as a job on Spark: each task reads a share, and executors add up their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from highwater.common.errors import UsageError
from highwater.common.spark_errors import reason_of
from highwater.common.topic_partition import TopicPartition
from highwater.pipeline.errors import PipelineError
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.settings import settings_of
from highwater.spark_loadgen.compression import compressions
from highwater.studies.capture.counts import SpanError
from highwater.studies.capture.log_files import read_folders, size_of
from highwater.studies.capture.observing import Window
from highwater.studies.capture.settings import CaptureSettings
from highwater.studies.capture.shares import shares_by_size, shares_of_windows
from highwater.studies.capture.statistics import Statistics
from highwater.studies.capture.topic import TopicRange, TopicReader

if TYPE_CHECKING:
    from pyspark import SparkContext

Share = TypeVar("Share")
_Outcome = Statistics | str
"""What a task found, or the one line that says why it cannot be read."""


StartSpark: TypeAlias = Callable[[], "AbstractContextManager[SparkContext]"]
"""Starts Java, which takes seconds: called once it is known that there is something to read."""


def topic_on_spark(
    start: StartSpark, options: Mapping[str, str], wanted: TopicRange, settings: CaptureSettings
) -> Statistics:
    """Read a range of a topic. options: of the source `highwater`. Raises UsageError, ClientError."""
    with Client(settings_of(options)) as client:
        windows = TopicReader(client, wanted, settings.statistics(), {}, settings.limit_of_one(1)).windows()
    with start() as context:
        shares = shares_of_windows(windows, context.defaultParallelism)
        return _added(context, shares, partial(_read_topic, dict(options), wanted, settings, len(shares)))


def files_on_spark(
    start: StartSpark, topic: str, folders: Mapping[int, Path], window: Window, settings: CaptureSettings
) -> Statistics:
    """Read folders of partitions, which executors find at the same paths. Raises UsageError, OSError."""
    # Executors have working directories of their own.
    sizes = {(partition, folder.absolute()): size_of(folder) for partition, folder in folders.items()}
    with start() as context:
        shares = shares_by_size(sizes, context.defaultParallelism)
        return _added(context, shares, partial(_read_files, topic, window, settings, len(shares)))


def _read_topic(
    options: dict[str, str],
    wanted: TopicRange,
    settings: CaptureSettings,
    tasks: int,
    share: Sequence[tuple[TopicPartition, Window]],
) -> Statistics:
    with Client(settings_of(options)) as client:
        reader = TopicReader(client, wanted, settings.statistics(), compressions(), settings.limit_of_one(tasks))
        for of, window in share:
            reader.read_windows({of: window})
        return reader.statistics


def _read_files(
    topic: str, window: Window, settings: CaptureSettings, tasks: int, share: Sequence[tuple[int, Path]]
) -> Statistics:
    statistics = settings.statistics()
    read_folders(topic, dict(share), statistics, window, compressions(), settings.limit_of_one(tasks))
    return statistics


def _added(context: SparkContext, shares: Sequence[Share], read: Callable[[Share], Statistics]) -> Statistics:
    """Raises UsageError with the line of a task that could not read its share."""

    def outcomes(numbered: Iterable[Share]) -> Iterator[_Outcome]:
        for share in numbered:
            yield _outcome(partial(read, share))

    try:
        found = context.parallelize(shares, len(shares)).mapPartitions(outcomes).treeReduce(_sum)
    except Exception as error:
        raise UsageError(f"a task of the capture died: {reason_of(error)}") from error
    if isinstance(found, str):
        raise UsageError(found)
    return found


def _outcome(make: Callable[[], Statistics]) -> _Outcome:
    # A value and no exception: Spark runs a task that failed three times more, and reports pages of stack traces.
    try:
        return make()
    except (PipelineError, UsageError, SpanError) as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _sum(one: _Outcome, other: _Outcome) -> _Outcome:
    if isinstance(one, str):
        return one
    if isinstance(other, str):
        return other
    return _outcome(partial(_merged, one, other))


def _merged(one: Statistics, other: Statistics) -> Statistics:
    one.merge(other)
    return one
