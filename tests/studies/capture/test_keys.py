"""Counting keys without their names, exactly and beyond what is counted one by one."""

from __future__ import annotations

import random

import pytest

from highwater.studies.capture import keys as module
from highwater.studies.capture.keys import KeyCounts, KeyRow
from tests.studies.capture.logs import SALT


def test_counts_are_exact_and_ranked() -> None:
    counts = KeyCounts(SALT)
    counts.add([b"a"] * 5 + [b"bb"] * 3 + [b"cc"] * 3, 0)
    counts.add([b"a"], 1)
    assert counts.rows() == [KeyRow(6, 1, 0, 1), KeyRow(3, 2, 0, 2)]
    assert (counts.distinct, counts.moved, counts.dropped_count_max) == (3, 1, 0)


def test_more_keys_than_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS_MAX", 2000)
    chosen = random.Random(1)
    keys = [b"%d" % min(49_999, int(chosen.paretovariate(0.4))) for _ in range(100_000)]
    counts = KeyCounts(SALT)
    for start in range(0, len(keys), 5000):
        counts.add(keys[start : start + 5000], 0)
    assert len(counts.known) <= 2000
    assert counts.distinct == pytest.approx(len(set(keys)), rel=0.08)
    rows = counts.rows()
    assert sum(row.count * row.keys for row in rows) == pytest.approx(len(keys), rel=0.02)
    assert rows[0].count == pytest.approx(max(keys.count(key) for key in set(keys[:500])), abs=counts.dropped_count_max)


def test_another_salt_is_not_merged() -> None:
    with pytest.raises(ValueError, match="salts"):
        KeyCounts(SALT).merge(KeyCounts(b"1" * 32))


def test_nothing_prints_a_salt_or_a_hash() -> None:
    counts = KeyCounts(b"secret-salt-of-a-capture-32bytes")
    counts.add([b"a"], 0)
    assert "secret" not in repr(counts)
    assert "known" not in repr(counts)
