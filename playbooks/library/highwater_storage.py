#!/usr/bin/python
"""The Ansible module of data_disks: disks in, plan made or carried out, diff and mounts out."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.data_disks import ledger
from ansible.module_utils.data_disks.judging import Host, Judgement, Plan, make_plan
from ansible.module_utils.data_disks.making import carry_out, removals, take_away
from ansible.module_utils.data_disks.wanted import Disk, read_disks
from ansible.module_utils.highwater.tuning.boot_files import fstab
from ansible.module_utils.highwater.tuning.errors import TuningError
from ansible.module_utils.highwater.tuning.facts import collect
from ansible.module_utils.highwater.tuning.hostfiles import readable
from ansible.module_utils.highwater.tuning.runner import SystemRunner

DOCUMENTATION = r"""
module: highwater_storage
short_description: One file system on each data disk, mounted by its UUID
description:
  - Formats a blank disk when O(allow_format) is true, and never one that carries a signature of anything, is mounted,
    swapped to, or part of an array or a volume.
  - A file system that is there already is used when it is mounted at the mount point, when a line of C(/etc/fstab) or
    its UUID in O(disks) says so, or when it bears our label and holds nothing.
  - Mounts each by a line of C(/etc/fstab) with its UUID, of which only what is wanted is changed, and compares the
    options of what is mounted with what is wanted. Options that others added stay.
  - Nothing is changed when any of the disks has a fault. All faults are told at once.
  - A run that is killed anywhere is gone on with by the next one.
options:
  state:
    description: V(absent) takes away what was made, as far as O(unmount) and O(wipe) say.
    type: str
    choices: [present, absent]
    default: present
  disks:
    description: The disks of the host; those that an earlier run made and that are not named any more are left alone.
    type: list
    elements: dict
    default: []
    suboptions:
      device:
        description: Where the disk is, by a name that stays, as in C(/dev/disk/by-id).
        type: path
        required: true
      mount_point:
        description: Where its file system is mounted.
        type: path
        required: true
      medium:
        description: What it is; a kernel that says otherwise is a warning.
        type: str
        choices: [hdd, ssd]
        required: true
      name:
        description: What the label calls it; left out, the last part of the mount point.
        type: str
      filesystem:
        description: What a blank disk is formatted with.
        type: str
        choices: [ext4, xfs]
        default: ext4
      mount_options:
        description: Options that it has to be mounted with.
        type: list
        elements: str
        default: [noatime]
      mkfs_options:
        description: Arguments of mkfs; left out, what the tuning catalogue recommends.
        type: list
        elements: str
      emulated:
        description: Whether the disk only stands for its medium.
        type: bool
        default: false
      uuid:
        description: UUID of a file system that is on the disk already and is to be kept.
        type: str
  allow_format:
    description: Whether blank disks may be formatted.
    type: bool
    default: false
  device_timeout:
    description: How long a boot waits for a disk before it goes on without it.
    type: str
    default: 30s
  unmount:
    description: With O(state=absent), unmount what was mounted here, and take its lines out of C(/etc/fstab).
    type: bool
    default: false
  wipe:
    description: With O(state=absent), devices that were formatted here and are erased for good; needs O(unmount).
    type: list
    elements: path
    default: []
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
- name: Two disks, each with a mount of its own
  highwater_storage:
    disks:
      - {device: /dev/disk/by-id/ata-WDC_WD120-1, mount_point: /data/hdd1, medium: hdd}
      - {device: /dev/disk/by-id/nvme-P4510-1, mount_point: /data/ssd1, medium: ssd, filesystem: xfs}
    allow_format: true

- name: Use a file system that is there, with what is in it
  highwater_storage:
    disks:
      - device: /dev/disk/by-id/ata-WDC_WD120-1
        mount_point: /data/hdd1
        medium: hdd
        uuid: 5f0c8a5e-3a7b-4a43-a6d7-1c5a3d1d0b0e

- name: Unmount what was mounted here
  highwater_storage:
    state: absent
    unmount: true
"""

RETURN = r"""
changes:
  description: One line per change, the formatting first.
  returned: success
  type: list
  elements: str
pending:
  description: Options that take effect only when a disk is next mounted.
  returned: success
  type: list
  elements: str
permissions:
  description: What has to be allowed before the disks can be made; it fails the host unless in check mode.
  returned: always
  type: list
  elements: str
faults:
  description: One line for each reason why nothing was changed.
  returned: always
  type: list
  elements: str
storage_mounts:
  description: The disks as they are when all is done.
  returned: success
  type: list
  elements: dict
