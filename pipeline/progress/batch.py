"""The micro-batch in a sink's hands, and the progress that a sink stores with its rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.common.typed_json import parse_json
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.kafka.offsets import Offsets

SCHEMA_VERSION: Final = 1
"""The version of what is stored. A sink refuses the progress of another version."""


class ProgressError(PipelineError):
    """The stored progress and this batch do not fit together, or the progress cannot be read."""


@dataclass(frozen=True)
class BatchOf:
    """A micro-batch of a query. Offsets stand in the order of the query's sources, empty for one without topics.

    start_offsets: None where they are not known.
    run_id: changes with each start of the query; empty where it is not known.
    """

    query_id: str
    batch_id: int
    end_offsets: tuple[Offsets, ...]
    start_offsets: tuple[Offsets, ...] | None = None
    run_id: str = ""


@dataclass(frozen=True)
class Progress:
    """What a sink stores in the same transaction as the rows: up to where its rows reach.

    target: what the rows are written to, such as a table; two sinks with one name differ in it.
    """

    query_id: str
    batch_id: int
    end_offsets: tuple[Offsets, ...]
    target: str = ""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def after(cls, batch: BatchOf, target: str = "") -> Progress:
        """What is stored when this batch is written."""
        return cls(batch.query_id, batch.batch_id, batch.end_offsets, target)


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """The form in which markers and files store it. Databases have a column for each field."""
    return {
        "version": progress.schema_version,
        "query": progress.query_id,
        "batch": progress.batch_id,
        "target": progress.target,
        "ends": [each.to_json_object() for each in progress.end_offsets],
    }


def progress_from_json(fields: Any) -> Progress:
    """What `progress_to_json` returned. Raises ProgressError."""
    try:
        ends = offsets_from_text(json.dumps(fields["ends"]))
        return Progress(str(fields["query"]), int(fields["batch"]), ends, str(fields["target"]), int(fields["version"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ProgressError(f"the stored progress is damaged: {type(error).__name__}") from None


def offsets_to_text(sources: Sequence[Offsets]) -> str:
    """`[{"orders":{"0":123},"#ids":{…}}]`: an object for each source of the query."""
    return json.dumps([each.to_json_object() for each in sources], separators=(",", ":"))


def offsets_of_source(text: str) -> Offsets:
    """Offsets of topics as a source wrote them, Spark's own connector too; none for a source of another kind."""
    try:
        return Offsets.from_text(text)
    except SettingsError:
        return Offsets({})


def offsets_from_text(text: str) -> tuple[Offsets, ...]:
    """What `offsets_to_text` wrote. Raises ProgressError."""
    try:
        sources = parse_json(text)
        if not isinstance(sources, list):
            raise SettingsError("no list")
        return tuple(Offsets.from_json_object(each) for each in sources)
    except (ValueError, SettingsError) as error:
        raise ProgressError(f"the stored end offsets are damaged: {error}") from None
