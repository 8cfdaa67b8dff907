"""The database in the --state directory of the job; whoever looks for it needs no extra packages."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DATABASE: Final = "live.sqlite"


def holds_live_figures(directory: Path) -> bool:
    return (directory / DATABASE).is_file()
