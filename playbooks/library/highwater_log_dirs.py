#!/usr/bin/python
"""Checks whether brokers may use their log directories: the owner, and the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: highwater_log_dirs
short_description: Whether brokers may use their log directories
description:
  - A log directory belongs to one broker of one cluster, which its meta.properties names, and lies on a mounted disk.
    An inventory that says otherwise fails the host, with all that is wrong.
  - Changes nothing.
options:
  instances:
    description: The brokers of the host, with C(name), C(cluster), C(broker_id) and C(log_dirs).
    type: list
    elements: dict
    required: true
  mount_points:
    description: Where disks of brokers are mounted. In check mode one that is not mounted counts as it will be.
    type: list
    elements: path
    default: []
  allow_root_filesystem:
    description: Allow log directories on the root file system.
    type: bool
    default: false
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
- name: See whose the log directories are
  highwater_log_dirs:
    instances:
      - {name: main, cluster: main, broker_id: 1, log_dirs: [/data/ssd1/highwater]}
    mount_points: [/data/ssd1]
"""

RETURN = r"""
log_dirs:
  description: Each with C(path), C(cluster) of the inventory, and C(cluster_id), empty for one that no broker has used.
  returned: always
  type: list
  elements: dict
"""

META_PROPERTIES = "meta.properties"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": {"type": "list", "elements": "dict", "required": True},
            "mount_points": {"type": "list", "elements": "path", "default": []},
            "allow_root_filesystem": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    arguments = module.params
    faults: list[str] = []
    found: list[dict[str, Any]] = []
    for instance in arguments["instances"]:
        for text in instance["log_dirs"]:
            path = Path(text)
            if fault := fault_of_place(path, arguments, is_check=module.check_mode):
                faults.append(fault)
                continue
            owner = read_properties(path / META_PROPERTIES)
            broker_id = owner.get("broker.id", owner.get("node.id", ""))
            if broker_id and broker_id != str(instance["broker_id"]):
                faults.append(
                    f"{path} belongs to broker {broker_id}, and the inventory gives it to broker "
                    f"{instance['broker_id']} ({instance['name']}); give that its id back, or name an empty directory"
                )
            found.append({"path": text, "cluster": instance["cluster"], "cluster_id": owner.get("cluster.id", "")})
    if faults:
        module.fail_json(msg="; ".join(faults), log_dirs=found)
    module.exit_json(changed=False, log_dirs=found)


def fault_of_place(path: Path, arguments: dict[str, Any], *, is_check: bool) -> str:
    """What is wrong with where it is; empty when nothing is."""
    if not path.is_absolute():
        return f"log directory {path}: write its whole path"
    for mount_point in arguments["mount_points"]:
        if path.is_relative_to(mount_point):
            if os.path.ismount(mount_point) or is_check:
                return ""
            return f"log directory {path}: no disk is mounted on {mount_point}; run provision.yml first"
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if existing.stat().st_dev != Path("/").stat().st_dev or arguments["allow_root_filesystem"]:
        return ""
    return (
        f"log directory {path} is on the root file system, and a log that fills it stops the host; name one on a disk "
        "of storage_disks, or set broker_allow_root_filesystem to try it out"
    )


def read_properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, value in pairs}


if __name__ == "__main__":
    main()
