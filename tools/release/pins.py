"""The releases that are installed with Highwater: those that the tests pass with, and the SHA-256 of their files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.building import ROOT

_ENTRY: Final = re.compile(r"^([\w.-]+)(==.*?(?:\\\n.*?)*)$", re.M)


def installed_with(requirements: Iterable[str], target: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """Name and version of what these need on Linux, directly or not. `target`: markers of another Python than this."""
    listed = (ROOT / "requirements/dev.txt").read_text("utf-8")
    versions = {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", listed, re.M)}
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in seen or (wanted.marker is not None and not wanted.marker.evaluate({"extra": "", **(target or {})})):
            continue
        seen.add(name)
        yield name, versions[name]
        waiting += map(Requirement, metadata.requires(name) or ())


def pinned(names: Iterable[str], listed: Path) -> str:
    """Requirements with hashes for pip: the lines of these names in a file of requirements/."""
    wanted = {canonicalize_name(name) for name in names}
    entries = {canonicalize_name(name): f"{name}{rest}\n" for name, rest in _ENTRY.findall(listed.read_text("utf-8"))}
    return "".join(entries[name] for name in sorted(wanted))
