"""The folder that stands first in the PYTHONPATH of Python processes that Spark starts on this host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FOLDER: Final = str(Path(__file__).parent)


def python_path() -> str:
    """A value of PYTHONPATH, for processes of this same Python: the ZIP of Spark's library is not used in them."""
    return os.pathsep.join(filter(None, (FOLDER, os.environ.get("PYTHONPATH"))))
