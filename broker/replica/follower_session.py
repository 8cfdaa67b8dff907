"""The follower's half of a fetch session (KIP-227): what the leader knows, and what to request next.

event                                    next request
(none yet)                               full, begins a session
an answer with the id of a session       incremental: what changed, and what is forgotten
an answer without an id                  full, begins a session
no answer, so the session is useless     full, ends that session and begins another
the leader does not know the session     full, begins a session
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

_NO_SESSION: Final = 0
_FULL_FETCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

Key = tuple[UUID, int]


class FollowerSession:
    __slots__ = ("_epoch", "_forgotten", "_id", "_named")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FULL_FETCH
        self._named: set[Key] = set()
        self._forgotten: dict[Key, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request must name all partitions."""
        return self._epoch == _FULL_FETCH

    @property
    def is_asking(self) -> bool:
        """Whether the session has a partition."""
        return bool(self._named)

    def name(self, key: Key) -> None:
        """The next request names this partition."""
        self._named.add(key)
        self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        """The leader shall not send this partition any more.

        A session that begins with the request under way has the partitions which that request names.
        """
        if key in self._named:
            self._named.discard(key)
            self._forgotten[key] = None

    def next(self) -> tuple[int, int, list[tuple[str | UUID, int]]]:
        """(id, epoch, forgotten partitions) of the next request."""
        forgotten: list[tuple[str | UUID, int]] = list(self._forgotten)
        self._forgotten.clear()
        return self._id, self._epoch, forgotten

    def answered(self, error_code: ErrorCode, session_id: int) -> bool:
        """Take an answer; returns whether its records may be appended."""
        if error_code:
            self._begin_anew(_NO_SESSION if error_code is ErrorCode.fetch_session_id_not_found else self._id)
            return False
        if self.is_new:
            if session_id == _NO_SESSION:
                self._begin_anew(_NO_SESSION)
            else:
                self._id, self._epoch = session_id, 1
        elif session_id != self._id:
            self._begin_anew(_NO_SESSION)
            return session_id == _NO_SESSION
        else:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def broken(self) -> None:
        """There was no answer: nobody knows whether the leader received the last request."""
        self._begin_anew(self._id)

    def _begin_anew(self, session_id: int) -> None:
        self._id, self._epoch = session_id, _FULL_FETCH
        self._named.clear()
        self._forgotten.clear()
