"""`highwater report`: a result directory in, one HTML file out."""

from __future__ import annotations

from pathlib import Path


def report(directory: Path) -> None:
    """Write the report of a result directory."""
    raise NotImplementedError(directory)
