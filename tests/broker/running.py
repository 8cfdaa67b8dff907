"""A real broker process for tests: started on a directory and a free port, and surely stopped."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.common.child_process import READY

START_DEADLINE_S: Final = 60.0
STOP_DEADLINE_S: Final = 60.0
COMMAND: Final = (sys.executable, "-m", "highwater", "broker", "start")


class RunningBroker:
    """One broker process. Its log goes to `<log_dir>.log`, appended over restarts."""

    def __init__(
        self, log_dir: Path, *arguments: str, more_log_dirs: Sequence[Path] = (), command: Sequence[str] = ()
    ) -> None:
        """command: in the place of COMMAND, which tests may replace."""
        self.log_dir = log_dir
        self.stderr_path = log_dir.with_name(log_dir.name + ".log")
        with self.stderr_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*(command or COMMAND), "--log-dir", ",".join(map(str, [log_dir, *more_log_dirs])), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            ready = READY.fullmatch(self._first_line())
            if ready is None:
                raise AssertionError(f"the broker did not say that it is ready: {self.log_text()}")
        except BaseException:
            self.kill()
            raise
        self.address = ready["address"]
        self.port = int(self.address.rpartition(":")[2])
        self.cluster_id = ready["cluster_id"]

    def _first_line(self) -> str:
        stdout = self.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + START_DEADLINE_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
                piece = os.read(stdout.fileno(), 4096)
                if not piece:
                    break
                line += piece
        return line.decode().rstrip("\n")

    def log_text(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def stop(self) -> int:
        """Stop it cleanly, with SIGTERM, and tell its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_DEADLINE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_broker(
    log_dir: Path, *, port: int = 0, properties: Sequence[str] = (), processes: int | None = None
) -> RunningBroker:
    """Start a broker on 127.0.0.1; `properties` are "name=value". The caller stops or kills it."""
    options = [argument for text in properties for argument in ("--property", text)]
    divided = [] if processes is None else ["--processes", str(processes)]
    return RunningBroker(log_dir, "--port", str(port), *divided, *options)


@contextmanager
def running_broker(
    log_dir: Path, *, port: int = 0, properties: Sequence[str] = (), processes: int | None = None
) -> Iterator[RunningBroker]:
    """A broker for the time of a with statement, killed at its end if it was not stopped before."""
    broker = start_broker(log_dir, port=port, properties=properties, processes=processes)
    try:
        yield broker
    finally:
        broker.kill()
