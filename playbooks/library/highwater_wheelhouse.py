#!/usr/bin/python
"""The controller's side of a release: its name and its wheels, built once for each tree."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_wheelhouse
short_description: Wheels of Highwater and of all that it needs, for hosts without a package index
description:
  - Runs on the controller. Builds our wheel from a tree and fetches the pinned versions of what it depends on, for the
    Python and the processor of the host that is asked for.
  - A release is named after its version and the content of what it is built from, so that the name is known before
    anything is built. What was built before is taken from the cache; of releases the last ten are kept there.
  - In check mode it only says the name.
options:
  source:
    description: The tree.
    type: path
    required: true
  cache:
    description: Where to keep what was built and fetched.
    type: path
    required: true
  ready:
    description: A directory of wheels that is taken as it is, in place of a tree.
    type: str
    default: ""
  extras:
    description: Extras of pyproject.toml to include.
    type: list
    elements: str
    default: []
  python_version:
    description: Of the host, as V(3.11).
    type: str
    required: true
  machine:
    description: Of the host, as V(x86_64).
    type: str
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Build what the host is to install
  highwater_wheelhouse:
    source: /home/operator/highwater
    cache: ~/.cache/highwater/wheelhouse
    python_version: "3.11"
    machine: x86_64
  delegate_to: localhost
  register: wheelhouse
"""

RETURN = r"""
name:
  description: Of the release.
  returned: always
  type: str
directory:
  description: Where its wheels are.
  returned: always
  type: str
wheels:
  description: Their file names; empty in check mode when nothing has been built yet.
  returned: always
  type: list
  elements: str
"""

ROOMS = ("bench", "broker", "common", "monitor", "pipeline", "reports", "spark_loadgen", "tuning")
"""Folders of the package `highwater`, which links to each of them."""
PACKAGE = "highwater"
AROUND = ("LICENSE", "README.md", "constraints.txt", "pyproject.toml")
NOT_SOURCE = ("__pycache__", ".mypy_cache", ".ruff_cache")
# Files in a wheel bear a time; this one is the earliest that a zip file can hold.
SOURCE_DATE_EPOCH = "315532800"
KEPT_RELEASES = 10
# Newest first: what Debian 12 and later can load. pip takes the first that a package offers.
PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")


class WheelhouseError(Exception):
    """Why there are no wheels, in one line with the way out."""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
            "ready": {"type": "str", "default": ""},
            "extras": {"type": "list", "elements": "str", "default": []},
            "python_version": {"type": "str", "required": True},
            "machine": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    try:
        if arguments["ready"]:
            directory = Path(arguments["ready"]).expanduser()
            name = name_of_ready(directory)
        else:
            source, cache = Path(arguments["source"]), Path(arguments["cache"]).expanduser()
            target = Target(arguments["python_version"], arguments["machine"])
            extras = sorted(arguments["extras"])
            name = name_of_tree(source, extras)
            directory = cache / f"{name}-{target}"
            if not module.check_mode:
                with locked(cache):
                    if not directory.is_dir():
                        build(source, cache, directory, extras, target)
                    os.utime(directory)
                    prune(cache)
    except (WheelhouseError, OSError) as error:
        module.fail_json(msg=str(error))
    wheels = sorted(path.name for path in directory.glob("*.whl"))
    module.exit_json(changed=False, name=name, directory=str(directory), wheels=wheels)


class Target:
    """What the wheels are for."""

    def __init__(self, python_version: str, machine: str) -> None:
        self.python_version = python_version
        self.machine = machine

    def __str__(self) -> str:
        return f"python{self.python_version}-{self.machine}"

    @property
    def is_like_this_machine(self) -> bool:
        here = (f"{sys.version_info.major}.{sys.version_info.minor}", platform.system(), platform.machine())
        return here == (self.python_version, "Linux", self.machine)


