"""The rule of progress as a table: write, skip, and each refusal with its sentence."""

from __future__ import annotations

import dataclasses

import pytest

from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import BatchOf, Progress, ProgressError
from highwater.pipeline.progress.rule import Decision, decide


def at(*offsets: int, topic_id: str = "a", topic: str = "orders") -> tuple[Offsets, ...]:
    return (Offsets({(topic, number): offset for number, offset in enumerate(offsets)}, {topic: topic_id}),)


STORED = Progress("query", 5, at(100, 200), "results")
NEXT = BatchOf("query", 6, at(150, 200), at(100, 200))
REPLAY = BatchOf("query", 5, at(100, 200), at(50, 200))
RESUMED = BatchOf("another", 0, at(120, 210), at(100, 200))


@pytest.mark.parametrize(
    ("stored", "batch", "expected"),
    [
        (None, BatchOf("query", 0, at(1)), Decision.WRITE),
        (STORED, NEXT, Decision.WRITE),
        (STORED, dataclasses.replace(NEXT, start_offsets=None), Decision.WRITE),
        (STORED, dataclasses.replace(NEXT, end_offsets=at(100, 200)), Decision.WRITE),  # state that timed out
        (STORED, BatchOf("query", 6, at(150, 200, 7), at(100, 200, 0)), Decision.WRITE),  # a partition was added
        (STORED, BatchOf("query", 6, at(3, topic_id="b"), at(0, topic_id="b")), Decision.WRITE),  # failOnDataLoss=false
        (STORED, REPLAY, Decision.SKIP),
        (STORED, BatchOf("query", 3, at(20, 50), at(10, 20)), Decision.SKIP),  # an old driver with the same checkpoint
        (STORED, RESUMED, Decision.WRITE),
        (STORED, BatchOf("another", 0, at(120, 210, 5), at(100, 200, 0)), Decision.WRITE),
    ],
)
def test_what_is_written_and_what_is_skipped(stored: Progress | None, batch: BatchOf, expected: Decision) -> None:
    assert decide("sink", stored, batch, "results") is expected


@pytest.mark.parametrize(
    ("stored", "batch", "sentence"),
    [
        (dataclasses.replace(STORED, schema_version=7), NEXT, "schema version 7, and this Highwater writes 1"),
        (dataclasses.replace(STORED, target="others"), NEXT, "writes to others, and this one writes to results"),
        (STORED, dataclasses.replace(NEXT, start_offsets=at(100, 180)), "orders-1 at offset 180 and not 200"),
        (STORED, dataclasses.replace(NEXT, start_offsets=at(101, 200)), "orders-0 at offset 101 and not 100"),
        (STORED, BatchOf("query", 8, at(190, 230), at(160, 220)), "has stored batch 5, and this is batch 8"),
        (None, NEXT, "first_batch=6 says that the sink was added"),
        (STORED, dataclasses.replace(REPLAY, end_offsets=at(100, 201)), "orders-1 at offset 201 and not 200"),
        # An older checkpoint plans batches anew, with a partition or a topic that came in between.
        (STORED, dataclasses.replace(REPLAY, end_offsets=at(100, 200, 7)), "orders-2 at offset 7, of which nothing is"),
        (STORED, dataclasses.replace(REPLAY, end_offsets=at(9, 9, topic_id="b")), "orders-0 at offset 9, of which"),
        (STORED, BatchOf("query", 6, at(150, 200, 9), at(100, 200, 7)), "orders-2 at offset 7, of which nothing is"),
        (STORED, dataclasses.replace(RESUMED, start_offsets=at(0, 0)), "begins with orders-0 at offset 0 and not 100"),
        (STORED, dataclasses.replace(RESUMED, start_offsets=at(100)), "orders-1 without it"),
        (STORED, dataclasses.replace(RESUMED, start_offsets=None), "where it begins is not known"),
        (
            STORED,
            dataclasses.replace(RESUMED, start_offsets=at(100, 200, topic_id="b")),
            "orders-0 with a new topic of this name",
        ),
        (STORED, dataclasses.replace(RESUMED, start_offsets=(*at(100, 200), *at(1))), "2 sources and not 1"),
        (dataclasses.replace(STORED, end_offsets=(Offsets({}),)), RESUMED, "give the sink another name"),
    ],
)
def test_what_is_refused(stored: Progress | None, batch: BatchOf, sentence: str) -> None:
    with pytest.raises(ProgressError) as refused:
        decide("sink", stored, batch, "results")
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("sink sink: ")
    assert "\n" not in str(refused.value)


def test_a_sink_that_is_added_to_a_running_query() -> None:
    assert decide("sink", None, NEXT, first_batch=6) is Decision.WRITE
    assert decide("sink", STORED, NEXT, "results", first_batch=6) is Decision.WRITE
    with pytest.raises(ProgressError, match="first_batch=7"):
        decide("sink", None, dataclasses.replace(NEXT, batch_id=7), first_batch=6)
