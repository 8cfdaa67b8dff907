"""Runs a process for work that would hold the event loop: one JSON line in, one out.

`cleaner_process.py` is what runs in it.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

from highwater.common.child_process import program

_PACKAGES: Final = str(Path(__file__).parents[3])
_MAX_LINE_BYTES: Final = 1 << 24


class WorkerEnded(Exception):  # noqa: N818 - it names what happened to the process
    """The process ended, or could not start; what it had not answered does not count."""


class WorkerProcess:
    """Starts with the first order, and again with the first order after its end."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send an order and return the answer. Raises WorkerEnded."""
        if self._process is None:
            self._process = await self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except ConnectionError:
            line = b""
        if not line:
            await self.stop()
            raise WorkerEnded("the process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    async def _start() -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *program("highwater.broker.server.cleaner_process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_MAX_LINE_BYTES,
                cwd=_PACKAGES,
                # Ctrl-C is for the broker alone, which ends this process in its own time.
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": _PACKAGES},
            )
        except OSError as error:
            raise WorkerEnded(f"no process can be started: {error.strerror}") from error

    async def stop(self) -> None:
        """End the process, whatever it is at."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
