"""Prints the page of all knobs, docs/tuning-knobs.md: `python -m highwater.tuning.catalogue`."""

from __future__ import annotations

import sys

from . import KNOBS
from .page import render

sys.stdout.write(render(KNOBS))
