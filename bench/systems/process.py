"""One process of a system: starts it tied to the run, waits until it is ready, reports its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from highwater.bench.systems import tether
from highwater.common.child_process import READY, how_it_ended, last_words_in, start, stop
from highwater.common.errors import TrialError, UsageError

STOPPED_WITHIN_S: Final = 30.0
_USAGE_EXIT_CODE: Final = 2
# A Java program that refuses its configuration says so in an exception and ends with exit code 1.
_REFUSED_CONFIGURATION: Final = re.compile(r"ConfigException: (.+)|(requirement failed: .+)")
_POLL_S: Final = 0.02

AddressWhenReady = Callable[[str], str | None]
"""Asked with all that a process has printed; its address once it is ready."""


def ready_line(printed: str) -> str | None:
    """The address in the line that our broker prints when it accepts connections."""
    match = READY.search(printed)
    return match["address"] if match else None


def listening(port: int) -> AddressWhenReady:
    """Ready when somebody accepts connections at this port of the loopback address."""

    def address(_: str) -> str | None:
        with socket.socket() as probe:
            return f"127.0.0.1:{port}" if probe.connect_ex(("127.0.0.1", port)) == 0 else None

    return address


def refused_configuration(printed: str) -> str | None:
    """What a Java program that ended has against its configuration; None when it ended of something else."""
    refused = _REFUSED_CONFIGURATION.search(printed)
    return (refused[1] or refused[2]) if refused else None


class SystemProcess:
    """A process that this run starts and surely stops. `name` is what complaints call it.

    guard: the command starts other processes, which belong to the system and end with it.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        log_file: Path,
        *,
        environment: Mapping[str, str] | None = None,
        guard: bool = False,
    ) -> None:
        self.name = name
        self.command = command
        self.command_again = command
        """What starts it a second time, where it was: with the port that the first start may have chosen."""
        self.log_file = log_file
        self.address = ""
        """host:port, from `await_ready` on."""
        self._guard = guard
        self._environment = {**os.environ, **(environment or {})}
        self._down_on_purpose = self._paused = False
        self._printed_before_bytes = 0
        self._address_when_ready: AddressWhenReady = ready_line
        log_file.write_bytes(b"")
        self._process = self._launch(command)

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        return start(tether.command(command, guard=self._guard), self.log_file, self._environment)

    def await_ready(
        self, address_when_ready: AddressWhenReady, checkpoint: Callable[[], None], within_s: float
    ) -> None:
        """`checkpoint` may raise to give up. Raises UsageError when the process refuses its input, else TrialError."""
        self._address_when_ready = address_when_ready
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            checkpoint()
            printed = self.log_file.read_text("utf-8", errors="replace")
            if self._process.poll() is not None:
                raise self._end_before_ready(printed)
            if address := address_when_ready(printed):
                self.address = address
                return
            time.sleep(_POLL_S)
        raise TrialError(f"{self.name} was not ready within {within_s:.0f} s (its output: {self.log_file})")

    @property
    def process_ids(self) -> list[int]:
        """It and those that it has started, as long as they run."""
        try:
            children = [child.pid for child in psutil.Process(self._process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
        return children if self._guard else [self._process.pid, *children]

    def problem(self) -> str | None:
        """One line when it has ended, None while it runs, or does not because it was taken down."""
        if self._down_on_purpose:
            return None
        code = self._process.poll()
        if code is None:
            return None
        return f"{self.name} {how_it_ended(code)}: {last_words_in(self.log_file)} (its output: {self.log_file})"

    def kill(self) -> None:
        """End it as a crash would, with SIGKILL."""
        for process_id in self.process_ids if self._guard else ():
            # With the first one gone, the guard kills the others as well.
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        if not self._guard:
            self._process.kill()
        self._process.wait()

    def take_down(self, how: signal.Signals) -> None:
        """End it with SIGKILL, or ask it to with SIGTERM: no problem then, until it serves again."""
        self._down_on_purpose = True
        if how == signal.SIGKILL:
            self.kill()
        else:
            self.terminate()

    def reap(self) -> bool:
        """Whether it has ended, one that was taken down included."""
        return self._process.poll() is not None

    def start_again(self) -> None:
        """After its end; it is a problem from the moment on at which it first `serves`. Do not wait here for that."""
        self._printed_before_bytes = self.log_file.stat().st_size
        self._process = self._launch(self.command_again)

    def serves(self) -> bool:
        """Whether it is ready, after it was started again."""
        with self.log_file.open("rb") as log:
            log.seek(self._printed_before_bytes)
            printed = log.read().decode("utf-8", errors="replace")
        if self._process.poll() is not None or self._address_when_ready(printed) is None:
            return False
        self._down_on_purpose = False
        return True

    def pause(self) -> None:
        """Let it do nothing, and hold on to all that it has (SIGSTOP), until `resume`."""
        self._paused = True
        for process_id in self.process_ids:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGSTOP)

    def resume(self) -> None:
        for process_id in self.process_ids:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)
        self._paused = False

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def wait(self, within_s: float) -> None:
        """Until it has ended; raises TimeoutExpired."""
        self._process.wait(within_s)

    def stop(self) -> None:
        """Ask, then insist. Never leaves the process behind."""
        if self._process.poll() is None:
            if self._paused:
                self.resume()  # one that is paused cannot even end
            stop(self._process, STOPPED_WITHIN_S, self.kill)
        self._process.wait()

    def _end_before_ready(self, printed: str) -> UsageError | TrialError:
        if (refused := refused_configuration(printed)) is not None:
            return UsageError(f"{self.name} refuses to start: {refused}")
        if self._process.returncode == _USAGE_EXIT_CODE:
            said = last_words_in(self.log_file)
            return UsageError(f"{self.name} refuses to start: {said}")
        return TrialError(str(self.problem()))
