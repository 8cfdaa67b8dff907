"""Commits the end of each finished batch for a group, in a thread of the process of the source.

Spark asks the source for the next batch when the last one is finished: that is known without any help, but late if the
trigger waits, and without the ids of query and batch. `source/listener.py` sends both at once, over a socket.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from highwater.common.topic_partition import partition_name
from highwater.pipeline.errors import ClientError, SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.pool import POOL
from highwater.pipeline.kafka.settings import Settings
from highwater.pipeline.source import first_offsets
from highwater.pipeline.source.offsets import continued

JsonOffsets = dict[str, dict[str, Any]]

COMMITS: Final = "#commits"
"""The key of the address in the latest offsets that a query's progress shows."""
GRACE_S: Final = 0.4
"""How long a batch waits for its ids."""
LISTENER_GRACE_S: Final = 5.0
"""The same, once a listener has sent ids of this query: on a busy host its report comes late."""
_TIMEOUT_S: Final = 5.0
_PAUSE_S: Final = 0.1
_PEER: Final = struct.Struct("3i")
_PIECE: Final = 1 << 16
_LOG: Final = logging.getLogger(__name__)


class Finished(NamedTuple):
    """The end of a batch; its ids are unknown until a listener has sent them."""

    end: JsonOffsets
    query_id: str = ""
    batch_id: int = -1

    @property
    def note(self) -> str:
        return f"query {self.query_id} batch {self.batch_id}" if self.query_id else ""


class GroupCommits:
    """Its threads begin with it."""

    def __init__(self, settings: Settings, group: str) -> None:
        self._settings = settings
        self._group = group
        self._changed = threading.Condition()
        self._next: Finished | None = None
        self._due_s = 0.0
        self._committed: Finished | None = None
        self._refusal: Exception | None = None
        self._is_closed = self._has_listener = False
        self._name = f"highwater-{secrets.token_hex(12)}"
        # In Linux's abstract namespace: nothing is left behind when the process is killed.
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"\0{self._name}")
        self._socket.listen()
        self._committing = threading.Thread(target=self._commit_what_is_due, name="group commits", daemon=True)
        self._committing.start()
        threading.Thread(target=self._listen, name="group commits' listener", daemon=True).start()

    @property
    def address(self) -> JsonOffsets:
        """What `tell` needs to reach this process."""
        return {COMMITS: {"socket": self._name}}

    def finished(self, end: JsonOffsets) -> None:
        """A batch that ends here is in the checkpoint. Raises what made an earlier commit fail for good."""
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            if all(known is None or known.end != end for known in (self._next, self._committed)):
                grace_s = LISTENER_GRACE_S if self._has_listener else GRACE_S
                self._plan(Finished(end), time.monotonic() + grace_s)

    def wait(self) -> None:
        """Until nothing is left to commit, or a commit has failed. Raises as `finished` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is None)
            if self._refusal is not None:
                raise self._refusal

    def close(self) -> None:
        """Commit what is left, and end the threads."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        # Not until nothing is left: a listener's last word may come when nobody commits any more.
        self._committing.join()
        # A thread that waits in accept() would not notice a close.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _plan(self, finished: Finished, due_s: float) -> None:
        self._next, self._due_s = finished, due_s
        self._changed.notify_all()

    def _commit_what_is_due(self) -> None:
        while True:
            with self._changed:
                while not self._is_closed and (self._next is None or time.monotonic() < self._due_s):
                    self._changed.wait(None if self._next is None else self._due_s - time.monotonic())
                if self._next is None:
                    return
                finished = self._next
            is_committed = False
            try:
                is_committed = self._commit(finished)
            except Exception as error:  # the thread of the query has to see it
                self._refusal = error
            with self._changed:
                if is_committed:
                    self._committed = finished
                if self._next is finished:
                    # After a failure, Spark's next question plans it again.
                    self._next = None
                self._changed.notify_all()

    def _commit(self, finished: Finished) -> bool:
        """Whether it worked; it may work later if not. Raises ClientError if it never will."""
        offsets = Offsets.from_json_object(finished.end)
        try:
            with POOL.borrow(self._settings) as client:
                errors = first_offsets.commit(client, self._group, offsets, note=finished.note)
        except ClientError as error:
            # The checkpoint has the offsets.
            _LOG.warning("commitOffsets=%s: %s", self._group, error)
            return False
        for of, refusal in errors.items():
            _LOG.warning("commitOffsets=%s: %s: %s", self._group, partition_name(*of), refusal)
            if not refusal.is_retriable:
                raise ClientError(f"commitOffsets={self._group}: {partition_name(*of)}: {refusal}")
        return not errors

    # Reports of a listener

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    return
                time.sleep(_PAUSE_S)
                continue
            with connection:
                connection.settimeout(_TIMEOUT_S)
                try:
                    if _user_of(connection) == os.getuid():
                        self._told(Finished(**json.loads(_all_of(connection))))
                except (OSError, ValueError, TypeError, RecursionError, SettingsError) as error:
                    _LOG.warning("commitOffsets=%s: a listener was not understood: %s", self._group, error)

    def _told(self, finished: Finished) -> None:
        """Raises SettingsError if its end is not of this source."""
        Offsets.from_json_object(finished.end)
        with self._changed:
            self._has_listener = True
            newest = self._next or self._committed
            if newest is None or not _is_behind(finished.end, newest.end):
                self._plan(finished, time.monotonic())


def tell(address: Mapping[str, Any], finished: Finished) -> bool:
    """Send `finished` to the process with this `GroupCommits.address`. False if it has ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(f"\0{address['socket']}")
            connection.sendall(json.dumps(finished._asdict()).encode())
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return False
    return True


def _is_behind(end: JsonOffsets, newest: JsonOffsets) -> bool:
    """Whether `end` is of an earlier batch than `newest`."""
    one, other = Offsets.from_json_object(end), Offsets.from_json_object(newest)
    return any(offset < other.next[of] for of, offset in continued(one, other).items())


def _user_of(connection: socket.socket) -> int:
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)


def _all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(_PIECE), b""))
