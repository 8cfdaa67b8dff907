"""Systems under test behind one small face: start on a directory, tell what you are, stop surely.

A system is known here by a command line and by Kafka's protocol only, so that any broker can stand in the same place.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Final, Protocol

from bench import tether
from bench.client_properties import as_text
from bench.errors import TrialError, UsageError
from bench.workload import SystemUnderTest

READY_WITHIN_S: Final = 60.0
STOPPED_WITHIN_S: Final = 30.0
_READY_LINE: Final = re.compile(r"^ready: listening on (\S+:\d+)", re.MULTILINE)
_USAGE_EXIT_CODE: Final = 2


class System(Protocol):
    """One running system. Leaving the context stops it, whatever happened inside."""

    kind: str
    version: str
    bootstrap_servers: str
    command: list[str]

    def __enter__(self) -> System: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def process_ids(self) -> list[int]:
        """Its processes on this host; none when it runs elsewhere."""
        ...

    def problem(self) -> str | None:
        """One line when it is no longer running, None while it is."""
        ...


StartSystem = Callable[[SystemUnderTest, Path | None, Path, Callable[[], None]], System]


def start_system(
    wanted: SystemUnderTest, data_directory: Path | None, log_file: Path, checkpoint: Callable[[], None]
) -> System:
    """Start what the workload asks for. `checkpoint` is called while waiting and may raise to give up."""
    if wanted.kind == "external":
        return ExternalSystem(wanted.bootstrap_servers or "")
    if data_directory is None:
        raise ValueError("a system that this run starts needs a data directory")
    # -P: a folder named like one of our packages in the current directory must not be taken for it.
    command = [sys.executable, "-P", "-m", "highwater", "broker", "start"]
    command += ["--log-dir", str(data_directory), "--port", "0"]
    for name, value in wanted.config.items():
        command += ["--property", f"{name}={as_text(value)}"]
    return ProcessSystem("highwater", metadata.version("highwater"), command, log_file, checkpoint)


class ExternalSystem:
    """A cluster that somebody else runs. Kafka's protocol has no request for its version."""

    kind = "external"
    version = "unknown"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.command: list[str] = []
        self.process_ids: list[int] = []

    def __enter__(self) -> ExternalSystem:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def problem(self) -> str | None:
        return None


def ready_line(printed: str) -> str | None:
    """The address in the line that our broker prints when it accepts connections."""
    match = _READY_LINE.search(printed)
    return match[1] if match else None


class ProcessSystem:
    """A system that is one process of ours, tethered to the run.

    `address_when_ready` is asked with what it printed so far, until it answers; by default it looks for a ready line.
    """

    def __init__(
        self,
        kind: str,
        version: str,
        command: list[str],
        log_file: Path,
        checkpoint: Callable[[], None],
        *,
        address_when_ready: Callable[[str], str | None] = ready_line,
        ready_within_s: float = READY_WITHIN_S,
    ) -> None:
        self.kind = kind
        self.version = version
        self.command = command
        self._log_file = log_file
        with log_file.open("wb") as log:
            # A session of its own: Ctrl-C at the terminal must reach the run, which stops the broker in its turn.
            self._process = subprocess.Popen(
                tether.command(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.bootstrap_servers = self._wait_until_ready(checkpoint, address_when_ready, ready_within_s)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> ProcessSystem:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def process_ids(self) -> list[int]:
        return [self._process.pid]

    def problem(self) -> str | None:
        code = self._process.poll()
        if code is None:
            return None
        ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"the broker {ended}: {self._last_line()} (its output: {self._log_file})"

    def kill(self) -> None:
        """End it as a crash would, with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def wait(self, within_s: float) -> None:
        """Until it has ended; raises TimeoutExpired."""
        self._process.wait(within_s)

    def _wait_until_ready(
        self, checkpoint: Callable[[], None], address_when_ready: Callable[[str], str | None], within_s: float
    ) -> str:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            checkpoint()
            if address := address_when_ready(self._log_file.read_text("utf-8", errors="replace")):
                return address
            if (code := self._process.poll()) is not None:
                if code == _USAGE_EXIT_CODE:
                    raise UsageError(f"the broker refuses to start: {self._last_line()}")
                raise TrialError(str(self.problem()))
            time.sleep(0.02)
        raise TrialError(f"the broker was not ready within {within_s:.0f} s (its output: {self._log_file})")

    def _stop(self) -> None:
        """Ask, then insist. Never leaves the process behind."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _last_line(self) -> str:
        with self._log_file.open(encoding="utf-8", errors="replace") as log:
            lines = deque((line.strip() for line in log if line.strip()), maxlen=1)
        return lines[0] if lines else "it printed nothing"
