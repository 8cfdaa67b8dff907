"""The folder that stands first in the PYTHONPATH of a drill's drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = str(Path(__file__).parent)
