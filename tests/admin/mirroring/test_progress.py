from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.admin.mirroring.progress import (
    DamagedProgress,
    Progress,
    Run,
    decode,
    decode_key,
    encode,
    encode_key,
    lag,
)


def test_records_side_by_side_are_one_run() -> None:
    progress = Progress("id")
    for offset in range(5):
        progress.copied(offset, offset + 100)
    assert progress.runs == [Run(0, 100, 5)]
    assert progress.source_offset == 5


def test_a_hole_in_either_begins_a_run() -> None:
    progress = Progress("id")
    for source_offset, target_offset in ((0, 0), (1, 1), (3, 2), (4, 4)):
        progress.copied(source_offset, target_offset)
    assert progress.runs == [Run(0, 0, 2), Run(3, 2, 1), Run(4, 4, 1)]


@pytest.mark.parametrize(
    ("source_offset", "translated"),
    [(0, 10), (1, 11), (2, 12), (3, 12), (4, 12), (5, 20), (6, 21), (99, 21)],
)
def test_a_group_goes_on_at_the_first_record_it_has_not_read(source_offset: int, translated: int) -> None:
    progress = Progress("id", 6, [Run(0, 10, 2), Run(4, 12, 0), Run(5, 20, 1)])
    assert progress.translate(source_offset) == translated


def test_nothing_is_translated_before_something_is_copied() -> None:
    assert Progress("id", 7).translate(7) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=600),
    st.integers(0, 2000),
)
def test_no_record_is_skipped_however_much_was_thinned_out(steps: list[tuple[int, int]], group_offset: int) -> None:
    progress = Progress("id", 0)
    pairs = []
    source_offset = target_offset = 0
    for source_step, target_step in steps:
        progress.copied(source_offset, target_offset)
        progress.thin_out()
        pairs.append((source_offset, target_offset))
        source_offset += source_step
        target_offset += target_step
    translated = progress.translate(group_offset)
    assert translated is not None
    unread = [target for source, target in pairs if source >= group_offset]
    assert not unread or translated <= unread[0]
    assert len(progress.runs) <= 128


def test_progress_survives_its_own_record() -> None:
    progress = Progress("id", 7, [Run(0, 10, 2), Run(5, 20, 2)])
    assert decode(encode(progress)) == progress
    assert decode_key(encode_key("orders", 3)) == ("orders", 3)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"version":2}', b'{"version":1,"runs":3}', b"[" * 100_000])
def test_a_record_of_somebody_else_is_told(value: bytes) -> None:
    with pytest.raises(DamagedProgress):
        decode(value)


def test_lag_counts_from_where_the_source_still_has_records() -> None:
    assert lag(None, (10, 30)) == 20
    assert lag(Progress("id", 5), (10, 30)) == 20
    assert lag(Progress("id", 25), (10, 30)) == 5
    assert lag(Progress("id", 40), (10, 30)) == 0
