"""A system that this run starts comes up, tells its troubles in one line, and never outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bench.errors import StoppedError, TrialError, UsageError
from bench.systems import ProcessSystem, start_system
from bench.workload import SystemUnderTest

READY = "print('ready: listening on 127.0.0.1:4711 (cluster x)', flush=True)"
WAIT = "import time; time.sleep(600)"


def program(*statements: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(statements)]


def nothing() -> None:
    """The user lets the run go on."""


def start(tmp_path: Path, *statements: str, checkpoint: Callable[[], None] = nothing) -> ProcessSystem:
    return ProcessSystem("fake", "0", program(*statements), tmp_path / "system.log", checkpoint)


def gone(pid: int) -> bool:
    deadline_s = time.monotonic() + 30
    while psutil.pid_exists(pid) and time.monotonic() < deadline_s:
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return not psutil.pid_exists(pid)


def test_it_is_ready_when_it_says_so_and_gone_after_the_context(tmp_path: Path) -> None:
    with start(tmp_path, "print('recovering')", READY, WAIT) as system:
        assert system.bootstrap_servers == "127.0.0.1:4711"
        assert system.problem() is None
        (pid,) = system.process_ids
        assert psutil.pid_exists(pid)
    assert gone(pid)
    assert "recovering" in (tmp_path / "system.log").read_text()


def test_it_is_stopped_when_the_trial_breaks(tmp_path: Path) -> None:
    system = start(tmp_path, READY, WAIT)
    with pytest.raises(RuntimeError), system:
        raise RuntimeError
    assert gone(system.process_ids[0])


def test_one_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.systems.STOPPED_WITHIN_S", 0.2)
    with start(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", READY, WAIT) as system:
        pass
    assert gone(system.process_ids[0])


def test_bad_input_to_the_system_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^the broker refuses to start: segment\.byte: unknown property$"):
        start(tmp_path, "import sys; sys.stderr.write('segment.byte: unknown property\\n'); sys.exit(2)")


def test_one_that_dies_before_it_is_ready_tells_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(
        TrialError, match=r"^the broker ended with exit code 7: no space left \(its output: .*system\.log"
    ):
        start(tmp_path, "import sys; print('no space left'); sys.exit(7)")


def test_one_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.systems.READY_WITHIN_S", 0.3)
    with pytest.raises(TrialError, match="was not ready within"):
        start(tmp_path, WAIT)
    assert not [child for child in psutil.Process().children() if WAIT in " ".join(child.cmdline())]


def test_the_user_can_stop_the_waiting(tmp_path: Path) -> None:
    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        start(tmp_path, WAIT, checkpoint=stop)


def test_one_that_dies_later_is_noticed(tmp_path: Path) -> None:
    with start(tmp_path, READY, WAIT) as system:
        os.kill(system.process_ids[0], signal.SIGKILL)
        deadline_s = time.monotonic() + 30
        while system.problem() is None and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert (system.problem() or "").startswith("the broker was killed by SIGKILL: ready: listening")


def test_it_dies_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of the run runs no clean-up of ours; the kernel does it."""
    run = subprocess.Popen(
        program(
            "import pathlib, time",
            "from bench.systems import ProcessSystem",
            f"command = {program(READY, WAIT)!r}",
            f"log_file = pathlib.Path({str(tmp_path / 'system.log')!r})",
            "system = ProcessSystem('fake', '0', command, log_file, lambda: None)",
            "print(system.process_ids[0], flush=True)",
            "time.sleep(600)",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    with run, run.stdout:
        pid = int(run.stdout.readline())
        assert psutil.pid_exists(pid)
        run.kill()
        run.wait()
    assert gone(pid)


def test_an_external_system_is_neither_started_nor_stopped(tmp_path: Path) -> None:
    wanted = SystemUnderTest(kind="external", bootstrap_servers="a:1,b:2")
    with start_system(wanted, None, tmp_path / "system.log", nothing) as system:
        assert (system.bootstrap_servers, system.process_ids, system.problem()) == ("a:1,b:2", [], None)
