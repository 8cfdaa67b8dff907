#!/usr/bin/python
"""The controller's side of a release: its name and its wheels, built once for each tree."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_wheelhouse
short_description: Wheels of Highwater and of all that it needs, for hosts without a package index
description:
  - Runs on the controller. Builds our wheel from a tree and fetches the pinned versions of what it depends on, for the
    Python and the processor of the host that is asked for. Of what is fetched, pip takes files alone whose SHA-256
    C(requirements/) of the tree pins, and so it does with what it builds wheels with.
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
LOCKS = ("requirements/dev.txt", "requirements/jdk.txt", "requirements/tools.txt")
"""The SHA-256 of each file that may be fetched, as `make lock` writes them. The last has pip and what builds wheels."""
AROUND = ("LICENSE", "README.md", "constraints.txt", "pyproject.toml", *LOCKS)
NOT_SOURCE = ("__pycache__", ".mypy_cache", ".ruff_cache")
# Files in a wheel bear a time; this one is the earliest that a zip file can hold.
SOURCE_DATE_EPOCH = "315532800"
KEPT_RELEASES = 10
# Newest first: what Debian 12 and later can load. pip takes the first that a package offers.
PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


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
    def options(self) -> tuple[str, ...]:
        """Of pip, for wheels of another machine than this one."""
        if self.is_like_this_machine:
            return ()
        platforms = (option for name in PLATFORMS for option in ("--platform", f"{name}_{self.machine}"))
        return ("--python-version", self.python_version, "--implementation", "cp", *platforms)

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
        tools = Tools(source, making)
        ours = build_ours(source, making, tools)
        dependencies = cache / f"dependencies-{dependency_key(source, extras, target)}"
        if not dependencies.is_dir():
            fetched = making / "dependencies"
            fetch_dependencies(ours, source, fetched, extras, target, tools)
            fetched.rename(dependencies)
        wheels = making / "wheels"
        wheels.mkdir()
        for wheel in (ours, *dependencies.glob("*.whl")):
            os.link(wheel, wheels / wheel.name)
        wheels.rename(directory)
    finally:
        shutil.rmtree(making)


class Tools:
    """pip and setuptools of the releases that the tree pins, in an environment that is there while wheels are made."""

    def __init__(self, source: Path, making: Path) -> None:
        environment = making / "tools"
        # Debian's Python has no ensurepip without another package; the controller's pip installs this one.
        run(sys.executable, "-m", "venv", "--without-pip", str(environment))
        self._python = str(environment / "bin/python")
        run(*_PIP, "--python", self._python, "install", "--require-hashes", "-r", str(source / LOCKS[-1]))

    def pip(self, *arguments: str) -> None:
        run(self._python, *_PIP[1:], *arguments)


def build_ours(source: Path, making: Path, tools: Tools) -> Path:
    """Our wheel, the same bytes for the same tree."""
    tree = making / "tree"
    for path in source_files(source):
        copied = tree / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, copied)
        copied.chmod(0o644)
    for room in ROOMS:
        (tree / PACKAGE / room).symlink_to(Path("..", room))
    tools.pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(making / "ours"), str(tree))
    return next((making / "ours").glob("highwater-*.whl"))


def dependency_key(source: Path, extras: list[str], target: Target) -> str:
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    asked = (project["dependencies"], sorted(project["optional-dependencies"].items()), extras, str(target))
    pins = "\0".join((source / name).read_text("utf-8") for name in ("constraints.txt", *LOCKS))
    return hashlib.sha256(f"{asked}\0{pins}".encode()).hexdigest()[:12]


def fetch_dependencies(
    ours: Path, source: Path, fetched: Path, extras: list[str], target: Target, tools: Tools
) -> None:
    """The pinned versions of what is needed, and pip itself, which hosts may lack.

    What is needed is asked of pip first, and wheels alone are looked at for that: nothing is run, or kept, that is not
    what requirements/ pins.
    """
    fetched.mkdir()
    pinned = pins(source)
    making = fetched.parent
    if "bench" in extras or "pipeline" in extras:  # the one that is published as source alone
        listed = hashed(making / "source.txt", {"pyspark": pinned["pyspark"]})
        tools.pip("wheel", "--no-build-isolation", "--no-deps", *listed, "--wheel-dir", str(fetched))
    built = {canonical(wheel.name.partition("-")[0]) for wheel in fetched.glob("*.whl")}
    only = ("--only-binary", ":all:", "--find-links", str(fetched), *target.options)
    constraints = ("-c", str(source / "constraints.txt"))
    wanted = (f"{ours}[{','.join(extras)}]" if extras else str(ours), f"pip=={pinned['pip'].version}")
    report = making / "report.json"
    dry = ("install", "--dry-run", "--ignore-installed", "--target", str(making / "nowhere"), "--report", str(report))
    tools.pip(*dry, *constraints, *only, *wanted)
    needed = {
        canonical(each["metadata"]["name"]): str(each["metadata"]["version"])
        for each in json.loads(report.read_text("utf-8"))["install"]
    }
    del needed[PACKAGE]
    for name, version in needed.items():
        if name not in pinned or pinned[name].version != version:
            raise WheelhouseError(f"requirements/ of the tree has no SHA-256 of {name} {version}; make lock adds it")
    listed = hashed(making / "fetched.txt", {name: pinned[name] for name in sorted(needed.keys() - built)})
    tools.pip("download", "--no-deps", *only, *listed, "--dest", str(fetched))


class Pin(NamedTuple):
    """A release, and pip's options with the SHA-256 of each of its files."""

    version: str
    hashes: tuple[str, ...]


