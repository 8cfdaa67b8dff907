"""Random histories: none lost, none twice, none early, order per key; and the checker notices what is removed."""

from __future__ import annotations

import pytest

from highwater.pipeline.messaging import moving, retrying
from tests.pipeline.messaging.history import BrokenPromiseError, Counts, History


def totals(seeds: range, *, by_key: bool) -> Counts:
    histories = [History(seed, by_key=by_key).run() for seed in seeds]
    return Counts(*map(sum, zip(*histories, strict=True)))


@pytest.mark.parametrize("by_key", [False, True])
def test_histories(by_key: bool) -> None:
    seen = totals(range(100), by_key=by_key)
    assert seen.crashes > 300
    assert seen.failures > 300
    assert seen.dead > 50
    assert (seen.parked > 50) == by_key
    assert (seen.moves > 300) != by_key


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("by_key", [False, True])
def test_many_histories(by_key: bool) -> None:
    """`python -m tests.pipeline.messaging.history --histories 10000` runs more."""
    assert totals(range(1000, 3000), by_key=by_key).records > 20_000


def breaks(*, by_key: bool) -> bool:
    try:
        totals(range(200), by_key=by_key)
    except BrokenPromiseError:
        return True
    return False


def test_a_key_that_does_not_wait_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying.Retrying, "take", lambda _, record, now_ms: retrying.Work(record, 0))
    assert breaks(by_key=True)


def test_parked_records_that_are_forgotten_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying.Retrying, "_restore", lambda _, parked: None)
    assert breaks(by_key=True)


def test_a_move_before_its_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    due_ms = moving.due_ms
    monkeypatch.setattr(moving, "due_ms", lambda record: due_ms(record) - 400)
    assert breaks(by_key=False)
