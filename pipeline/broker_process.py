"""A broker of Highwater on this host, as a process: killed, and started again at its address."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.common.child_process import HIGHWATER, READY, ends_with_parent, last_words, start, stop
from highwater.pipeline.errors import ClientError

_START_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.05


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
        begun = self.output.stat().st_size if self.output.exists() else 0
        before_exec = ends_with_parent(signal.SIGTERM) if self._ends_with_thread else None
        command = [*HIGHWATER, "broker", "start", *self._arguments, "--port", port]
        self._process = start(command, self.output, before_exec=before_exec)
        deadline_s = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if found := READY.search(self._said(begun)):
                self.address = found["address"]
                return
            time.sleep(_POLL_S)
        is_late = self._process.poll() is None
        self.kill()
        reason = (
            f"it is not ready after {_START_WITHIN_S:.0f} s" if is_late else last_words(self._said(begun).splitlines())
        )
        raise ClientError(f"a broker of Highwater does not start on this host: {reason}")

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the broker in order; with SIGKILL if that takes too long."""
        if self._process is not None:
            stop(self._process, _STOP_WITHIN_S)

    def _said(self, begun: int) -> str:
        return self.output.read_bytes()[begun:].decode("utf-8", "replace")
