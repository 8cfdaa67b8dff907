#!/usr/bin/python
"""Whether services run, and whether they were started with what is wanted of them now."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_unit_state
short_description: Whether services run, and with what is wanted
description:
  - A unit that keeps, at each start, what it was started with (C(ExecStartPre=) with C(sha256sum) of its files into a
    file of its runtime directory) can be asked later whether that is still what is wanted.
  - So a restart that is due is found by any later run, whoever changed a file and whether or not the run that changed
    it came to its end; and a service that systemd started anew meanwhile is not restarted again.
  - Changes nothing.
options:
  units:
    description: The services to judge.
    type: list
    elements: dict
    required: true
    suboptions:
      unit:
        description: Name of the unit.
        type: str
        required: true
      record:
        description: Where it keeps what it was started with, as sha256sum prints it.
        type: path
        required: true
      files:
        description: What the record holds; paths, which may have wildcards.
        type: list
        elements: str
        required: true
      digests:
        description: >-
          Texts that some of these files will have, as the SHA-256 of each, by path; the others are wanted as they are.
          The journal of a host keeps what modules are told, and a text may hold secrets.
        type: dict
        default: {}
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
- name: Ask whether the broker has to be restarted
  highwater_unit_state:
    units:
      - unit: highwater-broker@main.service
        record: /run/highwater-broker/main/started
        files: [/etc/highwater/broker-main.properties, /etc/systemd/system/highwater-broker@.service.d/*.conf]
  register: state
"""

RETURN = r"""
units:
  description: >-
    For each unit, in their order, C(unit), C(is_running), C(is_starting), C(main_pid), C(state) as systemd calls it,
    C(restarts) that systemd made by itself since somebody started it, and C(stale), the files that are not as they were
    at its start; of a unit that runs or starts.
  returned: always
  type: list
  elements: dict
"""

PROPERTIES = ("ActiveState", "SubState", "MainPID", "NRestarts")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "unit": {"type": "str", "required": True},
                    "record": {"type": "path", "required": True},
                    "files": {"type": "list", "elements": "str", "required": True},
                    "digests": {"type": "dict", "default": {}},
                },
            }
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, units=[judge(unit) for unit in module.params["units"]])


def judge(unit: dict[str, Any]) -> dict[str, Any]:
    properties = show(unit["unit"])
    state = properties.get("ActiveState", "inactive")
    is_running = state in ("active", "reloading")
    # One that waits to be started again has failed for now.
    is_starting = state == "activating" and properties.get("SubState") != "auto-restart"
    return {
        "unit": unit["unit"],
        "state": f"{state} ({properties['SubState']})" if properties.get("SubState") else state,
        "is_running": is_running,
        "is_starting": is_starting,
        "main_pid": int(properties.get("MainPID") or 0),
        "restarts": int(properties.get("NRestarts") or 0),
        "stale": stale_files(Path(unit["record"]), unit["files"], unit["digests"]) if is_running or is_starting else [],
    }


def stale_files(record: Path, patterns: list[str], wanted: dict[str, str]) -> list[str]:
    """Paths of which the record has another content than is wanted, or none."""
    now = dict(wanted)
    for path in (found for pattern in patterns for found in Path("/").glob(pattern.lstrip("/"))):
        if str(path) not in now and path.is_file():
            now[str(path)] = digest(path.read_bytes())
    then = read_record(record)
    return sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path))


def read_record(record: Path) -> dict[str, str]:
    """Digests by path. A unit without a record was started by something else than what is wanted."""
    try:
        lines = record.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    parts = [line.partition("  ") for line in lines]
    return {path: hexadecimal for hexadecimal, separator, path in parts if separator}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def show(unit: str) -> dict[str, str]:
    """What systemd knows of it; nothing where there is no systemd yet."""
    command = ["systemctl", "show", unit, f"--property={','.join(PROPERTIES)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


if __name__ == "__main__":
    main()
