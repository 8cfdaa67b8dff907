"""How far a stream is behind, from the progress of its query."""

from __future__ import annotations

import json

from highwater.pipeline.source.lag import OffsetsBehind, offsets_behind_latest

LATEST = {"t": {"0": 10, "1": 7, "2": 5}, "#ids": {"t": "some-id"}, "#commits": {"socket": "s"}}
END = {"t": {"0": 4, "1": 7}, "#ids": {"t": "some-id"}}


def test_partitions_are_counted_over_all() -> None:
    assert offsets_behind_latest({"latestOffset": json.dumps(LATEST), "endOffset": json.dumps(END)}) == OffsetsBehind(
        0, 11 / 3, 6
    )
    assert offsets_behind_latest({"latestOffset": LATEST, "endOffset": END}) == OffsetsBehind(0, 11 / 3, 6)


def test_without_offsets_nothing_is_known() -> None:
    assert offsets_behind_latest({"latestOffset": None, "endOffset": json.dumps(END)}) is None
    assert offsets_behind_latest({"endOffset": "{}", "latestOffset": "{}"}) is None
