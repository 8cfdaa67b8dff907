"""What the tasks of a capture read, and that their statistics are those of one reader."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from highwater.studies.capture.observing import Window
from highwater.studies.capture.shares import shares_by_size, shares_of_windows
from highwater.studies.capture.summing import parts_of
from tests.studies.capture.logs import batch, new_statistics, observed, record


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 1000])
def test_shares_are_the_windows_and_as_large_as_each_other(count: int) -> None:
    windows = {"a": Window(5, 6), "b": Window(0, 100, 7, 9), "c": Window(1000, 1033), "d": Window(0, 1)}
    shares = shares_of_windows(windows, count)
    sizes = [sum(window.end_offset - window.start_offset for _, window in share) for share in shares]
    assert (sum(sizes), len(shares)) == (135, min(count, 135))
    assert max(sizes) - min(sizes) <= 1
    for name, window in windows.items():
        parts = [part for share in shares for of, part in share if of == name]
        assert [part.start_offset for part in parts[1:]] == [part.end_offset for part in parts[:-1]]
        assert (parts[0].start_offset, parts[-1].end_offset) == (window.start_offset, window.end_offset)
        assert [part.continues for part in parts] == [False] + [True] * (len(parts) - 1)
        assert {(part.start_ms, part.end_ms) for part in parts} == {(window.start_ms, window.end_ms)}


def test_shares_by_size() -> None:
    assert shares_by_size({"a": 5, "b": 9, "c": 3, "d": 1}, 2) == [["b"], ["a", "c", "d"]]
    assert shares_by_size({"a": 5}, 8) == [["a"]]


@pytest.mark.parametrize("seed", range(5))
def test_statistics_of_shares_add_up_to_those_of_the_whole(seed: int) -> None:
    """Batches reach over the borders of shares, and offsets between batches are empty."""
    chosen = random.Random(seed)
    batches: list[tuple[int, bytes]] = []
    offset = 0
    for number in range(60):
        offset += chosen.choice((0, 0, 0, 3, 11))
        records = [record(number * 10, b"k%d" % chosen.randrange(9)) for _ in range(chosen.randrange(1, 30))]
        batches.append((offset, batch(offset, records)))
        offset += len(records)
    window = Window(chosen.randrange(20), offset - chosen.randrange(20))

    def read(part: Window) -> bytes:
        """What fetches from the start of a range return, until an answer reaches its end."""
        inside = [data for base, data in batches if base < part.end_offset]
        beyond = [data for base, data in batches if base >= part.end_offset]
        return b"".join([*inside, *beyond[:1]])

    whole = observed(read(window), expected=window.start_offset, window=window)
    summed = new_statistics()
    for share in shares_of_windows({0: window}, 7):
        for _, part in share:
            summed.merge(observed(read(part), expected=part.start_offset, window=part))
    found, expected = parts_of(summed, "topic"), parts_of(whole, "topic")
    assert found[1].model_copy(update={"records": None}) == expected[1].model_copy(update={"records": None})
    assert found[2].tolist() == expected[2].tolist()
    assert Counter(summed.keys.rows()) == Counter(whole.keys.rows())
