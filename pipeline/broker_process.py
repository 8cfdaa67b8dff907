"""A broker of Highwater on this host, as a process: killed, and started again at its address."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.pipeline.errors import ClientError

HIGHWATER: Final = (sys.executable, "-P", "-m", "highwater")
"""-P: Python must not import a folder of the current directory that has the name of a package."""
_READY: Final = re.compile(rb"^ready: listening on (\S+:\d+)", re.MULTILINE)
_START_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.05
_PR_SET_PDEATHSIG: Final = 1


class BrokerProcess:
    """It runs alone; its log and what it prints are below `folder`. Its first start chooses a free port of loopback.

    properties: of the broker, as NAME=VALUE. ends_with_thread: the kernel stops the broker when the thread that has
    started it ends, whatever ends the thread.
    """

    def __init__(self, folder: Path, properties: Sequence[str] = (), *, ends_with_thread: bool = False) -> None:
        self.output = folder / "broker.log"
        self.address = ""
        """HOST:PORT, from the first start on."""
        self._arguments = ["--log-dir", str(folder / "broker")]
        for each in properties:
            self._arguments += ["--property", each]
        self._ends_with_thread = ends_with_thread
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it accepts connections. Raises ClientError if it does not."""
        port = self.address.rpartition(":")[2] or "0"
        with self.output.open("ab") as output:
            begun = output.tell()
            self._process = subprocess.Popen(
                [*HIGHWATER, "broker", "start", *self._arguments, "--port", port],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A Ctrl-C on the terminal is for the command, which still needs the broker to come to its end.
                start_new_session=True,
                preexec_fn=_ending_with_thread() if self._ends_with_thread else None,
            )
        deadline_s = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if found := _READY.search(self.output.read_bytes(), begun):
                self.address = found[1].decode()
                return
            time.sleep(_POLL_S)
        is_late = self._process.poll() is None
        self.kill()
        said = self.output.read_bytes()[begun:].decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        reason = f"it is not ready after {_START_WITHIN_S:.0f} s" if is_late else said[-1].removeprefix("error: ")
        raise ClientError(f"a broker of Highwater does not start on this host: {reason}")

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the broker in order; with SIGKILL if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()


def _ending_with_thread() -> Callable[[], None]:
    # Loaded here: between fork and exec, a child of a process with threads may do little.
    libc = ctypes.CDLL(None)

    def end_with_thread() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return end_with_thread