def source_files(source: Path) -> list[Path]:
    """What a release is built from, relative to the tree."""
    missing = [name for name in (*AROUND, PACKAGE, *ROOMS) if not (source / name).exists()]
    if missing:
        raise WheelhouseError(f"{source} is no tree of Highwater: it has no {missing[0]}; set package_source")
    of_rooms = [
        path.relative_to(source)
        for room in (PACKAGE, *ROOMS)
        for path in sorted((source / room).rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and not any(part in NOT_SOURCE for part in path.parts)
    ]
    return [*map(Path, AROUND), *of_rooms]


def name_of_tree(source: Path, extras: list[str]) -> str:
    """The same for hosts with another Python: they run the same release."""
    digest = hashlib.sha256(" ".join(extras).encode() + b"\0")
    for path in source_files(source):
        content = (source / path).read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    version = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return "-".join((version, *extras, digest.hexdigest()[:12]))


def name_of_ready(directory: Path) -> str:
    wheels = sorted(directory.glob("*.whl"))
    ours = [wheel for wheel in wheels if wheel.name.startswith("highwater-")]
    if len(ours) != 1 or not any(wheel.name.startswith("pip-") for wheel in wheels):
        raise WheelhouseError(
            f"package_wheelhouse {directory} holds {len(wheels)} wheels, {len(ours)} of them of highwater; it needs "
            "just one, all that it depends on, and pip"
        )
    digest = hashlib.sha256()
    for wheel in wheels:
        digest.update(wheel.name.encode() + b"\0" + hashlib.sha256(wheel.read_bytes()).digest())
    return f"{ours[0].name.split('-')[1]}-{digest.hexdigest()[:12]}"


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One at a time: hosts ask at once, and the first builds for all of them."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(source: Path, cache: Path, directory: Path, extras: list[str], target: Target) -> None:
    """Whole or not at all: made aside, then renamed."""
    for abandoned in cache.glob(".making-*"):
        shutil.rmtree(abandoned)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=cache))
    try:
        ours = build_ours(source, making)
        dependencies = cache / f"dependencies-{dependency_key(source, extras, target)}"
        if not dependencies.is_dir():
            fetched = making / "dependencies"
            fetch_dependencies(ours, source, fetched, extras, target)
            fetched.rename(dependencies)
        wheels = making / "wheels"
        wheels.mkdir()
        for wheel in (ours, *dependencies.glob("*.whl")):
            os.link(wheel, wheels / wheel.name)
        wheels.rename(directory)
    finally:
        shutil.rmtree(making)


def build_ours(source: Path, making: Path) -> Path:
    """Our wheel, the same bytes for the same tree."""
    tree = making / "tree"
    for path in source_files(source):
        copied = tree / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, copied)
        copied.chmod(0o644)
    for room in ROOMS:
        (tree / PACKAGE / room).symlink_to(Path("..", room))
    pip("wheel", "--no-deps", "--wheel-dir", str(making / "ours"), str(tree))
    return next((making / "ours").glob("highwater-*.whl"))


def dependency_key(source: Path, extras: list[str], target: Target) -> str:
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    asked = (project["dependencies"], sorted(project["optional-dependencies"].items()), extras, str(target))
    pins = (source / "constraints.txt").read_text("utf-8")
    return hashlib.sha256(f"{asked}\0{pins}".encode()).hexdigest()[:12]


def fetch_dependencies(ours: Path, source: Path, fetched: Path, extras: list[str], target: Target) -> None:
    """The pinned versions of what is needed, and pip itself, which hosts may lack."""
    fetched.mkdir()
    constraints = ("-c", str(source / "constraints.txt"), "--find-links", str(fetched))
    wanted = (f"{ours}[{','.join(extras)}]" if extras else str(ours), "pip")
    if target.is_like_this_machine:
        pip("wheel", *constraints, "--wheel-dir", str(fetched), *wanted)
    else:
        if "bench" in extras:  # the one that is published as source alone; it is pure Python
            pip("wheel", *constraints, "--no-deps", "--wheel-dir", str(fetched), "pyspark")
        platforms = [option for name in PLATFORMS for option in ("--platform", f"{name}_{target.machine}")]
        version = ("--python-version", target.python_version, "--implementation", "cp")
        only = ("--only-binary", ":all:", *version, *platforms)
        pip("download", *constraints, *only, "--dest", str(fetched), *wanted)
    (fetched / ours.name).unlink(missing_ok=True)


def prune(cache: Path) -> None:
    """Releases beyond the newest, and dependencies that none of the rest links to."""
    releases = [path for path in cache.iterdir() if path.is_dir() and not path.name.startswith((".", "dependencies-"))]
    for old in sorted(releases, key=lambda path: path.stat().st_mtime_ns, reverse=True)[KEPT_RELEASES:]:
        shutil.rmtree(old)
    for dependencies in cache.glob("dependencies-*"):
        if all(wheel.stat().st_nlink == 1 for wheel in dependencies.iterdir()):
            shutil.rmtree(dependencies)


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    environment: dict[str, Any] = {**os.environ, "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no reason told"]
        why = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1])
        raise WheelhouseError(
            f"the controller cannot {'build' if arguments[0] == 'wheel' else 'fetch'} the wheels ({why}); it needs pip "
            "and a package index, or a directory of wheels as package_wheelhouse"
        )


if __name__ == "__main__":
    main()
