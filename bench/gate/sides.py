"""BASE and HEAD of the gate: the forms of their names, and the workload overlay that each name gives.

A side is measured now (`workload`, `git:REV`, a checkout, `config:FILE`), or it is an existing result directory. Both
sides must be of the same kind: a new measurement and an old one are not interleaved.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from highwater.bench.environment import git_state
from highwater.bench.systems.highwater import is_checkout
from highwater.bench.workload.yaml_document import read_document
from highwater.common.errors import UsageError
from highwater.common.yaml_nodes import Document
from highwater.results.reader import RunResult

GIT: Final = "git:"
CONFIG: Final = "config:"
AS_IT_IS: Final = "workload"
_FORMS: Final = (
    "a result directory (DIR or DIR:CELL), git:REVISION, a checkout of Highwater, config:FILE, "
    "or `workload` for the workload as it is"
)
_GIT_TIMEOUT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Recorded:
    """A result directory, or a cell of it."""

    given: str
    result: RunResult
    cell: str | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The overlay on the workload to measure this side; `origin` names its files and options."""

    given: str
    overlay: dict[str, Any]
    origin: Document = field(compare=False)
    commit: str | None = None
    source: Path | None = None
    """The checkout whose broker runs; None when the workload or the overlay defines the system."""


def side_named(text: str, name: str, repository: Path, scratch: Path) -> Recorded | Measured:
    """Parse BASE or HEAD (`name`).

    repository: a directory in the git work tree for `git:`. scratch: the directory for sources of a revision.
    Raises UsageError in one line.
    """
    if text == AS_IT_IS:
        return Measured(text, {}, Document("workload", {}))
    if text.startswith(GIT):
        return _revision(text, name, repository, scratch)
    if text.startswith(CONFIG):
        document = read_document(Path(text.removeprefix(CONFIG)))
        return Measured(text, document.data, document)
    if is_checkout(Path(text)):
        source = Path(text).resolve()
        state = git_state(source)
        commit = state.commit + ("+changes" if state.dirty else "") if state else None
        return _of_source(text, source, commit)
    return _recorded(text, name)


def _recorded(text: str, name: str) -> Recorded:
    path, _, cell = (text, "", "") if Path(text).is_dir() else text.partition(":")
    if not (Path(path) / "manifest.json").is_file():
        raise UsageError(f"{name}: {text!r} is none of: {_FORMS}")
    return Recorded(text, RunResult(Path(path)), cell or None)


def _of_source(given: str, source: Path, commit: str | None) -> Measured:
    return Measured(given, {"system": {"source": str(source)}}, Document(given, {}), commit, source)


def _revision(text: str, name: str, repository: Path, scratch: Path) -> Measured:
    revision = text.removeprefix(GIT)
    top = _git(repository, "rev-parse", "--show-toplevel", fault=f"{name}: {repository} is in no git repository")
    root = Path(top.decode().strip())
    unknown = f"{name}: {revision!r} is not a commit of {root}"
    commit = _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", fault=unknown).decode().strip()
    archive = _git(root, "archive", "--format=tar", commit, fault=f"{name}: git cannot archive {commit}")
    source = scratch / f"{name.lower()}-{commit[:12]}"
    source.mkdir(parents=True)
    # Not by tarfile: before 3.11.4, as on Debian 12, it has no filters, and from 3.12 on it warns if none is given.
    subprocess.run(["tar", "--extract", "--no-same-owner"], cwd=source, input=archive, check=True)
    if not is_checkout(source):
        raise UsageError(f"{name}: {revision!r} of {root} holds no broker of ours (no highwater/, no broker/)")
    return _of_source(text, source, commit)


def _git(directory: Path, *arguments: str, fault: str) -> bytes:
    # Git must not write here: another git command may be running in the same tree.
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S).stdout
    except FileNotFoundError:
        raise UsageError("git: is not installed, and git:REVISION needs it") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(fault + (f" ({said[-1]})" if said else "")) from None
