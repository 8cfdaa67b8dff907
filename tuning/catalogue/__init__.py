"""The catalogue of all knobs as data, for the command line, Ansible, results and documentation.

`KNOBS` is in the order of application: a limit comes before what it limits (`fs.nr_open` before the file limit).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..errors import TuningError, nearest_match
from ..model import Knob
from . import disks, export, interfaces, kernel, limits, memory, network, processor, storage, tcp, units

KNOBS: Final[tuple[Knob, ...]] = (
    *memory.KNOBS,
    *limits.KNOBS,
    *units.KNOBS,
    *network.KNOBS,
    *tcp.KNOBS,
    *interfaces.KNOBS,
    *storage.KNOBS,
    *disks.KNOBS,
    *processor.KNOBS,
    *kernel.KNOBS,
)

_BY_ID: Final = {knob.id: knob for knob in KNOBS}


def find_knob(knob_id: str) -> Knob:
    """The knob with this id. Raises TuningError, with the nearest match, for an unknown id."""
    if knob_id not in _BY_ID:
        hint = nearest_match(knob_id, _BY_ID)
        raise TuningError(f"unknown knob {knob_id!r}{hint} (all of them: highwater tune list)")
    return _BY_ID[knob_id]


def select_knobs(chosen: Iterable[str], skipped: Iterable[str] = ()) -> tuple[Knob, ...]:
    """The chosen knobs in catalogue order; `all` stands for every one. Raises TuningError for an unknown id."""
    wanted: set[str] = set()
    for knob_id in chosen:
        wanted |= set(_BY_ID) if knob_id == "all" else {find_knob(knob_id).id}
    unwanted = {find_knob(knob_id).id for knob_id in skipped}
    return tuple(knob for knob in KNOBS if knob.id in wanted - unwanted)


def as_json() -> dict[str, Any]:
    """The catalogue as plain data; every entry has the form of `tuning/schemas/knob.schema.json`."""
    return export.as_json(KNOBS)
