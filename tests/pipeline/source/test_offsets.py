"""The JSON of offsets, and what changes between two of them."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.source.offsets import ranges_between, read_assignment, recreated, unknown_starts, what_is_gone

A, B = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def offsets(topic_id: str | None = None, **partitions: dict[int, int]) -> Offsets:
    found = {(topic, number): offset for topic, each in partitions.items() for number, offset in each.items()}
    return Offsets(found, dict.fromkeys(partitions, topic_id) if topic_id else {})


def test_the_json_is_that_of_sparks_connector_with_ids_beside() -> None:
    given = Offsets({("t", 10): 3, ("t", 9): 2, ("a", 0): 1}, {"t": B, "a": A})
    text = json.dumps(given.to_json_object())
    assert text == f'{{"a": {{"0": 1}}, "t": {{"9": 2, "10": 3}}, "#ids": {{"a": "{A}", "t": "{B}"}}}}'
    assert Offsets.from_text(text) == given
    assert Offsets.from_text('{"t":{"0":5}}') == Offsets({("t", 0): 5})


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "{t}", '{"t":5}', '{"t":{"x":5}}', '{"t":{"0":"5"}}', '{"t":{"0":true}}']
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        Offsets.from_text(text)


def test_assignments() -> None:
    assert read_assignment('{"b":[1,0],"a":[2]}') == (("a", 2), ("b", 0), ("b", 1))
    for text in ("", "{}", '{"t":0}', '{"t":["0"]}', '{"t":[-1]}', '{"t":[]}'):
        with pytest.raises(SettingsError):
            read_assignment(text)


@pytest.mark.parametrize(
    ("before", "after", "first", "expected"),
    [
        pytest.param(offsets(t={0: 3}), offsets(t={0: 7}), {}, [(0, 3, 7)], id="goes on"),
        pytest.param(offsets(t={0: 3}), offsets(t={0: 3}), {}, [(0, 3, 3)], id="nothing new"),
        pytest.param(offsets(t={0: 3}), offsets(t={0: 3, 1: 9}), {1: 4}, [(0, 3, 3), (1, 4, 9)], id="a new partition"),
        pytest.param(offsets(t={0: 8}), offsets(t={0: 3}), {}, [(0, 3, 3)], id="never negative"),
        pytest.param(offsets(A, t={0: 8}), offsets(B, t={0: 9}), {0: 0}, [(0, 0, 9)], id="created again"),
        pytest.param(offsets(t={0: 8}), offsets(B, t={0: 9}), {}, [(0, 8, 9)], id="ids are new: brokers were upgraded"),
        pytest.param(offsets(A, t={0: 8, 1: 1}), offsets(A, t={0: 9}), {}, [(0, 8, 9)], id="a partition is gone"),
    ],
)
def test_ranges_between_offsets(
    before: Offsets, after: Offsets, first: dict[int, int], expected: list[tuple[int, int, int]]
) -> None:
    assert unknown_starts(before, after) == [("t", number) for number in first]
    topic_id = UUID(after.ids["t"]) if after.ids else None
    found = ranges_between(before, after, {("t", number): offset for number, offset in first.items()})
    assert found == [OffsetRange("t", number, start, end, topic_id) for number, start, end in expected]


def test_only_another_id_and_a_missing_partition_are_losses() -> None:
    before = offsets(A, t={0: 5})
    assert what_is_gone(before, offsets(A, t={0: 5, 1: 0})) is None
    assert what_is_gone(before, offsets(t={0: 5})) is None
    assert what_is_gone(Offsets({}), before) is None
    assert recreated(before, offsets(B, t={0: 5})) == {"t"}
    assert "t was deleted and created again" in str(what_is_gone(before, offsets(B, t={0: 5})))
    assert "t-0 is gone" in str(what_is_gone(before, Offsets({})))
