"""One value for all host settings that the catalogue knows: hosts are set alike when it is the same."""

from __future__ import annotations

import hashlib
import json

from .catalogue import KNOBS
from .check import evaluate
from .facts import Facts
from .workload import Workload


def fingerprint(facts: Facts, workload: Workload | None = None) -> tuple[str, dict[str, str]]:
    """SHA-256 over the list, and the list: knob (and the disk or directory it is about) -> its value, read just now."""
    found = {f"{report.id} {report.target}".strip(): report.current_text for report in evaluate(facts, workload, KNOBS)}
    canonical = json.dumps(found, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest(), found
