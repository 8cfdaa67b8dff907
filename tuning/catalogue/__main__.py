"""`python -m highwater.tuning.catalogue > docs/tuning-knobs.md` writes the documentation page of all knobs."""

from __future__ import annotations

import sys

from . import KNOBS
from .page import render

sys.stdout.write(render(KNOBS))
