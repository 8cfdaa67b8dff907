#!/usr/bin/python
"""Releases of one program on a host: each a Python environment of its own, one of them in use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_release
short_description: Install, put in use and remove releases of a program
description:
  - Below O(root) there are C(releases/<name>/), the link C(current) to the one in use, and C(previous) to that before.
  - A release is installed from wheels on the host, and nothing else. One that was cut short is made anew.
  - Programs that run keep the release that they were started with, whatever C(current) is.
options:
  root:
    description: Where the releases of the program are.
    type: path
    required: true
  state:
    description: >-
      V(found) changes nothing and says what there is; V(installed) makes the release, beside the others; V(current)
      puts it in use; V(pruned) removes all but the current and the previous one; V(absent) removes everything.
    type: str
    choices: [found, installed, current, pruned, absent]
    required: true
  name:
    description: Of the release; V(previous) for the one before.
    type: str
    default: ""
  compiled_or_not:
    description: >-
      Whether a release of the same sources does as well, with the hot modules of the broker compiled or not;
      O(state=found).
    type: bool
    default: false
  wheels_directory:
    description: Where wheels are kept on the host, for the releases of all programs.
    type: path
    default: /opt/highwater/wheels
  wheels:
    description: Those to install, by file name; O(state=installed).
    type: list
    elements: str
    default: []
  python:
    description: What to make the environment with; O(state=installed).
    type: path
    default: /usr/bin/python3
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Install a release
  highwater_release:
    root: /opt/highwater/broker
    state: installed
    name: 0.1.0-0123456789ab
    wheels: [highwater_kafka-0.1.0-py3-none-any.whl, pip-25.3-py3-none-any.whl]

- name: Go back
  highwater_release:
    root: /opt/highwater/broker
    state: current
    name: previous
"""

RETURN = r"""
name:
  description: The release that was asked for, or the one in use.
  returned: always
  type: str
path:
  description: Where that is, or will be.
  returned: always
  type: str
is_installed:
  description: Whether it was there before.
  returned: always
  type: bool
current:
  description: The release in use before; empty when none is.
  returned: always
  type: str
previous:
  description: The one that was in use before that.
  returned: always
  type: str
"""

MARK = "release"
"""The file of an environment with its name. It is written last: an environment without it was cut short."""
WHEELS = "wheels"
"""The file of an environment with the wheels that it was made of."""
COMPILED = "-compiled"
"""The end of the name of a release whose broker runs compiled, as highwater_wheelhouse has it."""
IMPORTED = """
import importlib
from highwater.common.compiled import compiled_modules
names = compiled_modules()
assert names, "the wheel has no machine code for this Python"
for name in names:
    importlib.import_module(name)
"""
"""Machine code of a newer C library is a file that Python finds and cannot load."""
PREVIOUS = "previous"
CURRENT = "current"


