"""What keeps a comparison with killed live figures from claiming a kill that was none, or a load without records."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.bench.development import telemetry_a_a


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_a_a, "_WARMUP_S", 0)
    monkeypatch.setattr(telemetry_a_a, "_LOOK_S", 0.01)


def run(ended: int | None) -> Any:
    return SimpleNamespace(poll=lambda: ended)


def test_a_load_that_ends_unseen_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_a_a, "_publishes", lambda _: False)
    assert not telemetry_a_a._kill("a:1", [], 2, run(0))


@pytest.mark.parametrize("ended", [None, 0])
def test_a_kill_counts_if_the_load_goes_on(monkeypatch: pytest.MonkeyPatch, ended: int | None) -> None:
    monkeypatch.setattr(telemetry_a_a, "_publishes", lambda _: True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as broker:
        assert telemetry_a_a._kill("a:1", [broker], 2, run(ended)) == (ended is None)
        assert broker.wait(60) == -signal.SIGKILL


def test_a_load_that_sent_nothing_is_a_fault() -> None:
    delivery = SimpleNamespace(lost=0, failed=0, duplicated=0, sent=0)
    summary: Any = SimpleNamespace(delivery=delivery, verdict=SimpleNamespace(state="valid"))
    assert telemetry_a_a._faults(summary) == ["no record sent"]
