"""The errors of this room: each text is one line that names the thing and says the way out."""

from __future__ import annotations


class MonitorError(Exception):
    """What keeps the monitor from starting or a command from its work. The text is one line without secrets."""


class HistoryError(MonitorError):
    """The history cannot be opened or written. What it holds is as before."""
