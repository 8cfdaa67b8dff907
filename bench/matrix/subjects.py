"""Which settings of a study can be set on a disk, and which of them not together."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.bench.matrix.disks import Places
from highwater.bench.matrix.study import Study, name_of
from highwater.bench.prove.proving import PROVED_STORAGE
from highwater.bench.prove.subjects import Change, Subject, knob_ids, subject_named
from highwater.common.errors import UsageError
from highwater.tuning.catalogue import find_knob
from highwater.tuning.errors import TuningError
from highwater.tuning.facts.model import Facts
from highwater.tuning.workload import parse_workload

_FILE_SYSTEM: Final = "filesystem.type"
_OTHER_TARGET: Final = "other-file-system"
# What a trial may do to a disk that is made for it, and to no other.
_RISKS_OF_A_DISK: Final = ("mount.", "disk.")


@dataclass(frozen=True, slots=True)
class Available:
    """subjects: setting to what it changes. cannot: the others, each with the reason. targets: where trials store."""

    subjects: dict[str, Subject]
    cannot: dict[str, str]
    exclusive: frozenset[frozenset[str]]
    """Pairs of settings that cannot be on together."""
    targets: dict[str, Path]


def available_on(study: Study, places: Places, facts: Facts) -> Available:
    """Raises UsageError for a knob that does not exist."""
    subjects: dict[str, Subject] = {}
    cannot: dict[str, str] = {}
    for setting in study.settings:
        _require_knobs(setting)
        try:
            subjects[setting] = _subject(setting, places, places.log, facts)
        except UsageError as error:
            cannot[setting] = str(error).rpartition(" cannot be proved: ")[2].partition("; the trials would")[0]
    targets = {PROVED_STORAGE: places.log} | ({_OTHER_TARGET: places.other} if places.other is not None else {})
    return Available(subjects, cannot, frozenset(_exclusive(subjects, places, facts)), targets)


def _require_knobs(setting: str) -> None:
    try:
        for knob in knob_ids(setting):
            find_knob(knob)
    except TuningError as error:
        raise UsageError(str(error)) from None


def _subject(setting: str, places: Places, path: Path, facts: Facts) -> Subject:
    if name_of(setting) == _FILE_SYSTEM:
        return _file_system(setting, places)
    accepted = [knob for knob in knob_ids(setting) if places.is_ours and knob.startswith(_RISKS_OF_A_DISK)]
    return subject_named(setting, facts, parse_workload({"data_dirs": [str(path)]}), accepted)


def _file_system(setting: str, places: Places) -> Subject:
    off, _, on = setting.partition("=")[2].partition(":")
    if places.other is None:
        raise UsageError("a new file system takes a disk of its own; emulated disks show it")
    return Subject((Change(find_knob(_FILE_SYSTEM), None, on, off, on),), target=_OTHER_TARGET)


def _exclusive(subjects: dict[str, Subject], places: Places, facts: Facts) -> set[frozenset[str]]:
    """Settings of the same knob, and what the other file system does not have (ext4's commit) beside it."""
    found = {
        frozenset((one, other))
        for one, other in itertools.combinations(subjects, 2)
        if set(knob_ids(one)) & set(knob_ids(other))
    }
    file_systems = [setting for setting, subject in subjects.items() if subject.target]
    for setting in subjects:
        if file_systems and setting not in file_systems and places.other is not None:
            try:
                _subject(setting, places, places.other, facts)
            except UsageError:
                found |= {frozenset((setting, other)) for other in file_systems}
    return found
