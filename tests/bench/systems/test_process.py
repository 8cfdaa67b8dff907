"""A process that this run starts comes up, tells its troubles in one line, and never outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from highwater.bench.systems import StartedSystem, SystemProcess
from highwater.bench.systems.process import listening, ready_line
from highwater.common.errors import StoppedError, TrialError, UsageError
from highwater.common.ports import free_ports
from tests.processes import runs, words_of
from tests.waiting import wait_until

READY = "print('ready: listening on 127.0.0.1:4711 (cluster x)', flush=True)"
WAIT = "import time; time.sleep(600)"


def program(*statements: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(statements)]


def nothing() -> None:
    """The user lets the run go on."""


def start(
    tmp_path: Path,
    *statements: str,
    checkpoint: Callable[[], None] = nothing,
    within_s: float = 60,
    guard: bool = False,
) -> StartedSystem:
    process = SystemProcess("the broker", program(*statements), tmp_path / "system.log", guard=guard)
    try:
        process.await_ready(ready_line, checkpoint, within_s)
    except BaseException:
        process.stop()
        raise
    return StartedSystem("fake", "0", [process])


def gone(pid: int) -> bool:
    wait_until(lambda: not psutil.pid_exists(pid) or not runs(psutil.Process(pid)), f"the end of process {pid}")
    return True


def problem_of(system: StartedSystem) -> str:
    wait_until(system.problem, "a problem")
    return system.problem() or "none"


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
    (pid,) = system.process_ids
    with pytest.raises(RuntimeError), system:
        raise RuntimeError
    assert gone(pid)


def test_one_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.bench.systems.process.STOPPED_WITHIN_S", 0.2)
    with start(tmp_path, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", READY, WAIT) as system:
        (pid,) = system.process_ids
    assert gone(pid)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("sys.stderr.write('segment.byte: unknown property\\n'); sys.exit(2)", "segment.byte: unknown property"),
        (
            "print('x.ConfigException: Invalid value a for retention\\n\\tat kafka.Kafka.main(K.java)'); sys.exit(1)",
            "Invalid value a for retention",
        ),
    ],
)
def test_bad_input_to_the_system_is_the_users_mistake(tmp_path: Path, statement: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        start(tmp_path, f"import sys; {statement}")
    assert str(error.value) == f"the broker refuses to start: {expected}"


def test_one_that_dies_before_it_is_ready_tells_its_last_words(tmp_path: Path) -> None:
    said = "no space left\\n\\tat java.base/sun.nio.ch.Net.bind(Net.java:565)"
    with pytest.raises(
        TrialError, match=r"^the broker ended with exit status 7: no space left \(its output: .*system\.log"
    ):
        start(tmp_path, f"import sys; print('{said}'); sys.exit(7)")


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    process = SystemProcess("the broker", ["/none/such"], tmp_path / "system.log")
    with pytest.raises(TrialError, match="cannot run /none/such: No such file or directory"):
        process.await_ready(ready_line, nothing, 60)


def test_one_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="was not ready within"):
        start(tmp_path, WAIT, within_s=0.3)
    assert not [child for child in psutil.Process().children() if WAIT in " ".join(words_of(child))]


def test_the_user_can_stop_the_waiting(tmp_path: Path) -> None:
    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        start(tmp_path, WAIT, checkpoint=stop)


def test_one_that_dies_later_is_noticed(tmp_path: Path) -> None:
    with start(tmp_path, READY, WAIT) as system:
        os.kill(system.process_ids[0], signal.SIGKILL)
        assert problem_of(system).startswith("the broker was killed by SIGKILL: ready: listening")


def test_a_port_is_ready_when_somebody_listens(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert listening(port)("") is None
    process = SystemProcess(
        "the broker",
        program(f"import socket; held = socket.create_server(('127.0.0.1', {port}))", WAIT),
        tmp_path / "system.log",
    )
    try:
        process.await_ready(listening(port), nothing, 60)
        assert process.address == f"127.0.0.1:{port}"
    finally:
        process.stop()


# A shell script around a broker: what it starts is the system, and must end with it.
SCRIPT = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {WAIT!r}])"


def test_what_a_guarded_command_starts_belongs_to_the_system_and_ends_with_it(tmp_path: Path) -> None:
    with start(tmp_path, SCRIPT, READY, "child.wait()", guard=True) as system:
        script, child = system.process_ids
        assert system.problem() is None
    assert gone(script)
    assert gone(child)


def test_a_guarded_command_that_ends_takes_along_what_it_left_behind(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    until_told = f"import pathlib, time\nwhile pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)"
    with start(tmp_path, SCRIPT, READY, until_told, guard=True) as system:
        _, child = system.process_ids
        (tmp_path / "go").unlink()
        assert "ended with exit status 0" in problem_of(system)
        assert gone(child)


def test_a_guarded_command_can_be_killed(tmp_path: Path) -> None:
    with start(tmp_path, SCRIPT, READY, "child.wait()", guard=True) as system:
        processes = system.process_ids
        system.kill()
        assert all(gone(pid) for pid in processes)
        assert "was killed by SIGKILL" in problem_of(system)


def test_a_guarded_command_can_be_killed_while_its_guard_kills_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with start(tmp_path, SCRIPT, READY, "child.wait()", guard=True) as system:
        processes = system.process_ids
        monkeypatch.setattr(SystemProcess, "process_ids", [ended.pid, *processes])
        system.kill()
        assert all(gone(pid) for pid in processes)


@pytest.mark.parametrize("guard", [False, True])
def test_it_dies_with_a_run_that_is_killed(tmp_path: Path, guard: bool) -> None:
    """kill -9 of the run runs no clean-up of ours; the kernel does it."""
    statements = (SCRIPT, READY, "child.wait()") if guard else (READY, WAIT)
    run = subprocess.Popen(
        program(
            "import pathlib, time",
            "from highwater.bench.systems.process import SystemProcess, ready_line",
            f"log_file = pathlib.Path({str(tmp_path / 'system.log')!r})",
            f"system = SystemProcess('x', {program(*statements)!r}, log_file, guard={guard})",
            "system.await_ready(ready_line, lambda: None, 60)",
            "print(*system.process_ids, flush=True)",
            "time.sleep(600)",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    with run, run.stdout:
        processes = [int(pid) for pid in run.stdout.readline().split()]
        assert len(processes) == (2 if guard else 1)
        assert all(psutil.pid_exists(pid) for pid in processes)
        run.kill()
        run.wait()
    assert all(gone(pid) for pid in processes)
