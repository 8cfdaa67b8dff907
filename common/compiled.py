"""Names the hot modules of the broker, and finds machine code of a checkout (docs/compiled.md).

A Produce and a Fetch run through these modules. A compiled wheel has machine code beside each. A checkout has it in
build/compiled/, and it is used only as long as it was built from exactly these sources: an edited module runs as it was
edited. `setup.py` reads the list, so that this file needs the standard library alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

MODULES: Final = (
    "highwater.broker.counters",
    "highwater.broker.handlers.dispatch",
    "highwater.broker.handlers.fetch",
    "highwater.broker.handlers.fetch_reads",
    "highwater.broker.handlers.produce",
    "highwater.broker.handlers.produce_run",
    "highwater.broker.handlers.shared.reply",
    "highwater.broker.log.batch_walk",
    "highwater.broker.log.leader_epochs",
    "highwater.broker.log.offset_index",
    "highwater.broker.log.open_segments",
    "highwater.broker.log.partition_log",
    "highwater.broker.log.producer_state",
    "highwater.broker.log.reading",
    "highwater.broker.log.segment",
    "highwater.broker.log.segment_file",
    "highwater.broker.log.segment_indexes",
    "highwater.broker.log.segment_list",
    "highwater.broker.log.time_index",
    "highwater.broker.replica.alone",
    "highwater.broker.replica.fetch_sessions",
    "highwater.broker.replica.partition",
    "highwater.broker.replica.readable_bytes",
    "highwater.broker.replica.settled",
    "highwater.broker.replica.waiters",
    "highwater.broker.server.connection",
    "highwater.kafka.pacing",
    "highwater.kafka.protocol.apis",
    "highwater.kafka.protocol.fetch",
    "highwater.kafka.protocol.frame",
    "highwater.kafka.protocol.primitives",
    "highwater.kafka.protocol.produce",
    "highwater.kafka.protocol.produce_run",
    "highwater.kafka.protocol.produce_run_reader",
    "highwater.kafka.records.batch",
    "highwater.kafka.records.produced",
    "highwater.kafka.records.record",
    "highwater.kafka.records.record_times",
)
NATIVE: Final = ("highwater.broker.log.native_walk",)
"""Modules of C by hand, which are compiled with the others; each has a twin in Python that its importer takes else."""
SETTING: Final = "COMPILED"
"""The environment variable: 0 for Python alone, 1 for machine code or nothing, by default what there is."""
SUFFIX: Final = EXTENSION_SUFFIXES[0]
"""Ends the names of machine code for this version of Python and this processor."""
ROOT: Final = Path(__file__).resolve().parents[1]
"""The checkout, if this file is in one; or else the package."""
# The rooms of the hot modules and of all that they import: the compiler takes types and constants from there.
_ROOMS: Final = ("broker", "common", "highwater/kafka")
# How they are compiled, and the releases of the compiler and of libraries.
_RECIPE: Final = ("setup.py", "constraints.txt")
_SHARED: Final = f"__mypyc{SUFFIX}"
"""Ends the name of the file that has the code of all hot modules; the others have their names."""
_CHEAPER: Final = "with which a request takes less CPU time"


def asked() -> str:
    """The value of SETTING: "0", "1" or "". Ends the process with one line if it is another."""
    value = os.environ.get(SETTING, "")
    if value not in ("", "0", "1"):
        _refuse(f"{SETTING} is {value!r}: set 0 for Python, 1 for machine code alone, or nothing")
    return value


def builds(root: Path) -> Path:
    """The folder of what was compiled of a checkout: a folder for each state of the sources."""
    return root / "build/compiled"


def build_of(root: Path) -> Path:
    """The folder of what these sources are compiled to, whether it is there or not."""
    from hashlib import sha256

    digest = sha256(SUFFIX.encode())
    for name, _ in _sources(root):
        content = (root / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return builds(root) / digest.hexdigest()[:16]


def compiled_modules() -> list[str]:
    """Those of MODULES that an import finds as machine code."""
    found = ((name, find_spec(name)) for name in MODULES)
    return [name for name, spec in found if spec is not None and is_machine_code(spec.origin)]


def is_machine_code(path: str | None) -> bool:
    return path is not None and path.endswith(tuple(EXTENSION_SUFFIXES))


def which_runs() -> str:
    """One line for the log of a broker: what runs, and why it is not machine code."""
    count = len(compiled_modules())
    if count == 0:
        return f"the hot modules run as Python: {machine_code()[1]}"
    if count == len(MODULES):
        return f"the {count} hot modules run compiled"
    return f"{count} of the {len(MODULES)} hot modules run compiled, the others as Python"


@cache
def machine_code() -> tuple[Path | None, str]:
    """The folder of machine code of a checkout, and why none runs here; decided once. A wheel has no such folder.

    Ends the process with one line if machine code is asked for and there is none.
    """
    if (wanted := asked()) == "0":
        return None, f"{SETTING}=0"
    place, why = _find(ROOT)
    if wanted == "1" and why:
        _refuse(f"{SETTING}=1, and there is no machine code to run: {why}")
    return place, why


def _find(root: Path) -> tuple[Path | None, str]:
    if not (root / "setup.py").is_file():
        beside = root.joinpath(*MODULES[-1].split(".")[1:])
        is_there = beside.with_name(beside.name + SUFFIX).is_file()
        return None, "" if is_there else f"a compiled wheel has machine code, {_CHEAPER} (docs/install.md)"
    if not builds(root).is_dir():
        return None, f"make setup makes machine code, {_CHEAPER}"
    place = _by_looks(root) or build_of(root)
    if not place.is_dir():
        return None, "the sources are not those that were compiled; make setup compiles them again"
    sys.path.insert(0, str(place))
    try:
        for shared in place.glob(f"*{_SHARED}"):
            import_module(shared.name.removesuffix(SUFFIX))
    except ImportError as error:
        return None, f"what was compiled cannot be loaded ({error}); remove {place}, and make setup compiles it again"
    finally:
        sys.path.remove(str(place))
    return place, ""


def _by_looks(root: Path) -> Path | None:
    try:
        name, before = seen(root).read_text("utf-8").split("\n", 1)
    except (OSError, ValueError):
        return None
    return builds(root) / name if before == looks(root) else None


def seen(root: Path) -> Path:
    """The file with the name of a build, and what `looks` gave when that was the one of these sources."""
    return builds(root) / f"seen{SUFFIX}.txt"


def looks(root: Path) -> str:
    """The times and sizes of the sources: to read all files takes longer. No edit and no copy keeps an inode's time."""
    return "\n".join(f"{name} {look.st_size} {look.st_mtime_ns} {look.st_ctime_ns}" for name, look in _sources(root))


