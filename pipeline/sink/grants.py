"""Lets each task of a job write once, and turns second and forgotten attempts away.

A transaction has one producer for all tasks, and brokers recognise a batch by its sequence and not by its bytes. Two
attempts of one task, with rows in another order, could therefore mix, and some rows would be lost and others be there
twice. Spark runs a second attempt after an executor was lost or a shuffle was unreadable, perhaps beside the first.
"""

from __future__ import annotations

import secrets
import socket
import struct
import threading
from types import TracebackType
from typing import Final, NamedTuple

from highwater.pipeline.errors import ClientError

_TOKEN_BYTES: Final = 16
_TASK: Final = struct.Struct(">i")
_QUESTION_BYTES: Final = _TOKEN_BYTES + _TASK.size
_YES, _NO = b"y", b"n"
_TIMEOUT_S: Final = 30.0


class GrantAddress(NamedTuple):
    """What a task needs to ask."""

    host: str
    port: int
    token: bytes

    def ask(self, task: int) -> bool:
        """Whether this attempt of the task may write. Raises ClientError if the driver cannot be reached."""
        try:
            with socket.create_connection((self.host, self.port), _TIMEOUT_S) as asking:
                asking.sendall(self.token + _TASK.pack(task))
                return asking.recv(1) == _YES
        except OSError as error:
            raise ClientError(
                f"a task cannot ask the driver at {self.host}:{self.port} whether it may write: {error}; executors "
                "must reach all ports of the driver's host, and spark.driver.host must be its address"
            ) from None


class Grants:
    """Answers the tasks of one job, from the driver, within a with statement."""

    def __init__(self, bind_host: str, host: str) -> None:
        self._listening = socket.create_server((bind_host, 0))
        self.address = GrantAddress(host, self._listening.getsockname()[1], secrets.token_bytes(_TOKEN_BYTES))
        self._given: set[int] = set()
        self._thread = threading.Thread(target=self._serve, name="grants", daemon=True)

    def __enter__(self) -> Grants:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(_TIMEOUT_S)

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listening.accept()
            except OSError:
                return
            with asking:
                try:
                    self._answer(asking)
                except OSError:
                    continue

    def _answer(self, asking: socket.socket) -> None:
        asking.settimeout(_TIMEOUT_S)
        question = bytearray()
        while len(question) < _QUESTION_BYTES and (piece := asking.recv(_QUESTION_BYTES - len(question))):
            question += piece
        if len(question) < _QUESTION_BYTES or not secrets.compare_digest(question[:_TOKEN_BYTES], self.address.token):
            return
        (task,) = _TASK.unpack_from(question, _TOKEN_BYTES)
        answer = _NO if task in self._given else _YES
        self._given.add(task)
        asking.sendall(answer)
