from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.bench.storage import log_files, page_cache
from highwater.bench.storage.log_files import log_state, segments


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for folder in ("0/run-1-0", "1/run-1-1", "1/run-12-0", "1/other-0", "1/run-1-x"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "00000000000000000000.log").write_bytes(bytes(3 << 20))
        (tmp_path / folder / "00000000000000000000.index").write_bytes(b"")
    return tmp_path


def test_segments_are_those_of_the_topics(log: Path) -> None:
    found = [path.parent.relative_to(log).as_posix() for path in segments([log], ["run-1"])]
    assert found == ["0/run-1-0", "1/run-1-1"]


def test_what_is_left_is_written_out(log: Path) -> None:
    state = log_state([log], ["run-1"], flush=True)
    assert state is not None
    assert state.log_bytes == 6 << 20
    assert state.cache.resident_bytes == 6 << 20
    again = log_state([log], ["run-1"], flush=True)
    assert again is not None
    if state.cache.method == "cachestat":
        assert again.cache.unwritten_bytes == 0
        assert again.flush_s is None
        if state.cache.unwritten_bytes:  # unless the kernel was faster
            assert state.flush_complete


def test_writing_out_ends_when_its_time_is_up(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "FLUSH_WITHIN_S", 0.0)
    monkeypatch.setattr(log_files, "cache_state", lambda paths: page_cache.CacheState("cachestat", 0, 1))
    state = log_state([log], ["run-1"], flush=True)
    assert state is not None
    assert state.flush_complete is False


def test_another_layout_is_not_spoken_of(tmp_path: Path) -> None:
    assert log_state([tmp_path], ["run-1"], flush=True) is None


def test_without_cachestat_mincore_tells_what_is_resident(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.common.cachestat._CACHESTAT", 100_000)
    state = log_state([log], ["run-1"], flush=True)
    assert state is not None
    assert (state.cache.method, state.cache.unwritten_bytes, state.flush_s) == ("mincore", None, None)
    assert state.cache.resident_bytes == 6 << 20


def test_a_file_system_with_nothing_left_is_full(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for free_bytes in (1 << 30, 1 << 20):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free_bytes: SimpleNamespace(free=free))
        state = log_state([log], ["run-1"], flush=False)
        assert state is not None
        found.append((state.free_bytes, state.disk_full))
    assert found == [(1 << 30, False), (1 << 20, True)]
