"""Knobs of processors: clocks, interrupts, isolation."""

from __future__ import annotations

from typing import Final

from ..model import Knob

KNOBS: Final[tuple[Knob, ...]] = ()
