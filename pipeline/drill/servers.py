"""Servers that a drill kills: a broker of its own, or the user's by a command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, Protocol

from highwater.pipeline.broker_process import BrokerProcess
from highwater.pipeline.drill.errors import DrillError
from highwater.pipeline.errors import ClientError

_QUICK: Final = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
)
COMMAND_DEADLINE_S: Final = 120.0


class Server(Protocol):
    """Something that can be killed with SIGKILL at any moment, and started again at the same address."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class OurBroker(BrokerProcess):
    """One broker of Highwater on this host, alone, its log below `folder`."""

    def __init__(self, folder: Path, *properties: str) -> None:
        """properties: more of the broker's, as NAME=VALUE."""
        super().__init__(folder, (*_QUICK, *properties))

    def start(self) -> None:
        """Raises DrillError if it does not listen in time."""
        try:
            super().start()
        except ClientError as error:
            raise DrillError(str(error)) from None


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
