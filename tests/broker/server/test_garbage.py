"""Tests that a full garbage collection waits for the end of long requests."""

from __future__ import annotations

import gc

import pytest

from highwater.broker.server import garbage
from highwater.broker.turns import Turns
from highwater.kafka.pacing import give_way
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock


def test_a_full_collection_waits_for_the_end_of_a_long_request(monkeypatch: pytest.MonkeyPatch) -> None:
    full: list[str] = []
    counts = (0, 0, 20)
    monkeypatch.setattr(gc, "collect", lambda: full.append("full"))
    monkeypatch.setattr(gc, "get_count", lambda: counts)
    monkeypatch.setattr("highwater.broker.turns.SLICE_NS", 0)
    scheduler = ManualScheduler()
    turns = Turns(ManualClock(), scheduler)
    turns.run(give_way, object())
    garbage.collect_if_due(turns)
    assert not full, "the request rests, and is not at its end"
    scheduler.run()
    garbage.collect_if_due(turns)
    assert full == ["full"]
    turns.run(give_way, object())
    counts = (0, 0, 1000)
    garbage.collect_if_due(turns)
    assert full == ["full", "full"], "long requests without an end may not put it off for ever"
