"""The journal of changes: what was here before each one, durable before it is made.

Lines of JSON, appended only, each with a checksum over its entry. A last line without its end was never written: what
it would have announced has not happened. Anything else that does not fit is damage, and stops everything.

begin      a run: who makes it, the boot it is made in, and every change it is going to make with what is there before
done       a change that was made and read back; what was found, where the kernel changes more than it is told to
end        the run is complete
cancelled  what the run had changed was taken back at once, as one of its changes failed
returning  a rollback is about to put back a thing whose parts the kernel takes in several writes, and to what
restored   a rollback is through with a thing: it is back, or no longer ours
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from .errors import TuningError
from .hostfiles import HostFiles
from .steps import CommandStep, Resource, ResourceState, ResourceStep, Step, as_json, from_json
from .three_way import compare

FOLDER: Final = "/var/lib/highwater/tuning"
APPLIED: Final = f"{FOLDER}/journal.jsonl"
"""Of `highwater tune apply`: changes that stay until they are taken back."""
SESSION: Final = f"{FOLDER}/session.jsonl"
"""Of a benchmark: a profile in force for as long as its process lives."""
SCHEMA: Final = "tuning.journal/1"


@dataclass(frozen=True)
class Owner:
    """The process that makes changes, by its number and when it started, and what people call what it does."""

    name: str
    pid: int
    started: str

    @classmethod
    def this_process(cls, files: HostFiles, name: str) -> Owner:
        return cls(name, os.getpid(), files.process_started(os.getpid()))

    def lives(self, files: HostFiles) -> bool:
        return self.started != "" and files.process_started(self.pid) == self.started


@dataclass(frozen=True)
class JournaledChange:
    """A step as announced. `before`: what was found; `after`: what it is to become; `folders`: made for its file."""

    step: Step
    before: ResourceState
    after: ResourceState
    folders: tuple[str, ...] = ()


@dataclass
class ApplyRun:
    """All that the journal holds of one apply."""

    owner: Owner
    boot_id: str
    utc: str
    kernel: str
    changes: tuple[JournaledChange, ...]
    done: dict[int, ResourceState] = field(default_factory=dict)
    """Number of a change to how it was found after it, None where that is just as announced."""
    ended: bool = False


@dataclass(frozen=True)
class OutstandingChange:
    """A thing that we have changed and not put back.

    original: what would be here had we never come; it is what the first change found, unless somebody else changed the
    thing between two of ours. ours: what we made of it; what it may be, the likeliest first, after a run cut short.
    """

    resource: Resource
    step: ResourceStep
    original: ResourceState
    ours: tuple[ResourceState, ...]
    boot_id: str
    folders: tuple[str, ...]
    returning: ResourceState = None
    """What a rollback was about to make of it, and perhaps of other settings, when it was cut short."""


@dataclass(frozen=True)
class Returning:
    wanted: dict[str, str]


class Ledger:
    """What the entries of a journal come to."""

    def __init__(self, events: Iterable[ApplyRun | Resource | Returning]) -> None:
        """Runs, what rollbacks were about to do, and what they were through with, in the order in which it happened."""
        self.runs: list[ApplyRun] = []
        self._outstanding: dict[Resource, OutstandingChange] = {}
        for event in events:
            if isinstance(event, ApplyRun):
                self._add(event)
            elif isinstance(event, Returning):
                for resource, change in self._outstanding.items():
                    if resource.kind == "setting" and event.wanted.keys() >= set(resource.names):
                        self._outstanding[resource] = dataclasses.replace(change, returning=event.wanted)
            else:
                self._outstanding.pop(event, None)

    @property
    def outstanding(self) -> tuple[OutstandingChange, ...]:
        """In the order of their first change."""
        return tuple(self._outstanding.values())

    @property
    def commands(self) -> tuple[CommandStep, ...]:
        """Those that were run, or may have been."""
        steps = (change.step for run in self.runs for change in run.changes)
        return tuple(dict.fromkeys(step for step in steps if isinstance(step, CommandStep)))

    @property
    def unfinished(self) -> ApplyRun | None:
        """The last run, when it did not come to its end."""
        return self.runs[-1] if self.runs and not self.runs[-1].ended else None

    @property
    def is_empty(self) -> bool:
        return not self.runs

    def _add(self, run: ApplyRun) -> None:
        self.runs.append(run)
        for number, change in enumerate(run.changes):
            if not isinstance(change.step, CommandStep):
                done = number in run.done
                made = run.done.get(number) or change.after
                self._add_change(change.step, run, change, ours=(made,) if done else (change.after, change.before))

    def _add_change(
        self, step: ResourceStep, run: ApplyRun, change: JournaledChange, ours: tuple[ResourceState, ...]
    ) -> None:
        resource, original, folders = step.resource, change.before, change.folders
        if (held := self._outstanding.get(resource)) is not None:
            found = compare(resource, held.original, held.ours, change.before)
            original = found.restored if found.separable else change.before
            folders = (*held.folders, *(folder for folder in folders if folder not in held.folders))
        self._outstanding[resource] = OutstandingChange(resource, step, original, ours, run.boot_id, folders)


class Journal:
    """One journal's file. Reading raises TuningError when it is damaged; writing raises OSError."""

    def __init__(self, files: HostFiles, path: str) -> None:
        self.path = path
        self._files = files
        self._intact_bytes = 0

    def read(self) -> Ledger:
        text = self._files.read_verbatim(self.path) or ""
        intact, _, torn = text.rpartition("\n")
        self._intact_bytes = len(text.encode()) - len(torn.encode())
        events: list[ApplyRun | Resource | Returning] = []
        for number, line in enumerate(intact.split("\n") if intact else [], start=1):
            try:
                _add_entry(events, _entry_of(line))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise TuningError(
                    f"line {number} of {self.path} is damaged ({error}), so nothing was changed; its lines say by path "
                    "what was here before: put that back by hand, then move the file away"
                ) from None
        return Ledger(events)

    def begin(self, run: ApplyRun) -> None:
        """Announce a run. It is on the disk when this returns: from here on, its changes may be made."""
        changes = [
            {"step": as_json(change.step), "before": change.before, "after": change.after, "folders": change.folders}
            for change in run.changes
        ]
        head = {"entry": "begin", "schema": SCHEMA, "owner": dataclasses.asdict(run.owner)}
        entry = {**head, "boot_id": run.boot_id, "utc": run.utc, "kernel": run.kernel, "changes": changes}
        self._append(entry, private=any(_is_private(change.before) for change in run.changes))

    def done(self, change: int, found: ResourceState = None) -> None:
        """Not waited for: a process that is killed leaves it, and after a power cut a rollback looks for itself."""
        self._append({"entry": "done", "change": change, "found": found}, durable=False)

    def end(self) -> None:
        self._append({"entry": "end"})

    def cancelled(self) -> None:
        self._append({"entry": "cancelled"})

    def returning(self, wanted: dict[str, str]) -> None:
        """Not waited for, as settings do not outlast a power cut either."""
        self._append({"entry": "returning", "wanted": wanted}, durable=False)

    def restored(self, resource: Resource) -> None:
        self._append({"entry": "restored", "kind": resource.kind, "names": list(resource.names)}, durable=False)

    def retract(self) -> None:
        """Take back a line whose writing failed half-way."""
        if self._intact_bytes == 0:
            self.remove()
        else:
            self._files.cut(self.path, self._intact_bytes)

    def remove(self) -> None:
        if self._files.exists(self.path):
            self._files.remove_file(self.path)

    def _append(self, entry: dict[str, Any], *, durable: bool = True, private: bool = False) -> None:
        """Add a line, in place of one that was cut short."""
        line = _line_of(entry)
        present = self._files.attributes(self.path)
        if present is not None and present.size_bytes > self._intact_bytes:
            self._files.cut(self.path, self._intact_bytes)
        self._files.append(self.path, line, durable=durable, private=private)
        self._intact_bytes += len(line.encode())


