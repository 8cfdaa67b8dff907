"""What the Python processes of a drill's driver import first: this folder is the start of their PYTHONPATH."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = str(Path(__file__).parent)
