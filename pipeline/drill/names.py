"""Names that the writing and the reading side of a drill share."""

from __future__ import annotations

from typing import Final

NAME: Final = "hw-drill"
"""What the names of all topics, groups and tables of drills begin with."""
BATCH_COLUMN: Final = "batch"
BATCH_HEADER: Final = "hw-batch"