@contextmanager
def change_lock(files: HostFiles) -> Iterator[None]:
    """Hold the journals' folder for the body, so that no two processes change a host at once.

    The folder is made when it is not there, and goes with the last file in it. Raises TuningError when another process
    holds it, or it cannot be made.
    """
    with ExitStack() as stack:
        try:
            for folder in files.missing_folders(APPLIED):
                with suppress(FileExistsError):
                    files.make_folder(folder)
            stack.enter_context(files.lock_folder(FOLDER))
        except BlockingIOError:
            raise TuningError("another process is changing this host's settings; try again when it is done") from None
        except OSError as error:
            reason = error.strerror or error
            way_out = "run as root" if isinstance(error, PermissionError) else "make it a folder that can be written to"
            raise TuningError(
                f"{FOLDER} cannot be used for the journal ({reason}), nothing was changed; {way_out}"
            ) from None
        try:
            yield
        finally:
            # An empty folder that stays is no reason to fail.
            with suppress(OSError):
                remove_empty_folders(files)


def remove_empty_folders(files: HostFiles) -> None:
    """Remove the journals' folder when nothing is in it, and the one above unless somebody else made that."""
    files.remove_folder_if_empty(FOLDER)
    above = str(PurePosixPath(FOLDER).parent)
    attributes = files.attributes(above)
    if attributes is not None and attributes.user_id == os.geteuid():
        files.remove_folder_if_empty(above)


