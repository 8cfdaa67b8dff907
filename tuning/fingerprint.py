"""The fingerprint of a host: one hash over its host-wide settings.

Settings of disks and mounts depend on where a log lies, and limits belong to the session that asks. Both are listed,
but they are not part of the hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from .catalogue import KNOBS
from .check import observe
from .facts.model import Facts
from .formulas.targets import targets_of
from .model import Knob, Observation
from .workload import Workload

# Settings of one place or one session, not of the host.
_NOT_HOST_WIDE: Final = ("mount", "disk", "login")
# Settings that others change while a host runs: irqbalance its interrupts, an operator a unit, a daemon the clock.
_VOLATILE_SCOPES: Final = ("interrupt", "unit")
_VOLATILE: Final = frozenset({"clock.sync"})


def fingerprint(facts: Facts, data_dirs: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """SHA-256 over the settings of the host, and the list: knob (and its target, after a blank) to its current value.

    Only the list contains disks and mounts under `data_dirs` and the limits of this session.
    """
    workload = Workload(data_dirs=tuple(data_dirs))
    found = {
        f"{knob.id} {target}".rstrip(): (_text(observe(knob, facts, target, facts.files.read)), knob.scope)
        for knob, target in _settings(facts, workload)
    }
    of_the_host = {name: text for name, (text, scope) in found.items() if scope not in _NOT_HOST_WIDE}
    canonical = json.dumps(of_the_host, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest(), {name: text for name, (text, _) in found.items()}


def _settings(facts: Facts, workload: Workload) -> Iterator[tuple[Knob, str]]:
    for knob in KNOBS:
        if knob.scope not in _VOLATILE_SCOPES and knob.id not in _VOLATILE:
            yield from ((knob, target) for target in targets_of(knob.scope, facts, workload))


def _text(observed: Observation) -> str:
    """The configured value: a percentage without its size in bytes, which varies; `?` for a missing value."""
    if observed.value is None:
        return "?"
    percentage, sign, _ = observed.text.partition(" % = ")
    return f"{percentage} %" if sign else str(observed.value)
