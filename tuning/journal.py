"""The write-ahead journal of changes: the state before each change, flushed before the change is made.

The journal consists of JSON lines, appended only, each with a checksum over its entry. An incomplete last line counts
as not written: its changes have not been made. Any other damage is an error, and nothing is changed.

begin      a run announces its owner, its boot, and all its changes with the state before each
done       a change was made and read back; `found` has the new state when the kernel resets other settings with it
end        the run is complete
cancelled  a change of the run failed, and the run's changes were rolled back
returning  a rollback is about to restore a resource that takes several writes, to the state `wanted`
restored   a rollback has finished with a resource: it is restored, or somebody else owns it now
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ..common.typed_json import parse_json
from .errors import TuningError
from .hostfiles import HostFiles
from .steps import (
    MOUNT_LAYERS,
    CommandStep,
    RemountStep,
    Resource,
    ResourceState,
    ResourceStep,
    Step,
    as_json,
    from_json,
    layer_of,
)
from .three_way import compare

FOLDER: Final = "/var/lib/highwater-tuning"
EARLIER_FOLDER: Final = "/var/lib/highwater/tuning"
"""Where earlier versions had their files: the folder above is also the default data directory of a broker."""
APPLIED: Final = f"{FOLDER}/journal.jsonl"
"""The journal of `highwater tune apply`; its changes stay until a rollback."""
SESSION: Final = f"{FOLDER}/session.jsonl"
"""The journal of a benchmark's host profile, which is in force while the benchmark's process runs."""
SCHEMA: Final = "tuning.journal/1"


@dataclass(frozen=True)
class Owner:
    """The process that makes changes: its id, its start time, and a name for people."""

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
    """An announced step. `before`: the state found; `after`: the state wanted; `folders`: created for its file."""

    step: Step
    before: ResourceState
    after: ResourceState
    folders: tuple[str, ...] = ()


@dataclass
class ApplyRun:
    """One apply, as recorded in the journal."""

    owner: Owner
    boot_id: str
    utc: str
    kernel: str
    changes: tuple[JournaledChange, ...]
    done: dict[int, ResourceState] = field(default_factory=dict)
    """Index of a change to the state found after it; None when that is as announced."""
    ended: bool = False


@dataclass(frozen=True)
class OutstandingChange:
    """A resource that Highwater has changed and not restored.

    original: the state without Highwater. The first change found it, unless somebody else changed the resource between
    two changes by Highwater. ours: the state that Highwater made; after an interrupted run, all possible states, the
    likeliest first.
    """

    resource: Resource
    step: ResourceStep
    original: ResourceState
    ours: tuple[ResourceState, ...]
    boot_id: str
    folders: tuple[str, ...]
    returning: ResourceState = None
    """The state that an interrupted rollback was about to restore, perhaps with other settings."""


@dataclass(frozen=True)
class Returning:
    wanted: dict[str, str]


class Ledger:
    """The state that the entries of a journal add up to: runs and outstanding changes."""

    def __init__(self, events: Iterable[ApplyRun | Resource | Returning]) -> None:
        """events: runs, restores that were begun, and restored resources, in the order of the journal."""
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
        """The changes that are not restored, in the order of the first changes."""
        return tuple(self._outstanding.values())

    @property
    def commands(self) -> tuple[CommandStep, ...]:
        """The commands that were run, or may have been run."""
        steps = (change.step for run in self.runs for change in run.changes)
        return tuple(dict.fromkeys(step for step in steps if isinstance(step, CommandStep)))

    @property
    def unfinished(self) -> ApplyRun | None:
        """The last run, when it was interrupted."""
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


def place_of(files: HostFiles, path: str) -> str:
    """Where the file of this path is: that of an earlier version stays at its earlier place until it is removed."""
    earlier = EARLIER_FOLDER + path.removeprefix(FOLDER)
    return earlier if files.attributes(path) is None and files.attributes(earlier) is not None else path


class Journal:
    """The file of one journal. Writing raises OSError.

    Reading raises TuningError when it is damaged, or when another user may have written it: a rollback as root does
    what it lists.
    """

    def __init__(self, files: HostFiles, path: str) -> None:
        self.path = place_of(files, path)
        self._files = files
        self._intact_bytes = 0

    def read(self) -> Ledger:
        self._refuse_what_others_may_write()
        text = self._files.read_verbatim(self.path) or ""
        intact, newline, _ = text.rpartition("\n")
        self._intact_bytes = len(f"{intact}\n".encode("utf-8", "surrogateescape")) if newline else 0
        events: list[ApplyRun | Resource | Returning] = []
        for number, line in enumerate(intact.split("\n") if intact else [], start=1):
            try:
                _add_entry(events, _entry_of(line))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise TuningError(
                    f"line {number} of {self.path} is damaged ({error}), so nothing was changed; its lines list by "
                    "path what was here before: restore that by hand, then move the file away"
                ) from None
        return Ledger(events)

    def _refuse_what_others_may_write(self) -> None:
        attributes = self._files.attributes(self.path)
        try:
            part = "" if attributes is None else self._files.writable_by_others(self.path)
        except OSError as error:
            raise TuningError(f"{self.path} cannot be read ({error.strerror or error}); make it readable") from None
        if part or (attributes is not None and not attributes.regular):
            why = f"another user may change {part}" if part else "it is a link or no regular file"
            raise TuningError(
                f"{self.path} is not obeyed and nothing was changed, because {why}; if its lines are yours, copy it as "
                f"root into a new folder {FOLDER}, else remove it"
            )

    def begin(self, run: ApplyRun) -> None:
        """Announce a run. The entry is flushed when this returns, so that the run may make its changes."""
        changes = [
            {"step": as_json(change.step), "before": change.before, "after": change.after, "folders": change.folders}
            for change in run.changes
        ]
        head = {"entry": "begin", "schema": SCHEMA, "owner": dataclasses.asdict(run.owner)}
        entry = {**head, "boot_id": run.boot_id, "utc": run.utc, "kernel": run.kernel, "changes": changes}
        self._append(entry, private=any(_is_private(change.before) for change in run.changes))

    def done(self, change: int, found: ResourceState = None) -> None:
        """Not flushed: the entry survives a killed process, and after a power cut a rollback reads the resources."""
        self._append({"entry": "done", "change": change, "found": found}, durable=False)

    def end(self) -> None:
        self._append({"entry": "end"})

    def cancelled(self) -> None:
        self._append({"entry": "cancelled"})

    def returning(self, wanted: dict[str, str]) -> None:
        """Not flushed, as settings do not survive a power cut either."""
        self._append({"entry": "returning", "wanted": wanted}, durable=False)

    def restored(self, resource: Resource) -> None:
        self._append({"entry": "restored", "kind": resource.kind, "names": list(resource.names)}, durable=False)

    def retract(self) -> None:
        """Remove a line whose writing failed part-way."""
        if self._intact_bytes == 0:
            self.remove()
        else:
            self._files.cut(self.path, self._intact_bytes)

    def remove(self) -> None:
        if self._files.exists(self.path):
            self._files.remove_file(self.path)

    def _append(self, entry: dict[str, Any], *, durable: bool = True, private: bool = False) -> None:
        """Append a line; it replaces an incomplete last line."""
        line = _line_of(entry)
        present = self._files.attributes(self.path)
        if present is not None and present.size_bytes > self._intact_bytes:
            self._files.cut(self.path, self._intact_bytes)
        self._files.append(self.path, line, durable=durable, private=private)
        self._intact_bytes += len(line.encode())


@contextmanager
def change_lock(files: HostFiles) -> Iterator[None]:
    """Lock the journals' folder for the body, so that only one process at a time changes a host.

    The folder is created when it is missing, and removed when it is empty. Raises TuningError when another process has
    the lock, or the folder cannot be created.
    """
    with ExitStack() as stack:
        try:
            for folder in files.missing_folders(APPLIED):
                with suppress(FileExistsError):
                    files.make_folder(folder)
            if part := files.writable_by_others(FOLDER):
                raise PermissionError(errno.EPERM, f"another user may change {part}")
            stack.enter_context(files.lock_folder(FOLDER))
        except BlockingIOError:
            raise TuningError("another process is changing this host's settings; try again when it is done") from None
        except OSError as error:
            reason = error.strerror or error
            way_out = "run as root" if error.errno == errno.EACCES else "make it a folder that root alone can write to"
            raise TuningError(
                f"{FOLDER} cannot be used for the journal ({reason}), nothing was changed; {way_out}"
            ) from None
        try:
            yield
        finally:
            remove_empty_folders(files)


def remove_empty_folders(files: HostFiles) -> None:
    """Remove the journals' folder when it is empty; of an earlier version's also the parent, unless another made it.

    An empty folder that remains does no harm: a service may see its host read-only.
    """
    with suppress(OSError):
        files.remove_folder_if_empty(FOLDER)
        files.remove_folder_if_empty(EARLIER_FOLDER)
        above = str(PurePosixPath(EARLIER_FOLDER).parent)
        attributes = files.attributes(above)
        if attributes is not None and attributes.user_id == os.geteuid():
            files.remove_folder_if_empty(above)


def session_of(files: HostFiles) -> tuple[Owner | None, bool]:
    """The owner of the session in the journal, None without a session, and whether its process is still running."""
    runs = Journal(files, SESSION).read().runs
    if not runs:
        return None, False
    owner = runs[-1].owner
    return owner, runs[-1].boot_id == read_boot_id(files) and owner.lives(files)


def read_boot_id(files: HostFiles) -> str:
    return files.read("/proc/sys/kernel/random/boot_id").text or ""


def _is_private(state: ResourceState) -> bool:
    """Whether this is a file that is not readable by everybody."""
    return state is not None and "mode" in state and not int(state["mode"], 8) & stat.S_IROTH


def _canonical(entry: dict[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def _line_of(entry: dict[str, Any]) -> str:
    text = _canonical(entry)
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}","entry":{text}}}\n'


def _entry_of(line: str) -> dict[str, Any]:
    document = parse_json(line)
    entry: dict[str, Any] = document["entry"]
    if document["crc32"] != f"{zlib.crc32(_canonical(entry).encode()):08x}":
        raise ValueError("its checksum is another")
    return entry


def _add_entry(events: list[ApplyRun | Resource | Returning], entry: dict[str, Any]) -> None:
    """Raises ValueError, KeyError, IndexError or TypeError for an invalid entry, or one that cannot come here."""
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
    further: list[JournaledChange] = []
    for document in documents:
        if document["step"]["step"] == "mount" and "layer" not in document["step"]:
            first, *others = _layers_of(document)
            yield first
            further += others
            continue
        step = from_json(document["step"])
        yield JournaledChange(step, document["before"], document["after"], tuple(document["folders"]))
    # At the end, because `done` entries count the changes.
    yield from further


def _layers_of(document: dict[str, Any]) -> Iterator[JournaledChange]:
    """The changes of a remount in a journal of an earlier version, which kept both layers of a mount as one list."""
    place, source = document["step"]["mount_point"], document["before"]["source"]
    before, after = (document[name]["options"].split(",") for name in ("before", "after"))
    touched = {layer_of(option) for option in set(before) ^ set(after)}
    for layer in (layer for layer in MOUNT_LAYERS if layer in touched):
        lists = [tuple(option for option in options if layer_of(option) == layer) for options in (before, after)]
        states = [{"options": ",".join(options), "source": source} for options in lists]
        yield JournaledChange(RemountStep(place, lists[0], lists[1], layer), states[0], states[1])
