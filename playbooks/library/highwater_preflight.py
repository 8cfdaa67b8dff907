#!/usr/bin/python
"""Checks whether a host is fit for what is wanted of it. Reads the host only, and reports every fault it finds."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.highwater.common.units import size_text
from ansible.module_utils.highwater.tuning.facts import collect

DOCUMENTATION = r"""
module: highwater_preflight
short_description: Whether a host is fit for what is asked of it
description:
  - Changes nothing, and does not fail for what it finds; the faults are in what it returns, each a line.
  - Its action plugin also tells a host that cannot be reached, that has no root for us or no Python that is new enough,
    and asks M(highwater_storage) about the disks.
options:
  systems:
    description: Names of systems, as C(NAME) of C(/etc/os-release) begins, with their versions.
    type: dict
    default: {}
  min_memory_bytes:
    description: Memory that the host needs.
    type: int
    default: 0
  min_free_bytes:
    description: Free space that it needs, by directory.
    type: dict
    default: {}
  ports:
    description: TCP ports that will be listened on, with the unit that may do so already.
    type: list
    elements: dict
    default: []
    suboptions:
      port:
        description: The port.
        type: int
        required: true
      unit:
        description: The unit that will listen there.
        type: str
        required: true
  zookeeper_without_tls:
    description:
      - Configurations that a ZooKeeper was last started with, where it is to have no TLS and no logins.
      - Its data belong to its login, if it had one.
    type: list
    elements: str
    default: []
  storage:
    description: Arguments of M(highwater_storage), which is asked in check mode.
    type: dict
    default: {}
  permissions_needed:
    description: Whether a disk that may not be formatted yet is a fault.
    type: bool
    default: true
  skip:
    description: Checks to leave out.
    type: list
    elements: str
    default: []
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
- name: Look at the host
  highwater_preflight:
    systems: {Debian: ["12", "13"]}
    min_memory_bytes: 2147483648
    ports: [{port: 9092, unit: highwater-broker@main.service}]
  register: host_looked_at
"""

RETURN = r"""
faults:
  description: What is wrong, a line each, with the way out.
  returned: always
  type: list
  elements: str
clock_ahead_s:
  description: By how many seconds the clock is before the controller's.
  returned: when the host could be looked at
  type: float
memory_bytes:
  description: Memory of the host, or of its control group where that is less.
  returned: when the host could be looked at
  type: int
interpreter:
  description: The Python that Ansible uses (version), the processor (machine), and the version of glibc (libc).
  returned: when the host could be looked at
  type: dict
"""

_LISTENING = "0A"
_LEAST_PYTHON = (3, 11)


def main() -> None:
    port = {"port": {"type": "int", "required": True}, "unit": {"type": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "systems": {"type": "dict", "default": {}},
            "min_memory_bytes": {"type": "int", "default": 0},
            "min_free_bytes": {"type": "dict", "default": {}},
            "ports": {"type": "list", "elements": "dict", "default": [], "options": port},
            "zookeeper_without_tls": {"type": "list", "elements": "str", "default": []},
            "storage": {"type": "dict", "default": {}},
            "permissions_needed": {"type": "bool", "default": True},
            "skip": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    memory_bytes = collect().memory.budget_bytes or 0
    checks = {
        "system": lambda: [*fault_of_python(), *fault_of_system(wanted["systems"])],
        "memory": lambda: fault_of_memory(memory_bytes, wanted["min_memory_bytes"]),
        "space": lambda: faults_of_space(wanted["min_free_bytes"]),
        "ports": lambda: faults_of_ports({each["port"]: each["unit"] for each in wanted["ports"]}),
        "security": lambda: faults_of_secure_data(wanted["zookeeper_without_tls"]),
    }
    faults = [fault for name, check in checks.items() if name not in wanted["skip"] for fault in check()]
    module.exit_json(
        changed=False, faults=faults, memory_bytes=memory_bytes, interpreter=interpreter(), time_s=time.time()
    )


def interpreter() -> dict[str, str]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"version": version, "machine": platform.machine(), "libc": platform.libc_ver()[1]}


def fault_of_python() -> Iterator[str]:
    major, minor = sys.version_info[:2]
    if (major, minor) < _LEAST_PYTHON:
        version = f"{major}.{minor}"
        yield f"Ansible uses Python {version} there; set ansible_python_interpreter to one of 3.11 or newer"


def fault_of_system(systems: Mapping[str, list[str]]) -> Iterator[str]:
    text = _read("/etc/os-release")
    values = {name: value.strip("\"'") for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}
    name, version = values.get("NAME", "an unknown system").split(" ")[0], values.get("VERSION_ID", "")
    if systems and version not in [str(each) for each in systems.get(name, [])]:
        made_for = ", ".join(f"{known} {' and '.join(map(str, versions))}" for known, versions in systems.items())
        yield (
            f"runs {name} {version}".rstrip() + f", and the playbooks are made for {made_for}; install one of them, or "
            f"try it with preflight_systems: {{{name}: ['{version}']}}"
        )


def fault_of_memory(memory_bytes: int, needed_bytes: int) -> Iterator[str]:
    if memory_bytes < needed_bytes:
        yield (
            f"has {size_text(memory_bytes)} of memory, and what its groups put on it needs "
            f"{size_text(needed_bytes)}; move something to another host, or lower preflight_min_memory_bytes"
        )


def faults_of_space(needed: Mapping[str, int]) -> Iterator[str]:
    for path, needed_bytes in needed.items():
        there = next(folder for folder in (Path(path), *Path(path).parents) if folder.is_dir())
        found = os.statvfs(there)
        free_bytes = found.f_bavail * found.f_frsize
        if free_bytes < int(needed_bytes):
            yield (
                f"{path} has {size_text(free_bytes)} free and needs {size_text(int(needed_bytes))}; make room, "
                "or lower preflight_min_free_bytes"
            )


def faults_of_ports(units: Mapping[int, str]) -> Iterator[str]:
    for port, inode in _listeners():
        unit = units.get(port)
        if unit is None:
            continue
        process, its_unit = _holder_of(inode)
        if its_unit != unit:
            yield f"port {port} is to be {unit}'s and is held by {process}; stop that, or give one of them another port"


def faults_of_secure_data(paths: list[str]) -> Iterator[str]:
    """Each is beside the data of its ZooKeeper, or in their place while that is installed."""
    for path in paths:
        if re.search(r"^authProvider\.sasl=", _read(path), re.MULTILINE):
            yield (
                f"ZooKeeper had TLS and logins ({path}), so its data belong to its login, and cluster_security is "
                "none; set cluster_security back to tls, or remove the data of the cluster (teardown.yml -e "
                "teardown_confirmed=true -e teardown_remove_data=true)"
            )
            return


def _listeners() -> Iterator[tuple[int, str]]:
    """Port and socket of whatever listens, each port once."""
    found: dict[int, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _read(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING:
                found.setdefault(int(fields[1].rpartition(":")[2], 16), fields[9])
    yield from found.items()


def _holder_of(inode: str) -> tuple[str, str]:
    """The process with that socket, in words, and the unit that it belongs to."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [str(link.readlink()) for link in folder.iterdir()]
        except OSError:
            continue
        if f"socket:[{inode}]" in links:
            process = folder.parent
            units = re.findall(r"/([^/\s]+\.service)", _read(str(process / "cgroup")))
            unit = units[-1] if units else ""
            name = _read(str(process / "comm")).strip()
            return f"{name} (process {process.name}{f' of {unit}' if unit else ''})", unit
    return "a process that cannot be told", ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
