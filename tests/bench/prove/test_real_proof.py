"""A real proof on this very host, killed while a setting is in force: the host comes back, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.bench.test_real_broker import TINY
from tests.this_machine import settings_alone
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SETTING = Path("/proc/sys/vm/dirty_writeback_centisecs")
HIGHWATER = [sys.executable, "-m", "highwater"]


@pytest.fixture
def before() -> Iterator[str]:
    """The flusher's interval; put back should the test fail to."""
    if not os.access(SETTING, os.W_OK):
        pytest.skip(
            f"a proof writes to {SETTING}, and here that is not permitted (not root, or /proc/sys is read-only)"
        )
    with settings_alone():
        text = SETTING.read_text().strip()
        yield text
        if SETTING.read_text().strip() != text:
            SETTING.write_text(text)


@pytest.fixture
def proof(tmp_path: Path, before: str) -> Iterator[subprocess.Popen[bytes]]:
    load = tmp_path / "load.yaml"
    load.write_text("".join(line for line in TINY.splitlines(keepends=True) if not line.startswith("matrix")))
    (tmp_path / "data").mkdir()
    knob = f"vm.dirty_writeback_centisecs={int(before) + 7}:{int(before) + 9}"
    places = ["--workload", load, "--out", tmp_path / "out", "--data-dir", tmp_path / "data"]
    command = [*HIGHWATER, "tune", "prove", knob, *map(str, places)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_proof_that_is_killed_leaves_a_way_back(proof: subprocess.Popen[bytes], before: str, tmp_path: Path) -> None:
    def is_at_work() -> bool:
        assert proof.poll() is None, "the proof ended by itself"
        return SETTING.read_text().strip() != before and bool(psutil.Process(proof.pid).children(recursive=True))

    wait_until(is_at_work, "a changed setting, and a broker", 180)
    children = psutil.Process(proof.pid).children(recursive=True)
    os.kill(proof.pid, signal.SIGKILL)
    proof.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == [], "broker and load processes end with their run"

    # Unless another run began on this host just now, which takes it back as well.
    back = subprocess.run(
        [*HIGHWATER, "tune", "rollback", "--yes"], capture_output=True, text=True, check=False, timeout=120
    )
    assert back.returncode == 0, back.stderr
    assert SETTING.read_text().strip() == before
    again = subprocess.run(
        [*HIGHWATER, "tune", "rollback", "--yes"], capture_output=True, text=True, check=False, timeout=120
    )
    assert again.returncode == 0, again.stderr
    assert list((tmp_path / "data").iterdir()) != [], "the next run on this target removes what the killed one left"
