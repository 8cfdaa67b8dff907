"""Paths as people write them into files and options."""

from __future__ import annotations

from pathlib import Path

from highwater.bench.errors import UsageError


def expanded(path: str) -> Path:
    """With `~` and `~user` put in. Raises UsageError for a user that this host does not have."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: no such user") from None
