"""Servers that a drill kills: a broker of its own, or the user's by a command."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol

from highwater.pipeline.drill.errors import DrillError

_READY: Final = re.compile(rb"^ready: listening on (\S+:\d+)", re.MULTILINE)
_QUICK: Final = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
)
START_DEADLINE_S: Final = 60.0
COMMAND_DEADLINE_S: Final = 120.0


class Server(Protocol):
    """Something that can be killed with SIGKILL at any moment, and started again at the same address."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class OurBroker:
    """One broker of Highwater on this host, alone, its log below `folder`."""

    def __init__(self, folder: Path, *properties: str) -> None:
        """properties: more of the broker's, as NAME=VALUE."""
        self._properties = properties
        self._log_dir = folder / "broker"
        self._output = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> None:
        """Raises DrillError if it does not listen in time."""
        port = self.address.rpartition(":")[2] or "0"
        arguments = ["--log-dir", str(self._log_dir), "--port", port]
        for each in (*_QUICK, *self._properties):
            arguments += ["--property", each]
        with self._output.open("ab") as output:
            begun = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "highwater", "broker", "start", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if found := _READY.search(self._output.read_bytes(), begun):
                self.address = found[1].decode()
                return
            time.sleep(0.05)
        self.kill()
        raise DrillError(f"the drill's broker did not start: see {self._output}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class CommandServer:
    """A command of the user, which kills a server and returns when that server runs again."""

    def __init__(self, command: str) -> None:
        self._command = command

    def kill(self) -> None:
        """`start` does all of it."""

    def start(self) -> None:
        """Raises DrillError if the command fails."""
        try:
            done = subprocess.run(
                self._command,
                shell=True,
                capture_output=True,
                text=True,
                timeout=COMMAND_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DrillError(f"{self._command!r} did not end within {COMMAND_DEADLINE_S:.0f} s") from None
        if done.returncode:
            raise DrillError(f"{self._command!r} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
