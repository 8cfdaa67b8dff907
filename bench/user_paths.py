"""Paths as people write them into files and options."""

from __future__ import annotations

from pathlib import Path

from highwater.common.errors import UsageError


def expanded(path: str) -> Path:
    """Expand `~` and `~user`. Raises UsageError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: no such user") from None
