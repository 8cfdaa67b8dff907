"""One value for the settings of a host that the catalogue knows: hosts are set alike when it is the same.

The value is of what holds for the whole host. What disk a log lies on and how that is mounted is a matter of where it
was put, and limits are those of the session that asks: they are listed beside the rest, and are no part of the value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from .catalogue import KNOBS
from .check import observe
from .facts import Facts
from .formulas.targets import targets_of
from .model import Knob, Observation
from .workload import Workload

# Of one place or one session, not of the host.
_NOT_HOST_WIDE: Final = ("mount", "disk", "login")
# Somebody else moves them while a host runs: irqbalance its interrupts, an operator a unit, a daemon the clock.
_VOLATILE_SCOPES: Final = ("interrupt", "unit")
_VOLATILE: Final = frozenset({"clock.sync"})


def fingerprint(facts: Facts, data_dirs: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """SHA-256 over the settings of the host, and the list: knob (and its target, after a blank) -> its value just now.

    Disks and mounts under `data_dirs` and the limits of this session are in the list alone.
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
    """What is set: of a percentage not what it comes to, which moves, and of a missing value not the reason."""
    if observed.value is None:
        return "?"
    percentage, sign, _ = observed.text.partition(" % = ")
    return f"{percentage} %" if sign else str(observed.value)
