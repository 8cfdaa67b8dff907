from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from highwater.common.errors import UsageError
from highwater.results.run_lock import LOCK_NAME, RunLock, is_abandoned


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path)
    with pytest.raises(UsageError, match=rf"is in use by process {os.getpid()}, started .*; wait for it"):
        RunLock.take(tmp_path)
    assert not is_abandoned(tmp_path)
    lock.release()
    assert list(tmp_path.iterdir()) == []
    RunLock.take(tmp_path).release()


def _take_and_die(directory: Path) -> None:
    RunLock.take(directory)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_take_and_die, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not is_abandoned(tmp_path), "it may be about to be locked"
    long_ago_s = time.time() - 60
    os.utime(tmp_path / LOCK_NAME, (long_ago_s, long_ago_s))
    assert is_abandoned(tmp_path)
    lock = RunLock.take(tmp_path)
    assert not is_abandoned(tmp_path)
    lock.release()


def test_a_directory_without_a_lock_is_nobodys_business(tmp_path: Path) -> None:
    assert not is_abandoned(tmp_path)
    assert not is_abandoned(tmp_path / "missing")
