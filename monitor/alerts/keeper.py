"""The alerts of a running monitor: stepped in each tick, kept on disk, and sent."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from highwater.common.atomic_files import write_atomically
from highwater.monitor.alerts.delivery import Deliverer, TargetState
from highwater.monitor.alerts.machine import Alert, AlertState, Key, Notice, began_at_ms, step
from highwater.monitor.alerts.message import message
from highwater.monitor.alerts.saving import loaded, saved
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.model import Snapshot

FILE: Final = "alerts.json"
_RECENT: Final = 500


class AlertKeeper:
    """`told` belongs to one thread at a time; the others may be called from any."""

    def __init__(self, folder: Path | None, deliverer: Deliverer | None = None, address: str = "") -> None:
        """Takes up the open alerts of the last run from `folder`; None keeps none.

        `address` is where the monitor's pages are, for messages. A damaged file is set aside, and `error` says so.
        """
        self._path = None if folder is None else folder / FILE
        self._deliverer = deliverer
        self._address = address
        self._lock = threading.Lock()
        self._recent: deque[Notice] = deque(maxlen=_RECENT)
        self._state, self._error = _read(self._path)

    def told(self, snapshot: Snapshot, figures: Figures) -> None:
        """Take the figures of a tick; may write a file. A disk that fails stops no message."""
        state, notices = step(self._state, figures)
        has_changed = _open(state) != _open(self._state)
        with self._lock:
            self._state = state
            self._recent.extend(notices)
        if notices and self._deliverer is not None:
            self._deliverer.submit(message(snapshot.cluster, notices, self._address))
        if has_changed:
            self._write(state)

    def open(self) -> tuple[Alert, ...]:
        """Open alerts, the worst first, and of these the oldest."""
        with self._lock:
            alerts = list(self._state.alerts.values())
        return tuple(sorted(alerts, key=lambda alert: (-alert.level.rank, alert.opened_at_ms)))

    def began_at_ms(self, key: Key, figures: Figures) -> int | None:
        """Return since when the finding is there, before its alert opens too; None if it is not."""
        with self._lock:
            return began_at_ms(self._state, key, figures)

    def recent(self) -> tuple[Notice, ...]:
        """What opened and closed since the start of the monitor, the newest first; the newest 500."""
        with self._lock:
            return tuple(reversed(self._recent))

    def targets(self) -> tuple[TargetState, ...]:
        return () if self._deliverer is None else self._deliverer.states()

    @property
    def error(self) -> str:
        """What is wrong with the file of open alerts, in one sentence without a full stop; empty if nothing is."""
        return self._error

    def _write(self, state: AlertState) -> None:
        if self._path is None:
            return
        try:
            write_atomically(self._path, saved(state), mode=0o600)
        except OSError as error:
            self._error = f"{self._path}: {error.strerror}; open alerts will not survive a restart"
        else:
            self._error = ""


def _open(state: AlertState) -> set[tuple[object, ...]]:
    """What is worth a write: not the newest sentence, which changes in each tick."""
    return {(*alert.key, alert.level, alert.began_at_ms) for alert in state.alerts.values()}


def _read(path: Path | None) -> tuple[AlertState, str]:
    """Return what the file says, and what is wrong with the file."""
    if path is None:
        return AlertState(), ""
    try:
        return loaded(path.read_text("utf-8")), ""
    except FileNotFoundError:
        return AlertState(), ""
    except OSError as error:
        return AlertState(), f"{path}: {error.strerror}; alerts of the last run are not resumed"
    except ValueError as error:
        aside = path.with_name(f"{path.name}.damaged")
        with suppress(OSError):
            path.replace(aside)
        return AlertState(), f"{path}: {error}; it was moved to {aside.name}, and alerts start afresh"
