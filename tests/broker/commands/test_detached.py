from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from highwater.broker.commands.detached import Detached, start, wait_until
from highwater.common.child_process import last_words_in

_SLEEP = [sys.executable, "-c", "import time; print('sleeping', flush=True); time.sleep(600)"]
_STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


def _started(tmp_path: Path, command: list[str], word: str) -> Detached:
    process = start("sleeper", command, tmp_path / "log")
    assert wait_until(lambda: word in process.log.read_text(), 30, "it has begun")
    return process


def test_a_process_is_known_again_from_what_was_written_down(tmp_path: Path) -> None:
    process = _started(tmp_path, _SLEEP, "sleeping")
    again = Detached.from_json("sleeper", process.as_json())
    assert again == process
    assert again.is_running()
    assert again.stop(30)
    assert not process.is_running()
    assert process.stop(30), "to stop it once more is no error"


def test_what_does_not_stop_is_killed(tmp_path: Path) -> None:
    process = _started(tmp_path, _STUBBORN, "deaf")
    assert not process.stop(0.2)
    assert not process.is_running()


def test_a_process_of_the_same_number_is_left_alone(tmp_path: Path) -> None:
    us = Detached("us", os.getpid(), "another boot/1", tmp_path / "log")
    assert not us.is_running()
    assert us.stop(1)


def test_one_that_ended_is_seen_to_have_and_why(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\ninput()"
    process = start("sleeper", [sys.executable, "-c", waits, str(go)], tmp_path / "log")
    go.touch()
    assert wait_until(lambda: not process.is_running(), 30, "it has ended")
    assert last_words_in(process.log).startswith("EOFError")


def test_a_long_wait_is_told_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.broker.commands.detached._QUIET_S", 0.01)
    answers = iter([False, False, False, True])
    assert wait_until(lambda: next(answers), 60, "pigs fly")
    assert "waiting until pigs fly" in capsys.readouterr().err
