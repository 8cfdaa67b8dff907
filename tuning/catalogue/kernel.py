"""Knobs of the kernel as a whole: what it does when it fails, and its clock against others'."""

from __future__ import annotations

from typing import Final

from ..model import Knob

KNOBS: Final[tuple[Knob, ...]] = ()
