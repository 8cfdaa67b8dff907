"""Processes that outlive their command, identified by pid and start time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from highwater.admin.terminal import CommandError
from highwater.common import child_process

_POLL_S: Final = 0.05
_QUIET_S: Final = 2.0
"""A longer wait is reported on standard error, once per this interval."""


@dataclass(frozen=True, slots=True)
class Detached:
    name: str
    pid: int
    started: str
    """The boot id and the clock tick of the start: unique together with the pid."""
    log: Path

    def is_running(self) -> bool:
        return _start_of(self.pid) == self.started

    def stop(self, within_s: float) -> bool:
        """Send SIGTERM, and SIGKILL after `within_s`. Returns whether SIGTERM was enough."""
        self._send(signal.SIGTERM)
        if wait_until(lambda: not self.is_running(), within_s, f"{self.name} stops"):
            return True
        self._send(signal.SIGKILL)
        wait_until(lambda: not self.is_running(), within_s, f"{self.name} is killed")
        return False

    def _send(self, signal_number: int) -> None:
        # A pidfd refers to one process, even if another process gets the same pid later.
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_running():
                signal.pidfd_send_signal(descriptor, signal_number)
        except ProcessLookupError:
            pass  # the process ended just now
        finally:
            os.close(descriptor)

    def as_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started, "log": str(self.log)}

    @classmethod
    def from_json(cls, name: str, values: Mapping[str, Any]) -> Detached:
        return cls(name, int(values["pid"]), str(values["started"]), Path(values["log"]))


def start(name: str, command: Sequence[str], log: Path) -> Detached:
    """Start a process in its own session; its output is appended to `log`."""
    process = child_process.start(command, log)
    started = _start_of(process.pid)
    if started is None:
        raise CommandError(f"{name} ended at once: {child_process.last_words_in(log)}")
    return Detached(name, process.pid, started, log)


def wait_until(is_so: Callable[[], bool], within_s: float, what: str) -> bool:
    """Wait until `is_so()`, at most `within_s`; a long wait is reported on standard error. Returns whether it is."""
    began_s = time.monotonic()
    reported_s = began_s
    while not is_so():
        now_s = time.monotonic()
        if now_s - began_s > within_s:
            return False
        if now_s - reported_s >= _QUIET_S:
            reported_s = now_s
            typer.echo(f"waiting until {what} ({now_s - began_s:.0f} s)", err=True)
        time.sleep(_POLL_S)
    return True


def _start_of(pid: int) -> str | None:
    """Return when the process of this pid started; None when there is none or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{fields[19]}"
