"""A host profile put in force for a while: journal, write, read back; verify; restore.

The journal is durable before the first write and goes when everything is back, so that whoever comes after a run that
was killed can restore. It lies in /run, which a reboot empties together with the settings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from .catalogue import KNOBS
from .check import evaluate, render, sysctl_path, value_of
from .errors import TuningError
from .facts import Facts
from .hostfiles import HostFiles
from .profiles import Profile, knobs_of, wishes_of
from .workload import Workload

SCHEMA: Final = "tuning.profile-journal/1"
JOURNAL: Final = "/run/highwater/host-profile.json"
# Writing one of the two makes the kernel set the other to 0, and neither takes a 0.
_TWINS: Final = {
    path: twin
    for knob in KNOBS
    if knob.twin is not None
    for path, twin in ((knob.path, sysctl_path(knob.twin)), (sysctl_path(knob.twin), knob.path))
}


@dataclass(frozen=True)
class Change:
    """A setting's text before and while a profile is in force. The two are the same where it was so already."""

    path: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """As people call it: vm.swappiness, or the path of what is no sysctl."""
        prefix = "/proc/sys/"
        return self.path.removeprefix(prefix).replace("/", ".") if self.path.startswith(prefix) else self.path


def plan_profile(profile: Profile, facts: Facts, workload: Workload) -> list[Change]:
    """What the profile means on this host; writes nothing. Raises TuningError that names what cannot be set."""
    changes: list[Change] = []
    problems: list[str] = []
    wishes = wishes_of(profile)
    knobs = {knob.id: knob for knob in knobs_of(profile) if knob.mechanism in ("sysctl", "sysfs")}
    for report in evaluate(facts, workload, knobs.values()):
        wish = wishes.get(report.id)
        path = knobs[report.id].path.format(target=report.target)
        before = value_of(facts.files.read(path).text or "")
        if report.state not in ("ok", "differs") or report.recommended is None:
            if wish is not None and not wish.where_present:
                problems.append(f"{report.id}: {report.note}")
            continue
        after = render(knobs[report.id], report.recommended, before) if report.state == "differs" else before
        change = Change(path, before, after)
        if before != after:
            if (read_only := facts.read_only_mount(path)) is not None:
                problems.append(f"{change.name}: {read_only} is mounted read-only here")
            elif not os.access(facts.files.locate(path), os.W_OK):
                problems.append(f"{change.name} is not writable by this user")
        elif wish is None:
            continue
        changes.append(change)
        if (twin := _TWINS.get(path)) is not None and before != after:
            changes.append(Change(twin, value_of(facts.files.read(twin).text or ""), "0"))
    if problems:
        raise TuningError(f"host profile {profile.name} cannot be applied: {'; '.join(problems)}")
    return changes


def apply_profile(files: HostFiles, name: str, changes: Sequence[Change], journal: str = JOURNAL) -> None:
    """Write and read back. Raises TuningError, with everything restored, when a setting does not take effect."""
    document = {
        "schema": SCHEMA,
        "profile": name,
        "owner": {"pid": os.getpid(), "started": _started(files, os.getpid())},
        "boot_id": _boot_id(files),
        "settings": [asdict(change) for change in changes],
    }
    try:
        files.replace_file(journal, json.dumps(document, indent=2) + "\n", 0o644)
    except OSError as error:
        raise TuningError(
            f"host profile {name}: its journal {journal} cannot be written ({error.strerror or error}); run as root"
        ) from error
    try:
        for change in changes:
            zeroed_by_its_twin = change.after == "0" and change.path in _TWINS
            if change.before != change.after and not zeroed_by_its_twin:
                _write(files, change.path, change.after)
    except TuningError as error:
        roll_back(files, journal)
        raise TuningError(f"host profile {name} cannot be applied: {error}") from None


def differing(files: HostFiles, changes: Sequence[Change]) -> list[str]:
    """The settings that do not have the profile's value just now, as `name is value`."""
    found = ((change, value_of(files.read(change.path).text or "")) for change in changes)
    return [f"{change.name} is {value!r}" for change, value in found if value != change.after]


def roll_back(files: HostFiles, journal: str = JOURNAL) -> list[Change]:
    """Restore what the journal says, and remove it; the changes that were taken back, none without a journal.

    Raises TuningError that names what could not be restored; the journal then stays.
    """
    document = _read(files, journal)
    if document is None:
        return []
    changes = [Change(**entry) for entry in document["settings"]]
    if document["boot_id"] == _boot_id(files):
        problems = list(_restore(files, changes))
        if problems:
            raise TuningError(f"{'; '.join(problems)}; the values to restore are in {journal}")
    files.remove_file(journal)
    return [change for change in changes if change.before != change.after]


def recover(files: HostFiles, journal: str = JOURNAL) -> list[Change]:
    """Take back what a killed run left in force. Raises TuningError when the run that holds a profile still lives."""
    document = _read(files, journal)
    if document is None:
        return []
    owner = document["owner"]
    started = _started(files, owner["pid"])
    if started is not None and started == owner["started"]:
        raise TuningError(
            f"the run of process {owner['pid']} holds host profile {document['profile']} just now; wait for its end"
        )
    return roll_back(files, journal)


def _restore(files: HostFiles, changes: Sequence[Change]) -> Iterator[str]:
    for change in reversed(changes):
        by_its_twin = change.before == "0" and change.path in _TWINS
        if not by_its_twin and value_of(files.read(change.path).text or "") != change.before:
            try:
                _write(files, change.path, change.before)
            except TuningError as error:
                yield str(error)
    for change in changes:
        if (value := value_of(files.read(change.path).text or "")) != change.before:
            yield f"{change.name} is {value!r} and was {change.before!r}"


def _write(files: HostFiles, path: str, value: str) -> None:
    name = Change(path, "", "").name
    try:
        files.write_setting(path, value)
    except OSError as error:
        raise TuningError(f"{name}: the kernel refuses {value!r} ({error.strerror or error})") from error
    found = value_of(files.read(path).text or "")
    if found != value:
        raise TuningError(f"{name}: the write of {value!r} had no effect, it reads {found!r}")


def _read(files: HostFiles, journal: str) -> dict[str, Any] | None:
    text = files.read_verbatim(journal)
    if text is None:
        return None
    try:
        document: dict[str, Any] = json.loads(text)
        if document["schema"] != SCHEMA or not {"profile", "owner", "boot_id", "settings"} <= set(document):
            raise ValueError("it is of another kind")
    except (ValueError, KeyError, TypeError) as error:
        raise TuningError(f"{journal} is not a readable journal ({error}); restore by hand and remove it") from None
    return document


def _boot_id(files: HostFiles) -> str:
    return files.read("/proc/sys/kernel/random/boot_id").text or ""


def _started(files: HostFiles, pid: int) -> str | None:
    """When a process started, in ticks since boot: with its number the identity of a process. None: it is no more."""
    stat = files.read(f"/proc/{pid}/stat").text
    return stat.rpartition(")")[2].split()[19] if stat else None