def session_of(files: HostFiles) -> tuple[Owner | None, bool]:
    """Who has a session in its journal, None for nobody, and whether that process still lives."""
    runs = Journal(files, SESSION).read().runs
    if not runs:
        return None, False
    owner = runs[-1].owner
    return owner, runs[-1].boot_id == read_boot_id(files) and owner.lives(files)


def read_boot_id(files: HostFiles) -> str:
    return files.read("/proc/sys/kernel/random/boot_id").text or ""


def _is_private(state: ResourceState) -> bool:
    """Whether this is a file that not everybody may read."""
    return state is not None and "mode" in state and not int(state["mode"], 8) & stat.S_IROTH


def _canonical(entry: dict[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def _line_of(entry: dict[str, Any]) -> str:
    text = _canonical(entry)
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}","entry":{text}}}\n'


def _entry_of(line: str) -> dict[str, Any]:
    document = json.loads(line)
    entry: dict[str, Any] = document["entry"]
    if document["crc32"] != f"{zlib.crc32(_canonical(entry).encode()):08x}":
        raise ValueError("its checksum is another")
    return entry


def _add_entry(events: list[ApplyRun | Resource | Returning], entry: dict[str, Any]) -> None:
    """Raises ValueError, KeyError, IndexError or TypeError for what is no entry, or not one that can come here."""
    kind = entry["entry"]
    if kind == "begin":
        events.append(_run_of(entry))
    elif kind == "returning":
        events.append(Returning(dict(entry["wanted"])))
    elif kind == "restored":
        events.append(Resource(entry["kind"], tuple(entry["names"])))
    else:
        number, run = [(number, event) for number, event in enumerate(events) if isinstance(event, ApplyRun)][-1]
        if kind == "done":
            run.changes[entry["change"]]
            run.done[entry["change"]] = entry["found"]
        elif kind == "end":
            run.ended = True
        elif kind == "cancelled":
            del events[number]
        else:
            raise ValueError(f"there is no entry {kind!r}")


def _run_of(entry: dict[str, Any]) -> ApplyRun:
    if entry["schema"] != SCHEMA:
        raise ValueError(f"its schema is {entry['schema']!r}, not {SCHEMA!r}")
    return ApplyRun(
        owner=Owner(**entry["owner"]),
        boot_id=entry["boot_id"],
        utc=entry["utc"],
        kernel=entry["kernel"],
        changes=tuple(_changes_of(entry["changes"])),
    )


def _changes_of(documents: Iterable[dict[str, Any]]) -> Iterator[JournaledChange]:
    for document in documents:
        step = from_json(document["step"])
        yield JournaledChange(step, document["before"], document["after"], tuple(document["folders"]))
