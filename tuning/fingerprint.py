"""One value for the settings of a host that the catalogue knows: hosts are set alike when it is the same.

Settings of the whole host only. What disk a log lies on, and how that is mounted, is a matter of where the log is put.
"""

from __future__ import annotations

import hashlib
import json

from .catalogue import KNOBS
from .check import observe
from .facts import Facts


def fingerprint(facts: Facts) -> tuple[str, dict[str, str]]:
    """SHA-256 over the list, and the list: knob -> its value, read just now."""
    found = {
        # A percentage is set; what it comes to moves with the memory that happens to be free.
        knob.id: observe(knob, facts, "", facts.files.read).text.partition(" % = ")[0]
        for knob in KNOBS
        if knob.scope not in ("mount", "disk")
    }
    canonical = json.dumps(found, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest(), found