def _sources(root: Path) -> list[tuple[str, os.stat_result]]:
    """Names in the checkout, sorted."""
    rooms = (found for room in _ROOMS for found in _source_files(f"{root}/{room}", room))
    return sorted([*((name, (root / name).stat()) for name in _RECIPE), *rooms])


def _source_files(folder: str, name: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".c")):
                yield f"{name}/{entry.name}", entry.stat()
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _source_files(entry.path, f"{name}/{entry.name}")


def _refuse(why: str) -> None:
    sys.stderr.write(f"error: {why}\n")
    raise SystemExit(2)


class _Finder:
    """Finds hot modules as `machine_code` decides; Python finds all others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name not in MODULES and name not in NATIVE:
            return None
        place, _ = machine_code()
        if place is not None:
            return spec_from_file_location(name, f"{place.joinpath(*name.split('.'))}{SUFFIX}")
        found = PathFinder.find_spec(name, path)
        if asked() == "0" and found is not None and found.origin is not None and found.origin.endswith(SUFFIX):
            if name in NATIVE:
                raise ModuleNotFoundError(f"{SETTING}=0", name=name)
            # A compiled wheel has the source beside it.
            return spec_from_file_location(name, f"{found.origin.removesuffix(SUFFIX)}.py")
        return found


_FINDER: Final = _Finder()


def install_finder() -> None:
    """Let imports find hot modules as machine code. The packages that have hot modules call it before all imports."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
