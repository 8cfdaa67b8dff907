"""Copies what tasks import out of this Python into a folder for hosts without a package index."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from highwater.common.nearest import did_you_mean
from highwater.common.package_archive import copy_package
from highwater.common.units import size_text
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.source.session import FOLDERS, LIBRARIES

DISTRIBUTIONS: Final = (*LIBRARIES, "protobuf")
"""What tasks need, and transformWithState."""
# Spark brings its own Python files to executors; its package from PyPI is half a gigabyte. What tasks need of highwater
# is copied from where it runs.
_COME_ALONG: Final = {"highwater", "pyspark", "pyspark-client", "pyspark-connect", "py4j"}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_FAST: Final = 1
_SCRIPT: Final = """\
#!/bin/sh
# This host's Python {version} with the libraries beside this file.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
command -v python{version} > /dev/null || {{
  echo "$(hostname) has no python{version}, which this environment of Highwater is for" >&2
  exit 127
}}
PYTHONPATH=$here/lib${{PYTHONPATH:+:$PYTHONPATH}} exec python{version} "$@"
"""


@dataclass(frozen=True, slots=True)
class Packed:
    """folder: with bin/python. archive: the same as a .tar.gz. distributions: name and version."""

    folder: Path
    archive: Path
    distributions: tuple[str, ...]

    @property
    def size(self) -> str:
        return size_text(self.archive.stat().st_size)


def pack(folder: Path, more: Iterable[str] = ()) -> Packed:
    """Write `folder` and `<folder>.tar.gz` with tasks' libraries, and `more` distributions that are installed here.

    Both appear as a whole. Raises SettingsError if one of them is there already, or a distribution is not installed.
    """
    _refuse_existing(folder)
    archive = folder.with_name(f"{folder.name}.tar.gz")
    _refuse_existing(archive)
    chosen = {each.name: each for each in _with_requirements((*DISTRIBUTIONS, *more))}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            made = Path(scratch, "environment")
            _fill(made, chosen.values())
            with tarfile.open(Path(scratch, "archive"), "w:gz", compresslevel=_FAST) as tar:
                tar.add(made, ".")
            Path(scratch, "archive").rename(archive)
            made.rename(folder)
    except OSError as error:
        raise SettingsError(f"{folder}: cannot write it: {error.strerror or error}") from None
    return Packed(folder, archive, tuple(sorted(f"{each.name} {each.version}" for each in chosen.values())))


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise SettingsError(f"{path} is there already: remove it, or name another folder")


def _fill(made: Path, distributions: Iterable[metadata.Distribution]) -> None:
    libraries = made / "lib"
    libraries.mkdir(parents=True)
    for distribution in distributions:
        for source, name in _files(distribution):
            target = libraries / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    copy_package(libraries, FOLDERS)
    script = made / "bin/python"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(version=f"{sys.version_info.major}.{sys.version_info.minor}"))
    script.chmod(0o755)


def _files(distribution: metadata.Distribution) -> Iterator[tuple[Path, str]]:
    """Files that can be imported or are data of a module; not its commands, nor headers for a compiler."""
    if distribution.files is None:
        raise SettingsError(f"{distribution.name}: there is no list of its files; install it with pip")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        source = unquote(urlsplit(origin["url"]).path)
        raise SettingsError(f"{distribution.name} is installed as editable, without its files: pip install {source}")
    for file in distribution.files:
        path = Path(str(distribution.locate_file(file)))
        is_header = "include" in file.parts[:-1] and file.suffix != ".py"
        if ".." in file.parts or "__pycache__" in file.parts or is_header:
            continue
        if path.is_file():
            yield path, str(file)


def _with_requirements(names: Iterable[str]) -> Iterator[metadata.Distribution]:
    """These and what they require, as far as it is installed: the others are for other systems."""
    asked = list(names)
    waiting, seen = list(asked), set(_COME_ALONG)
    while waiting:
        name = waiting.pop()
        if _normal(name) in seen:
            continue
        seen.add(_normal(name))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in asked:
                raise SettingsError(_not_installed(name)) from None
            continue
        yield distribution
        required = [text for text in distribution.requires or () if "extra ==" not in text]
        waiting += [match[0] for text in required if (match := _NAME.match(text))]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_installed(name: str) -> str:
    known = [each.name for each in metadata.distributions()]
    hint = did_you_mean(name, known) or f"; install it: {sys.executable} -m pip install {name}"
    return f"{name} is not installed in {sys.prefix}{hint}"