"""


def main() -> None:
    strings = {"type": "list", "elements": "str"}
    disk = {
        "device": {"type": "path", "required": True},
        "mount_point": {"type": "path", "required": True},
        "medium": {"type": "str", "choices": ["hdd", "ssd"], "required": True},
        "name": {"type": "str"},
        "filesystem": {"type": "str", "choices": ["ext4", "xfs"], "default": "ext4"},
        "mount_options": {**strings, "default": ["noatime"]},
        "mkfs_options": strings,
        "emulated": {"type": "bool", "default": False},
        "uuid": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "disks": {"type": "list", "elements": "dict", "default": [], "options": disk},
            "allow_format": {"type": "bool", "default": False},
            "device_timeout": {"type": "str", "default": "30s"},
            "unmount": {"type": "bool", "default": False},
            "wipe": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="disks can be looked at by root only; set become: true", faults=[], permissions=[])
    try:
        result = absent(module) if module.params["state"] == "absent" else present(module)
    except (TuningError, OSError) as error:
        module.fail_json(msg=str(error), faults=[str(error)], permissions=[])
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


def present(module: AnsibleModule) -> dict[str, Any]:
    """Plan, and carry the plan out unless in check mode."""
    facts, runner = collect(), SystemRunner()
    disks, faults = read_disks(module.params["disks"], module.params["device_timeout"])
    fail_for(module, faults)
    text = facts.files.read_verbatim(fstab.PATH) or ""
    host = Host(facts, runner, text, ledger.read(facts.files))
    if module.check_mode:
        host = dataclasses.replace(host, new_uuid=lambda: "(new)")
    plan = make_plan(disks, host, allow_format=module.params["allow_format"])
    fail_for(module, plan.faults, plan.permissions)
    changes = plan.changes()
    if not module.check_mode:
        fail_for(module, plan.permissions, plan.permissions)
        if changes:
            carry_out(plan, facts, runner)
    return {
        "changed": bool(changes),
        "changes": changes,
        "pending": plan.pending,
        "permissions": plan.permissions,
        "faults": [],
        "storage_mounts": [mounted(judged) for judged in plan.judgements],
        # What cannot be undone is said whether or not a diff was asked for.
        "warnings": [*plan.warnings, *(plan.formatting() if module.check_mode else [])],
        "diff": diff_of(plan),
    }


def absent(module: AnsibleModule) -> dict[str, Any]:
    facts, runner = collect(), SystemRunner()
    unmount, wipe = module.params["unmount"], module.params["wipe"]
    if wipe and not unmount:
        fail_for(module, [f"{', '.join(wipe)} can be erased only once unmounted; set teardown_unmount: true as well"])
    found, faults = removals(ledger.read(facts.files), facts, runner, wipe=wipe) if unmount else ([], [])
    fail_for(module, faults)
    if not module.check_mode:
        take_away(found, facts, runner)
    changes = [change for removal in found for change in removal.describe()]
    return {
        "changed": bool(found),
        "changes": changes,
        "pending": [],
        "permissions": [],
        "faults": [],
        "storage_mounts": [],
        "warnings": [],
        "diff": part("disks", "", "".join(f"{change}\n" for change in changes)),
    }


def fail_for(module: AnsibleModule, faults: list[str], permissions: list[str] | None = None) -> None:
    if faults:
        module.fail_json(msg="\n".join(faults), faults=faults, permissions=permissions or [])


def mounted(judged: Judgement) -> dict[str, Any]:
    disk: Disk = judged.disk
    device = judged.device
    return {
        "name": disk.name,
        "device": disk.device,
        "mount_point": disk.mount_point,
        # In check mode a disk that would be formatted has none yet.
        "uuid": "" if judged.format else judged.uuid,
        "filesystem": disk.filesystem,
        "medium": disk.medium,
        "model": device.model if device else "",
        "size_bytes": device.size_bytes if device else 0,
        "mount_options": list(disk.mount_options),
        "emulated": disk.emulated,
    }


def diff_of(plan: Plan) -> list[dict[str, str]]:
    """Disks that are formatted, then /etc/fstab, then what is mounted."""
    formatted = [judged for judged in plan.judgements if judged.format]
    parts = [
        part(
            f"disk {judged.disk.device}",
            f"blank, {judged.device.describe() if judged.device else ''}\n",
            f"FORMATTED as {judged.disk.filesystem}, label {judged.disk.label}\n",
        )
        for judged in formatted
    ]
    if plan.fstab_before != plan.fstab_after:
        parts.append(part("/etc/fstab", plan.fstab_before, plan.fstab_after))
    before = after = ""
    for judged in plan.judgements:
        place = f"mount {judged.disk.mount_point}"
        if judged.mount:
            before += f"{place} = nothing\n"
            after += f"{place} = {judged.disk.device}\n"
        elif judged.remounts:
            before += "".join(f"{place} = {','.join(step.before_options)}\n" for step in judged.remounts)
            after += "".join(f"{place} = {','.join(step.after_options)}\n" for step in judged.remounts)
    if after:
        parts.append(part("running system", before, after))
    return parts


def part(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": readable(before), "after": readable(after)}


if __name__ == "__main__":
    main()
