"""`python -m tuning.catalogue > docs/tuning-knobs.md` writes the page of the documentation that lists every knob."""

from __future__ import annotations

import sys

from . import KNOBS
from .page import render

sys.stdout.write(render(KNOBS))