class ReleaseError(Exception):
    """What is wrong, in one line with the way out."""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "state": {
                "type": "str",
                "choices": ["found", "installed", "current", "pruned", "absent"],
                "required": True,
            },
            "name": {"type": "str", "default": ""},
            "compiled_or_not": {"type": "bool", "default": False},
            "wheels_directory": {"type": "path", "default": "/opt/highwater/wheels"},
            "wheels": {"type": "list", "elements": "str", "default": []},
            "python": {"type": "path", "default": "/usr/bin/python3"},
        },
        supports_check_mode=True,
    )
    releases = Releases(Path(module.params["root"]), Path(module.params["wheels_directory"]))
    try:
        result = _RUN[module.params["state"]](releases, module)
    except (ReleaseError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


class Releases:
    def __init__(self, root: Path, wheels: Path) -> None:
        self.root = root
        self.wheels = wheels

    def linked(self, link: str) -> str:
        """The release that a link names; empty without one."""
        path = self.root / link
        return path.readlink().name if path.is_symlink() else ""

    def path(self, name: str) -> Path:
        return self.root / "releases" / name

    def is_installed(self, name: str) -> bool:
        return bool(name) and (self.path(name) / MARK).is_file()

    def installed(self) -> list[str]:
        return sorted(path.parent.name for path in (self.root / "releases").glob(f"*/{MARK}"))

    def resolve(self, name: str) -> str:
        if name != PREVIOUS:
            return name
        found = self.linked(PREVIOUS)
        if not self.is_installed(found):
            raise ReleaseError(f"{self.root} has no previous release to go back to")
        return found

    def of_same_sources(self, name: str) -> str:
        """The release itself, or, where it is not installed, the one that is and differs in being compiled alone."""
        other = name.removesuffix(COMPILED) if name.endswith(COMPILED) else name + COMPILED
        return other if not self.is_installed(name) and self.is_installed(other) else name

    def link(self, link: str, name: str) -> None:
        making = self.root / f".{link}"
        making.unlink(missing_ok=True)
        making.symlink_to(Path("releases") / name)
        making.rename(self.root / link)

    def describe(self, name: str) -> dict[str, Any]:
        name = name or self.linked(CURRENT)
        return {
            "name": name,
            "path": str(self.path(name)),
            "is_installed": self.is_installed(name),
            "current": self.linked(CURRENT),
            "previous": self.linked(PREVIOUS),
        }


def found(releases: Releases, module: AnsibleModule) -> dict[str, Any]:
    name = releases.resolve(module.params["name"])
    if module.params["compiled_or_not"]:
        name = releases.of_same_sources(name)
    return {"changed": False, **releases.describe(name)}


def installed(releases: Releases, module: AnsibleModule) -> dict[str, Any]:
    name = module.params["name"]
    result = releases.describe(name)
    if result["is_installed"]:
        return {"changed": False, **result}
    if not module.check_mode:
        _install(releases, name, module.params["wheels"], module.params["python"])
    return {"changed": True, **result, "diff": _diff(f"{releases.root}/releases", "", f"{name}\n")}


def _install(releases: Releases, name: str, wheels: list[str], python: str) -> None:
    path = releases.path(name)
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    pips = [wheel for wheel in wheels if wheel.startswith("pip-")]
    if not pips:
        raise ReleaseError("none of the wheels is pip's")
    # Debian's Python has no ensurepip without another package; pip runs from its own wheel.
    _run([python, "-m", "venv", "--without-pip", str(path)])
    pip = [str(path / "bin/python"), str(releases.wheels / pips[0] / "pip"), "--disable-pip-version-check"]
    paths = [str(releases.wheels / wheel) for wheel in wheels if wheel not in pips]
    _run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", *paths])
    _run([*pip, "check"])
    if name.endswith(COMPILED):
        _require_machine_code(path)
    (path / WHEELS).write_text("".join(f"{wheel}\n" for wheel in wheels))
    (path / MARK).write_text(name)


def _require_machine_code(path: Path) -> None:
    done = subprocess.run([str(path / "bin/python"), "-I", "-c", IMPORTED], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.splitlines() or ["no reason told"])[-1]
        raise ReleaseError(
            f"the compiled modules of the release cannot be loaded here ({said}); set broker_compiled: false for this "
            "host, or name a directory with a wheel made for it as package_wheelhouse"
        )


def current(releases: Releases, module: AnsibleModule) -> dict[str, Any]:
    name = releases.resolve(module.params["name"])
    result = releases.describe(name)
    if not result["is_installed"] and not module.check_mode:
        there = ", ".join(releases.installed()) or "none"
        raise ReleaseError(f"release {name} is not installed below {releases.root}; there are: {there}")
    before = result["current"]
    if before == name:
        return {"changed": False, **result}
    if not module.check_mode:
        if before:
            releases.link(PREVIOUS, before)
        releases.link(CURRENT, name)
    link = f"{releases.root}/{CURRENT}"
    return {"changed": True, **result, "diff": _diff(link, f"{before}\n" if before else "", f"{name}\n")}


def pruned(releases: Releases, module: AnsibleModule) -> dict[str, Any]:
    kept = {releases.linked(CURRENT), releases.linked(PREVIOUS)}
    running = _in_use(releases.root)
    parent = releases.root / "releases"
    old = [path for path in parent.glob("*") if path.name not in kept | running] if releases.linked(CURRENT) else []
    if not module.check_mode:
        for path in old:
            shutil.rmtree(path)
        _prune_wheels(releases)
    names = "".join(f"{path.name}\n" for path in sorted(old))
    return {"changed": bool(old), **releases.describe(""), "diff": _diff(str(parent), names, "")}


def _in_use(root: Path) -> set[str]:
    """Releases that some process was started from."""
    start = f"{root}/releases/".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        found |= {word[len(start) :].split(b"/")[0].decode() for word in words if word.startswith(start)}
    return found


def _prune_wheels(releases: Releases) -> None:
    """What no release of any program was made of."""
    needed = {
        wheel for path in releases.root.parent.glob(f"*/releases/*/{WHEELS}") for wheel in path.read_text().splitlines()
    }
    for wheel in releases.wheels.glob("*.whl"):
        if wheel.name not in needed:
            wheel.unlink()


def absent(releases: Releases, module: AnsibleModule) -> dict[str, Any]:
    result = releases.describe("")
    if not releases.root.exists():
        return {"changed": False, **result}
    if not module.check_mode:
        shutil.rmtree(releases.root)
        _prune_wheels(releases)
        for directory in (releases.wheels, releases.root.parent):
            if directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()
    return {"changed": True, **result, "diff": _diff(str(releases.root), "present\n", "")}


def _diff(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise ReleaseError(f"{' '.join(command[:4])} … failed: {said[-600:]}")


_RUN = {"found": found, "installed": installed, "current": current, "pruned": pruned, "absent": absent}


if __name__ == "__main__":
    main()