def pins(source: Path) -> dict[str, Pin]:
    """All that requirements/ pins, by its canonical name."""
    found = {}
    for lock in LOCKS:
        for entry in (source / lock).read_text("utf-8").replace("\\\n", " ").splitlines():
            # Markers are left out: whether a release is needed is known by then.
            if match := re.match(r"([\w.-]+)==([^\s;]+)", entry):
                found[canonical(match[1])] = Pin(match[2], tuple(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)))
    return found


def hashed(file: Path, releases: Mapping[str, Pin]) -> tuple[str, ...]:
    """Writes a list for pip; returns the options that name it."""
    lines = (f"{name}=={pin.version} {' '.join(pin.hashes)}\n" for name, pin in releases.items())
    file.write_text("".join(lines), "utf-8")
    return ("--require-hashes", "--requirement", str(file))


def canonical(name: str) -> str:
    """As PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def prune(cache: Path) -> None:
    """Releases beyond the newest, and dependencies that none of the rest links to."""
    releases = [path for path in cache.iterdir() if path.is_dir() and not path.name.startswith((".", "dependencies-"))]
    for old in sorted(releases, key=lambda path: path.stat().st_mtime_ns, reverse=True)[KEPT_RELEASES:]:
        shutil.rmtree(old)
    for dependencies in cache.glob("dependencies-*"):
        if all(wheel.stat().st_nlink == 1 for wheel in dependencies.iterdir()):
            shutil.rmtree(dependencies)


def run(*command: str) -> None:
    environment: dict[str, Any] = {**os.environ, "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WheelhouseError(why_not(done.stdout + done.stderr, is_built="wheel" in command))


def why_not(said: str, *, is_built: bool) -> str:
    if other := re.search(r"DO NOT MATCH THE HASHES.*\n\s*(\S.*):\n", said):
        return (
            f"requirements/ of the tree pins another file than {other[1]}: no release was made; find out who changed it"
        )
    lines = [line for line in said.splitlines() if line.strip()] or ["no reason told"]
    why = next((line for line in lines if line.startswith("ERROR")), lines[-1])
    return (
        f"the controller cannot {'build' if is_built else 'fetch'} the wheels ({why}); it needs pip and a package "
        "index, or a directory of wheels as package_wheelhouse"
    )


if __name__ == "__main__":
    main()
