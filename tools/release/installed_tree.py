"""Highwater and what it needs, installed in a folder for a host without pip: what images and packages are made of.

The folder is a virtual environment of the Python of that host, made by hand: it works wherever it is put, and serves
another processor than this one. What only a compiler, a developer or pip reads is left out.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from highwater.bench.user_cache import need
from highwater.common.errors import UsageError
from tools.release.building import ROOT, Build, run, settle
from tools.release.pins import installed_with, pinned
from tools.release.places import platform_options, program_of

_LAUNCHER: Final = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -P -m highwater "$@"
"""
# pip's own notes: with paths of this machine, and with lists of files that are not all kept.
_OF_PIP: Final = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})
# Hundreds of languages, none of which a host highlights: a tenth of all byte code.
_UNUSED: Final = "/pygments/lexers/"
# Serialisers of the extra `registry`, which no tree is made with.
_OF_REGISTRY: Final = Path("confluent_kafka/schema_registry")
_SOURCES: Final = frozenset({".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"})


def installed_tree(
    build: Build, python_version: str, machine: str, directory: Path, extras: tuple[str, ...] = ()
) -> Path:
    """Fill a new folder: bin/highwater, bin/python (a link to that Python of the host), and the packages.

    Takes the compiled wheel of `build.out` for that Python and processor, or the pure one. The same bytes each time.
    """
    _compiler(python_version)
    packages = directory / f"lib/python{python_version}/site-packages"
    packages.mkdir(parents=True)
    target = {
        "python_version": python_version,
        "python_full_version": f"{python_version}.0",
        "platform_machine": machine,
    }
    listed = build.scratch / f"tree-{python_version}-{machine}.txt"
    names = (name for name, _ in installed_with(_requirements(build, extras), target))
    # Which lines apply is decided here: pip would read their markers for the Python that runs it.
    listed.write_text(re.sub(r" ; [^\\\n]*", " ", pinned(names, ROOT / "requirements/run.txt")))
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-compile", "--target", packages, *platform_options(python_version, machine)]
    build.run(*pip, "--require-hashes", "--requirement", listed)
    build.run(*pip, "--no-index", _wheel(build, python_version, machine))
    _leave_out(packages)
    _strip(packages)
    write_byte_code(packages, python_version)
    _add_programs(directory, python_version)
    settle(directory, build.epoch_s, {directory / "bin/highwater"})
    return directory


def write_byte_code(directory: Path, python_version: str) -> None:
    """Compile all below it for that Python. No time is in such byte code, so that it is the same bytes each time."""
    options = ("-q", "--invalidation-mode", "unchecked-hash", "-x", _UNUSED)
    # With -P, as this Python would import what is compiled, and so write byte code of its own.
    run(directory, _compiler(python_version), "-P", "-m", "compileall", *options, ".", PYTHONHASHSEED="0")


def _compiler(python_version: str) -> str:
    found = program_of(python_version)
    if found is None:
        raise UsageError(f"no Python {python_version} here, which writes the byte code for hosts with that version")
    return found


def _requirements(build: Build, extras: tuple[str, ...]) -> list[str]:
    project = tomllib.loads((build.source / "pyproject.toml").read_text("utf-8"))["project"]
    found, waiting = list(project["dependencies"]), list(extras)
    while waiting:
        for text in project["optional-dependencies"][waiting.pop()]:
            wanted = Requirement(text)
            if wanted.name == project["name"]:
                waiting += wanted.extras
            else:
                found.append(text)
    return found


def _wheel(build: Build, python_version: str, machine: str) -> Path:
    python = f"cp{python_version.replace('.', '')}"
    found = [*build.out.glob(f"*-{python}-{python}-*_{machine}.whl"), *build.out.glob("*-py3-none-any.whl")]
    if not found:
        raise UsageError(f"no wheel in {build.out}, which an installed tree is made of")
    return found[0]


def _leave_out(packages: Path) -> None:
    for path in packages.iterdir():
        if path.name in {"bin", "include", "share"}:
            shutil.rmtree(path)
        elif path.is_file() and path.suffix not in {".py", ".so"}:
            path.unlink()
    for path in [*packages.rglob("*")]:
        name = path.relative_to(packages)
        if name.parts[0] == "highwater":
            continue
        if path.is_dir() and (path.name == "tests" or name == _OF_REGISTRY):
            shutil.rmtree(path)
        elif path.is_file() and (path.suffix in _SOURCES or (".dist-info" in name.parts[0] and path.name in _OF_PIP)):
            path.unlink()


def _strip(packages: Path) -> None:
    """Remove what a debugger reads: of uvloop, nine tenths."""
    for path in sorted(packages.rglob("*.so")):
        if b".debug_info" in path.read_bytes():
            run(packages, need("llvm-strip", "llvm", "strips libraries of each processor"), "--strip-debug", path)


def _add_programs(directory: Path, python_version: str) -> None:
    programs = directory / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(f"/usr/bin/python{python_version}")
    (programs / "highwater").write_text(_LAUNCHER)
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python_version}\n"
    (directory / "pyvenv.cfg").write_text(settings)
