"""Lets each task of a job write once, and turns second and forgotten attempts away.

A transaction has one producer for all tasks, and brokers recognise a batch by its sequence and not by its bytes. Two
attempts of one task, with rows in another order, could therefore mix, and some rows would be lost and others be there
twice. Spark runs a second attempt after an executor was lost or a shuffle was unreadable, perhaps beside the first.

The rows of a query that is not deterministic may come out of a shuffle in two versions: what a lost executor had is
computed again while others have read its first version. So nothing is computed for the shuffle once a task writes.
"""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

from highwater.common.listener_rules import Limits, ListenerRules, RefusalLog
from highwater.pipeline.errors import ClientError, SettingsError

_TOKEN_BYTES: Final = 16
_TASK: Final = struct.Struct(">i")
QUESTION_BYTES: Final = _TOKEN_BYTES + _TASK.size
CHOICE: Final = -1
"""The number for a task that chooses partitions, and does not write."""
_YES, _NO = b"y", b"n"
TIMEOUT_S: Final = 30.0
_LEAST_S: Final = 0.001
_PAUSE_S: Final = 0.1
MOST_QUESTIONS: Final = 256
"""The most questions at once; each takes a thread."""
_LOG: Final = logging.getLogger(__name__)
COMPUTED_AGAIN: Final = "rows were computed a second time while others of their batch were written"


class GrantAddress(NamedTuple):
    """What a task needs to ask."""

    host: str
    port: int
    token: bytes

    def __repr__(self) -> str:
        """The address without the token."""
        return f"GrantAddress({self.host}:{self.port})"

    def ask(self, task: int) -> bool:
        """Whether this attempt of a task may write; for CHOICE, whether none has. Raises ClientError."""
        try:
            with socket.create_connection((_without_brackets(self.host), self.port), TIMEOUT_S) as asking:
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
        """Raises SettingsError if the driver cannot listen at `bind_host`: a name, or an address of IPv4 or IPv6."""
        self._listening = _listen(bind_host)
        self.address = GrantAddress(host, self._listening.getsockname()[1], secrets.token_bytes(_TOKEN_BYTES))
        self._given: set[int] = set()
        self._lock = threading.Lock()
        limits = Limits(MOST_QUESTIONS, MOST_QUESTIONS, round(TIMEOUT_S * 1000))
        self._rules: ListenerRules[socket.socket] = ListenerRules(limits, RefusalLog(_LOG))
        self._thread = threading.Thread(target=self._serve, name="grants", daemon=True)

    def __enter__(self) -> Grants:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(TIMEOUT_S)

    def end_choosing(self) -> None:
        """The rows are being taken: from now on, nothing may be computed for the shuffle."""
        with self._lock:
            self._given.add(CHOICE)

    def _serve(self) -> None:
        while True:
            try:
                asking, peer = self._listening.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    return
                time.sleep(_PAUSE_S)
                continue
            with self._lock:
                gone = self._rules.arrived(asking, f"{peer[0]}:{peer[1]}", time.monotonic_ns() // 1_000_000)
            if gone is not None:
                with suppress(OSError):
                    gone.shutdown(socket.SHUT_RDWR)
            # A stranger who says nothing must not keep the tasks waiting.
            threading.Thread(target=self._answer, args=(asking,), name="grant", daemon=True).start()

    def _answer(self, asking: socket.socket) -> None:
        try:
            with asking, suppress(OSError):
                self._answer_in_time(asking, time.monotonic() + TIMEOUT_S)
        finally:
            with self._lock:
                self._rules.left(asking)

    def _answer_in_time(self, asking: socket.socket, deadline_s: float) -> None:
        question = bytearray()
        while len(question) < QUESTION_BYTES:
            asking.settimeout(max(_LEAST_S, deadline_s - time.monotonic()))
            if not (piece := asking.recv(QUESTION_BYTES - len(question))):
                return
            question += piece
        if not secrets.compare_digest(question[:_TOKEN_BYTES], self.address.token):
            return
        (task,) = _TASK.unpack_from(question, _TOKEN_BYTES)
        with self._lock:
            if task == CHOICE:
                answer = _NO if self._given else _YES
            else:
                answer = _NO if task in self._given else _YES
                self._given.add(task)
        asking.sendall(answer)


def _listen(host: str) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(_without_brackets(host), 0, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise SettingsError(
            f"the driver cannot listen at {host} for its tasks: {error.strerror or error}; set "
            "spark.driver.bindAddress to an address of this host"
        ) from None


def _without_brackets(host: str) -> str:
    """Spark writes addresses of IPv6 in brackets."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host
