#!/usr/bin/python
"""The controller's side of a release: its name and its wheels, built once for each tree."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
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
  - With O(compiled) the hot modules of the broker are machine code where the host has the Python, the processor and no
    older C library than the controller. The name of such a release ends with C(-compiled).
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
  libc:
    description: Version of the host's glibc, as V(2.36); only O(compiled) needs it.
    type: str
    default: ""
  compiled:
    description:
      - V(false) takes Python alone; V(auto) takes compiled modules where the controller can make them for the host, or
        where O(ready) has a wheel with them for it; V(true) also fails where that is not so.
    type: str
    choices: ["false", "auto", "true"]
    default: "false"
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
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
compiled:
  description: Whether the hot modules of the broker are machine code in it.
  returned: always
  type: bool
why_not:
  description: Why they are not, where that was asked for; or empty.
  returned: always
  type: str
"""

ROOMS = ("bench", "broker", "common", "monitor", "pipeline", "reports", "spark_loadgen", "tuning")
"""Rooms of the package `highwater` that stand at the top level; it links to each of them."""
PACKAGE = "highwater"
DISTRIBUTION = "highwater-kafka"
OURS = f"{DISTRIBUTION.replace('-', '_')}-"
"""The beginning of the file name of our wheel."""
LOCKS = ("requirements/dev.txt", "requirements/jdk.txt", "requirements/tools.txt")
"""The SHA-256 of each file that may be fetched, as `make lock` writes them. The last has pip and what builds wheels."""
AROUND = ("LICENSE", "README.md", "constraints.txt", "highwater_kafka.py", "pyproject.toml", "setup.py", *LOCKS)
NOT_SOURCE = ("__pycache__", ".mypy_cache", ".ruff_cache")
# Files in a wheel bear a time; this one is the earliest that a zip file can hold.
SOURCE_DATE_EPOCH = "315532800"
KEPT_RELEASES = 10
# Newest first: what Debian 12 and later can load. pip takes the first that a package offers.
PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
COMPILED = "-compiled"
"""Ends the name of a release with compiled modules; a release of the same sources without them has the rest of it."""
# mypyc comes with mypy, and reads the types of what is imported.
COMPILER = ("mypy", "types-greenlet", "types-psutil")
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
            "libc": {"type": "str", "default": ""},
            "compiled": {"type": "str", "choices": ["false", "auto", "true"], "default": "false"},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    target = Target(arguments["python_version"], arguments["machine"], arguments["libc"])
    try:
        if arguments["ready"]:
            result = take_ready(Path(arguments["ready"]).expanduser(), arguments["compiled"], target)
        else:
            result = take_built(arguments, target, only_look=module.check_mode)
    except (WheelhouseError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


def take_built(arguments: Mapping[str, Any], target: Target, *, only_look: bool) -> dict[str, Any]:
    source, cache = Path(arguments["source"]), Path(arguments["cache"]).expanduser()
    extras = sorted(arguments["extras"])
    why_not = chosen(arguments["compiled"], why_not_compiled(target))
    is_compiled = arguments["compiled"] != "false" and not why_not
    name = name_of_tree(source, extras) + (COMPILED if is_compiled else "")
    directory = cache / f"{name}-{target}"
    if not only_look:
        with locked(cache):
            if not directory.is_dir():
                build(source, cache, directory, extras, target, is_compiled=is_compiled)
            os.utime(directory)
            prune(cache)
    return {
        "name": name,
        "directory": str(directory),
        "wheels": sorted(path.name for path in directory.glob("*.whl")),
        "compiled": is_compiled,
        "why_not": why_not,
    }


def take_ready(directory: Path, compiled: str, target: Target) -> dict[str, Any]:
    wheels = sorted(path.name for path in directory.glob("*.whl"))
    ours = [name for name in wheels if name.startswith(OURS)]
    python = [name for name in ours if name.endswith("-none-any.whl")]
    fitting = [name for name in ours if name not in python and target.takes(name)]
    why_not = chosen(
        compiled, "" if fitting else f"package_wheelhouse {directory} has no compiled wheel for {target.words}"
    )
    is_compiled = compiled != "false" and not why_not
    taken = fitting if is_compiled else python
    if len(taken) != 1 or not any(name.startswith("pip-") for name in wheels):
        kind = "compiled for the host" if is_compiled else "Python for any machine"
        raise WheelhouseError(
            f"package_wheelhouse {directory} holds {len(wheels)} wheels, {len(ours)} of them of highwater, of which "
            f"{len(taken)} {'is' if len(taken) == 1 else 'are'} {kind}; it needs just one of that kind, all that it "
            f"depends on, and pip{'; or set broker_compiled: true' if fitting and not is_compiled else ''}"
        )
    return {
        "name": name_of_ready(directory, wheels, taken[0]) + (COMPILED if is_compiled else ""),
        "directory": str(directory),
        "wheels": [name for name in wheels if name not in ours or name in taken],
        "compiled": is_compiled,
        "why_not": why_not,
    }


def chosen(compiled: str, why_not: str) -> str:
    """Why the broker is not compiled although somebody would like it. Raises WheelhouseError where it has to be."""
    if compiled == "true" and why_not:
        raise WheelhouseError(
            f"the broker cannot be compiled for the host: {why_not}; set broker_compiled: auto for hosts that may run "
            "it as Python, or name a directory with a compiled wheel for them as package_wheelhouse"
        )
    return "" if compiled == "false" else why_not


def why_not_compiled(target: Target) -> str:
    """What keeps the controller from making machine code for the host; empty if nothing does."""
    here = Target.of_this_machine()
    if not target.is_like_this_machine:
        return f"the controller has {here.words}, and the host has {target.words}"
    if numbers(target.libc) < numbers(here.libc) or not here.libc:
        return (
            f"the controller has glibc {here.libc or 'of no known version'}, and the host has {target.libc or 'none'}"
        )
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "the controller has no C compiler (apt-get install gcc)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "the controller has no headers of its Python (apt-get install python3-dev)"
    return ""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


class Target:
    """What the wheels are for."""

    def __init__(self, python_version: str, machine: str, libc: str = "") -> None:
        self.python_version = python_version
        self.machine = machine
        self.libc = libc

    @classmethod
    def of_this_machine(cls) -> Target:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return cls(version, platform.machine(), platform.libc_ver()[1])

    @property
    def words(self) -> str:
        return f"Python {self.python_version} on {self.machine}"

    def takes(self, wheel: str) -> bool:
        """Whether a wheel with machine code is for this Python and this processor; it does not say which C library."""
        python, abi, machine = wheel.removesuffix(".whl").split("-")[-3:]
        tag = f"cp{self.python_version.replace('.', '')}"
        return (python, abi) == (tag, tag) and machine.endswith(f"_{self.machine}")

    def __str__(self) -> str:
        return f"python{self.python_version}-{self.machine}"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of pip for wheels of another machine than this one."""
        if self.is_like_this_machine:
            return ()
        platforms = (option for name in PLATFORMS for option in ("--platform", f"{name}_{self.machine}"))
        return ("--python-version", self.python_version, "--implementation", "cp", *platforms)

    @property
    def is_like_this_machine(self) -> bool:
        here = Target.of_this_machine()
        return platform.system() == "Linux" and str(here) == str(self)


def source_files(source: Path) -> list[Path]:
    """What a release is built from, relative to the tree."""
    missing = [name for name in (*AROUND, PACKAGE, *ROOMS) if not (source / name).exists()]
    if missing:
        raise WheelhouseError(f"{source} is not a tree of Highwater: it has no {missing[0]}; set package_source")
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


def name_of_ready(directory: Path, wheels: list[str], ours: str) -> str:
    """The same for hosts that take another wheel of ours from it."""
    digest = hashlib.sha256()
    for wheel in wheels:
        digest.update(wheel.encode() + b"\0" + hashlib.sha256((directory / wheel).read_bytes()).digest())
    return f"{ours.split('-')[1]}-{digest.hexdigest()[:12]}"


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One at a time: hosts ask at once, and the first builds for all of them."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(source: Path, cache: Path, directory: Path, extras: list[str], target: Target, *, is_compiled: bool) -> None:
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
        if is_compiled:
            try:
                tools.add_compiler(source, making, dependencies)
                ours = build_ours(source, making, tools, is_compiled=True)
            except WheelhouseError as error:
                raise WheelhouseError(f"{error}; broker_compiled: false needs no compiler") from None
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

    def pip(self, *arguments: str, **environment: str) -> None:
        run(self._python, *_PIP[1:], *arguments, **environment)

    def add_compiler(self, source: Path, making: Path, dependencies: Path) -> None:
        """mypyc, and what the modules import: it reads the types there."""
        imported = [str(wheel) for wheel in dependencies.glob("*.whl") if not wheel.name.startswith("pip-")]
        self.pip("install", "--no-index", "--no-deps", *imported)
        compiler = needed(source, making, self, ("--only-binary", ":all:"), COMPILER)
        listed = hashed(making / "compiler.txt", compiler)
        self.pip("install", "--no-deps", "--only-binary", ":all:", *listed)


def build_ours(source: Path, making: Path, tools: Tools, *, is_compiled: bool = False) -> Path:
    """Our wheel, of Python the same bytes for the same tree."""
    kind = "compiled" if is_compiled else "python"
    tree = making / f"tree-{kind}"
    for path in source_files(source):
        copied = tree / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, copied)
        copied.chmod(0o644)
    for room in ROOMS:
        (tree / PACKAGE / room).symlink_to(Path("..", room))
    wheels = making / f"ours-{kind}"
    options = ("--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels))
    # What the operator's shell has says nothing here.
    tools.pip("wheel", *options, str(tree), HIGHWATER_COMPILED="1" if is_compiled else "0")
    return next(wheels.glob(f"{OURS}*.whl"))


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
    wanted = (f"{ours}[{','.join(extras)}]" if extras else str(ours), f"pip=={pinned['pip'].version}")
    found = needed(source, making, tools, only, wanted)
    listed = hashed(making / "fetched.txt", {name: pin for name, pin in found.items() if name not in built})
    tools.pip("download", "--no-deps", *only, *listed, "--dest", str(fetched))


def needed(source: Path, making: Path, tools: Tools, only: tuple[str, ...], wanted: tuple[str, ...]) -> dict[str, Pin]:
    """What pip would install for these, but for our own wheel, as requirements/ pins it."""
    pinned = pins(source)
    report = making / "report.json"
    dry = ("install", "--dry-run", "--ignore-installed", "--target", str(making / "nowhere"), "--report", str(report))
    tools.pip(*dry, "-c", str(source / "constraints.txt"), *only, *wanted)
    found = {
        canonical(each["metadata"]["name"]): str(each["metadata"]["version"])
        for each in json.loads(report.read_text("utf-8"))["install"]
    }
    found.pop(DISTRIBUTION, None)
    for name, version in found.items():
        if name not in pinned or pinned[name].version != version:
            raise WheelhouseError(f"requirements/ of the tree has no SHA-256 of {name} {version}; make lock adds it")
    return {name: pinned[name] for name in sorted(found)}


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
    """Return the name as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def prune(cache: Path) -> None:
    """Releases beyond the newest, and dependencies that none of the rest links to."""
    releases = [path for path in cache.iterdir() if path.is_dir() and not path.name.startswith((".", "dependencies-"))]
    for old in sorted(releases, key=lambda path: path.stat().st_mtime_ns, reverse=True)[KEPT_RELEASES:]:
        shutil.rmtree(old)
    for dependencies in cache.glob("dependencies-*"):
        if all(wheel.stat().st_nlink == 1 for wheel in dependencies.iterdir()):
            shutil.rmtree(dependencies)


def run(*command: str, **environment: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WheelhouseError(why_not(done.stdout + done.stderr, is_built="wheel" in command))


def why_not(said: str, *, is_built: bool) -> str:
    lines = [line for line in said.splitlines() if line.strip()] or ["no reason told"]
    for line, other in itertools.pairwise(lines):
        if "DO NOT MATCH THE HASHES" in line and other.endswith(":"):
            return (
                f"requirements/ of the tree pins another file than {other.strip(' :')}: no release was made; find out "
                "who changed it"
            )
    why = next((line for line in lines if line.startswith("ERROR")), lines[-1])
    return (
        f"the controller cannot {'build' if is_built else 'fetch'} the wheels ({why}); it needs pip and a package "
        "index, or a directory of wheels as package_wheelhouse"
    )


if __name__ == "__main__":
    main()
