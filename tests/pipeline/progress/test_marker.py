"""The marker of a group: what is committed gives the same progress back, in one piece and in several."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.kafka.model import CommittedOffset
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.progress.marker import from_marker, to_marker

METADATA_MAX = 4096
SMALL = Progress("query", 7, (Offsets({("orders", 0): 12}, {"orders": "id"}), Offsets({})), "results")


def large(batch_id: int, partitions: int = 2000) -> Progress:
    source = random.Random(batch_id)
    ends = {("orders", number): source.randrange(1 << 40) for number in range(partitions)}
    return Progress("query", batch_id, (Offsets(ends),), "results")


def test_a_small_one_can_be_read_by_people() -> None:
    marker = to_marker(SMALL, "results", 3)
    assert list(marker) == [("results", 0)]
    assert marker["results", 0].offset == 7
    assert '"ends":[{"orders":{"0":12},"#ids":{"orders":"id"}},{}]' in marker["results", 0].metadata
    assert from_marker({**marker, ("orders", 0): CommittedOffset(12, "of another")}) == SMALL


def test_a_large_one_takes_several_partitions() -> None:
    marker = to_marker(large(1), "results", 20)
    assert len(marker) > 2
    assert all(len(each.metadata) <= METADATA_MAX for each in marker.values())
    assert from_marker(marker) == large(1)


def test_pieces_that_an_earlier_marker_left_do_not_count() -> None:
    assert from_marker({**to_marker(large(1), "results", 20), **to_marker(SMALL, "results", 20)}) == SMALL


@given(st.dictionaries(st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 900)), st.integers(0, 1 << 62)))
def test_every_progress_comes_back(ends: dict[tuple[str, int], int]) -> None:
    progress = Progress("query", 0, (Offsets(ends),))
    assert from_marker(to_marker(progress, "results", 100)) == progress


def test_none_is_none() -> None:
    assert from_marker({}) is None
    assert from_marker({("orders", 0): CommittedOffset(5, "")}) is None


def test_too_few_partitions_are_refused() -> None:
    with pytest.raises(ProgressError, match="topic results has 1 partitions, and the end offsets of this query need"):
        to_marker(large(1), "results", 1)


def test_what_is_damaged_is_said() -> None:
    marker = to_marker(large(1), "results", 20)
    del marker["results", 1]
    with pytest.raises(ProgressError, match="the marker at results-0 is damaged"):
        from_marker(marker)
    cut = dataclasses.replace(to_marker(SMALL, "results", 1)["results", 0], metadata="highwater marker 1/1 {")
    with pytest.raises(ProgressError, match="damaged"):
        from_marker({("results", 0): cut})


def test_two_sinks_with_one_group_are_said() -> None:
    with pytest.raises(ProgressError, match="two sinks keep their markers in one group, for other and results"):
        from_marker({**to_marker(SMALL, "results", 1), **to_marker(SMALL, "other", 1)})
