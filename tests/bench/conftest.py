"""What every test of the harness needs: that the host it runs on is left as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.bench.runs import execution, runner
from highwater.bench.storage import page_cache
from highwater.results.canary import CanaryReading
from tests.this_machine import settings_as_they_are


@pytest.fixture(autouse=True)
def _host_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial of a test empties the page cache of this host, no run of a test keeps its disks and CPUs busy."""
    monkeypatch.setattr(page_cache, "drop_all", lambda _: "kept")
    monkeypatch.setattr(runner, "probe_targets", lambda *_: [])
    monkeypatch.setattr(execution, "restore_after_a_killed_run", lambda _: [])
    monkeypatch.setattr(runner, "take_canary", lambda _: CanaryReading(cpu_ns=1, memory_ns=1, loopback_ns=1))


@pytest.fixture
def host_settings_stay() -> Iterator[None]:
    """For runs in processes of their own, which a host profile of another test would keep from beginning."""
    with settings_as_they_are():
        yield
