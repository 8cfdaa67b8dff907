"""What a run would do, in words: sources with their offsets, steps, sinks, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from highwater.common.topic_partition import TopicPartition
from highwater.common.units import count_text, plural
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.kafka.model import EARLIEST, LATEST
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.resume import resume_offsets
from highwater.pipeline.run.model import TOPIC_FORMAT, Flow, Named, Pipeline, PythonFunction, Query, Source, Sql
from highwater.pipeline.run.sink_formats import FORMATS, target_of
from highwater.pipeline.run.storage import Storage, read_source_options
from highwater.pipeline.sink.options import read_sink_options
from highwater.pipeline.source.positions import Positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN_PARTITIONS: Final = 6


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """A partition: where its log begins, where the source begins, where the log ends now."""

    topic: str
    partition: int
    first: int
    start: int
    end: int


def topic_positions(source: Source) -> list[TopicPosition]:
    """Ask the brokers. Raises PipelineError that begins with file and line, such as for a topic that is missing."""
    options = read_source_options(source.options, is_stream=source.is_stream)
    try:
        with POOL.borrow(options.settings) as client:
            positions = Positions(client, options)
            there = positions.partitions(must_exist=True)
            first, end = positions.edge(EARLIEST, there.next), positions.edge(LATEST, there.next)
            starting = options.starting
            start: Mapping[TopicPartition, int] = first
            if options.resume_from:
                start = {**first, **resume_offsets(options.resume_from, client).next}
            elif starting is not EARLIEST:
                start = positions.starting().next
    except PipelineError as error:
        # The class stays: it says whether a topic is missing, a broker is down or records are gone.
        error.args = (f"{source.origin}: sources.{source.name}: {error}",)
        raise
    return [TopicPosition(*of, first[of], start[of], end[of]) for of in sorted(there.next)]


def check_topics(pipeline: Pipeline, flow: Flow, used: Sequence[str]) -> None:
    """Raises PipelineError if a topic that the flow reads or writes is not there, before anything starts."""
    for name in used:
        if name in pipeline.sources and pipeline.sources[name].format == TOPIC_FORMAT:
            topic_positions(pipeline.sources[name])
    if flow.sink.format == TOPIC_FORMAT:
        settings = read_sink_options(flow.sink.options).settings
        name, where = flow.sink.options["topic"], f"{flow.sink.origin}: flows.{flow.name}.sink"
        with POOL.borrow(settings) as client:
            if client.needed_topics({name})[name].error is not None:
                raise SettingsError(f"{where}: topic {name} does not exist; create it first")


def lines_of_flow(
    pipeline: Pipeline, flow: Flow, frame: DataFrame, used: Sequence[str], storage: Storage | None
) -> Iterator[str]:
    """The plan of one flow, a line for each thing."""
    yield f"flow {flow.name}: trigger {flow.trigger}, output mode {flow.output_mode}"
    for name in used:
        if name in pipeline.sources:
            yield f"  reads       {name}: {_source_text(pipeline.sources[name])}"
    for name in used:
        if name in pipeline.views:
            yield f"  view        {name}: {_query_text(pipeline.views[name].query)}"
    yield f"  query       {_query_text(flow.query)}"
    yield f"  columns     {', '.join(f'{each.name} {each.dataType.simpleString()}' for each in frame.schema)}"
    yield f"  writes      {target_of(flow.sink.format, flow.sink.options)}"
    yield f"  delivery    {FORMATS[flow.sink.format].delivery(flow.sink.options)}"
    yield f"  checkpoint  {_checkpoint_text(flow, storage)}"


def _source_text(source: Source) -> str:
    kind = "stream" if source.is_stream else "batch"
    if source.format != TOPIC_FORMAT:
        return f"{kind} of {source.format}{' ' + source.path if source.path else ''}"
    positions = topic_positions(source)
    topics = ", ".join(sorted({each.topic for each in positions}))
    left = sum(each.end - each.start for each in positions)
    shown = ", ".join(
        f"{each.topic}-{each.partition} {each.start} to {each.end}" for each in positions[:_SHOWN_PARTITIONS]
    )
    more = f", and {len(positions) - _SHOWN_PARTITIONS} more" if len(positions) > _SHOWN_PARTITIONS else ""
    count = plural(len(positions), "partition")
    return f"{kind} of {topics}, {count}, {count_text(left)} offsets from its start ({shown}{more})"


def _query_text(query: Query) -> str:
    match query:
        case Named(name):
            return f"{name} as it is"
        case Sql(text):
            return " ".join(text.split())
        case PythonFunction(file, function):
            return f"{file.name}:{function}"


def _checkpoint_text(flow: Flow, storage: Storage | None) -> str:
    if storage is None:
        return "none after the run: this is a trial"
    folder = storage.checkpoint(flow.name)
    progress = storage.progress_of(flow.name)
    if progress is None:
        return f"{folder}: new"
    batch, positions = progress
    places = [place for each in positions for place in _places(each)]
    return f"{folder}: goes on after batch {batch}{' at ' if places else ''}{', '.join(places[:_SHOWN_PARTITIONS])}"


def _places(offsets: Mapping[str, Mapping[str, object]]) -> list[str]:
    return [
        f"{topic}-{partition} {offset}"
        for topic, partitions in offsets.items()
        if not topic.startswith("#")
        for partition, offset in partitions.items()
    ]


def check_a_stream(flow: Flow, frame: DataFrame) -> None:
    """Raises SettingsError for a flow that reads no stream: it would have neither batches nor a checkpoint."""
    if not frame.isStreaming:
        raise SettingsError(
            f"{flow.origin}: flows.{flow.name}: reads no stream; set 'read: stream' on one of its sources: with the "
            "trigger availableNow it ends when all is read"
        )
