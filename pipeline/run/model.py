"""A pipeline as its file describes it, in the words of Spark's declarative pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOPIC_FORMAT: Final = "highwater"
DATABASE_FORMAT: Final = "database"
PARQUET_FORMAT: Final = "parquet"
DELTA_FORMAT: Final = "delta"
ICEBERG_FORMAT: Final = "iceberg"
AVAILABLE_NOW: Final = "availableNow"
"""The trigger that reads what is there, in as many micro-batches as the limits ask for, and ends."""


@dataclass(frozen=True, slots=True)
class Sql:
    """text: a query that names sources and views as tables."""

    text: str


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of a file. Its parameters are the sources and views that it takes; it returns a DataFrame."""

    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class Named:
    """A source or a view as it is."""

    name: str


Query = Sql | PythonFunction | Named


@dataclass(frozen=True, slots=True)
class Source:
    """origin: `file:line`, for messages. options: with the cluster's settings, and values of the environment."""

    name: str
    origin: str
    format: str
    is_stream: bool
    options: Mapping[str, str]
    path: str
    schema: str


@dataclass(frozen=True, slots=True)
class View:
    name: str
    origin: str
    query: Query


@dataclass(frozen=True, slots=True)
class SinkSettings:
    format: str
    origin: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Flow:
    """One streaming query. trigger: AVAILABLE_NOW, or an interval such as `10 seconds`. output_mode: as Spark's."""

    name: str
    origin: str
    query: Query
    sink: SinkSettings
    output_mode: str
    trigger: str


@dataclass(frozen=True, slots=True)
class SampleTopic:
    """records: a file with a record on each line; None for an empty topic."""

    name: str
    partitions: int
    records: Path | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """storage: where checkpoints are; None in a trial, which keeps nothing. trial: topics of a broker of its own."""

    name: str
    origin: str
    storage: Path | None
    configuration: Mapping[str, str]
    trial: tuple[SampleTopic, ...]
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    flows: Mapping[str, Flow]
