"""kill -9 of a run with a real broker and real load processes: nothing survives it, and the run is gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from highwater.bench.verify import disagreements
from highwater.results.reader import RunResult
from tests.bench.test_real_broker import TINY
from tests.processes import words_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("host_settings_stay"), pytest.mark.slow]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run of two cells, in the load of its second trial."""
    text = TINY.replace("[lz4]", "[lz4, none]").replace("seed: 7", "seed: 7, a_a: false")
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(_command(tmp_path, "--out"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        manifest_path = tmp_path / "out" / "manifest.json"
        _await(lambda: manifest_path.is_file() and _statuses(tmp_path) == ["done", "running"], process)
        _await(lambda: len(_load_processes(process.pid)) >= 2, process)
        yield process
    finally:
        process.kill()
        process.wait()


def _command(directory: Path, option: str) -> list[str]:
    highwater = [sys.executable, "-m", "highwater", "bench", "run", str(directory / "w.yaml")]
    return [*highwater, option, str(directory / "out"), "--launcher", "process", "--storage", f"d={directory / 'data'}"]


def _statuses(directory: Path) -> list[str]:
    return [trial.status for trial in RunResult(directory / "out").manifest.trials]


def _load_processes(process_id: int) -> list[psutil.Process]:
    children = psutil.Process(process_id).children(recursive=True)
    return [child for child in children if (words := words_of(child)) and "broker" not in words]


def _await(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    def holds() -> bool:
        assert process.poll() is None, "the run ended by itself"
        return condition()

    wait_until(holds, "that moment of the run", 180)


def test_a_run_that_was_killed(run: subprocess.Popen[bytes], tmp_path: Path) -> None:
    children = psutil.Process(run.pid).children(recursive=True)
    assert children
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == [], "broker and load processes end with their run"
    first = tmp_path / "out" / "trials" / RunResult(tmp_path / "out").manifest.trials[0].trial_id
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}

    again = subprocess.run(_command(tmp_path, "--resume"), capture_output=True, text=True, check=False, timeout=300)
    assert again.returncode == 0, again.stderr
    assert _statuses(tmp_path) == ["done", "done"]
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before
    assert list(disagreements(RunResult(tmp_path / "out"))) == []
