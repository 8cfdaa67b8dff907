"""What the driver of a load reports to the control broker beside its tasks: encode and decode, pure.

A note is one JSON object with `kind`, `version` and `trial`. Messages of tasks begin with other bytes, so both share
one topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

VERSION: Final = 1


class MalformedNoteError(ValueError):
    """The bytes are no note, or of a version that is not known here."""


@dataclass(frozen=True, slots=True)
class TrialNote:
    """A load begins. slo: metric -> bound, as the workload has them. consumers: over all groups."""

    trial: str
    run: str
    trial_id: str
    cell: str
    t0_unix_ns: int
    producers: int
    consumers: int
    groups: int
    warmup_max_s: int
    measure_s: int
    closed_loop: bool
    slo: Mapping[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return self.producers + self.consumers


@dataclass(frozen=True, slots=True)
class MeasureNote:
    """The measured phase begins in this second since T0: earlier than planned if the load was steady before."""

    trial: str
    second: int


@dataclass(frozen=True, slots=True)
class EndNote:
    """The load is over. state: `done`, or `interrupted` for a load that was stopped early."""

    trial: str
    measure_start_s: int
    state: str


@dataclass(frozen=True, slots=True)
class HostNote:
    """One second of one host: the known fields of HostSample."""

    trial: str
    host: str
    second: int
    sample: Mapping[str, float]


Note = TrialNote | MeasureNote | EndNote | HostNote
_KINDS: Final[dict[str, type[Note]]] = {"trial": TrialNote, "measure": MeasureNote, "end": EndNote, "host": HostNote}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
N = TypeVar("N", bound=Note)


def encode_note(note: Note) -> bytes:
    told = {"kind": _NAMES[type(note)], "version": VERSION, **asdict(note)}
    return json.dumps(told, separators=(",", ":"), allow_nan=False).encode()


def decode_note(message: bytes | str) -> Note:
    """Raises MalformedNoteError."""
    try:
        told: dict[str, Any] = json.loads(message)
        kind, version = told.pop("kind"), told.pop("version")
    except (ValueError, TypeError, LookupError, AttributeError):
        raise MalformedNoteError("this is neither a message of a task nor a note of a driver") from None
    if version != VERSION:
        raise MalformedNoteError(f"the note has version {version!r}; this Highwater knows version {VERSION}")
    if kind not in _KINDS:
        raise MalformedNoteError(f"a note of kind {kind!r} is not known")
    try:
        note = _KINDS[kind](**told)
    except TypeError as error:
        raise MalformedNoteError(f"a {kind} note is damaged: {error}") from None
    for name, annotation in type(note).__annotations__.items():
        value = getattr(note, name)
        expected = _TYPES.get(str(annotation), Mapping)
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise MalformedNoteError(f"a {kind} note is damaged: {name} is {value!r}")
    return note


_TYPES: Final[dict[str, type]] = {"str": str, "int": int, "bool": bool}
