#!/usr/bin/python
"""Ansible's face of tuning/: arguments in, plan made or applied on the host, diff and reports out."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.tuning.change import Plan, apply_plan, changeable_knobs, make_plan
from ansible.module_utils.tuning.errors import TuningError
from ansible.module_utils.tuning.facts import collect
from ansible.module_utils.tuning.record import DEFAULT_PATH, Record
from ansible.module_utils.tuning.workload import parse_workload

DOCUMENTATION = r"""
module: highwater_tune
short_description: Set kernel settings and file limits as the tuning catalogue recommends
description:
  - Computes every value on the host, from its memory, its disks and the workload it is to carry.
  - A value that is good already stays, and a higher ceiling is never lowered.
  - Records what was there before the first change, writes, reads back, and fails on a write that had no effect.
  - Keeps kernel settings in C(/etc/sysctl.d/90-highwater.conf), file limits in systemd drop-ins and in limits.d.
options:
  knobs:
    description: Ids of the knobs to set, as C(highwater tune check) names them; C(all) is every one that can be set.
    type: list
    elements: str
    default: [all]
  skip_knobs:
    description: Ids of knobs to leave alone.
    type: list
    elements: str
    default: []
  workload:
    description: What the host carries, by the keys of C(highwater tune check --workload), and C(data_dirs).
    type: dict
    default: {}
  units:
    description: Service units that get the file limit by a drop-in.
    type: list
    elements: str
    default: []
  login_domains:
    description: Users, @groups or C(*) that get the file limit at login.
    type: list
    elements: str
    default: []
  record:
    description: File that keeps the values from before the first change.
    type: path
    default: /var/lib/highwater/tuning-record.json
  root:
    description: Top of the tree to tune; anything but C(/) is a fake host.
    type: path
    default: /
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Set everything for a broker on two SSDs
  highwater_tune:
    workload:
      data_dirs: [/data/ssd1, /data/ssd2]
      disk_write_rate: 450MB/s
    units: [highwater-broker@.service]
"""

RETURN = r"""
changes:
  description: One line per changed setting and file.
  returned: always
  type: list
  elements: str
knobs:
  description: The reports of C(highwater tune check --json) for the chosen knobs, from before the change.
  returned: always
  type: list
  elements: dict
systemd_reload_needed:
  description: Whether a drop-in changed, so that systemd has to read its files again.
  returned: always
  type: bool
"""


def main() -> None:
    strings = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "knobs": {**strings, "default": ["all"]},
            "skip_knobs": {**strings, "default": []},
            "workload": {"type": "dict", "default": {}},
            "units": {**strings, "default": []},
            "login_domains": {**strings, "default": []},
            "record": {"type": "path", "default": DEFAULT_PATH},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        plan = run(module)
    except TuningError as error:
        module.fail_json(msg=str(error))
    for warning in plan.warnings:
        module.warn(warning)
    module.exit_json(
        changed=plan.changes_anything,
        changes=[
            *(f"{change.knob.id}: {change.before} -> {change.after}" for change in plan.settings),
            *(change.path for change in plan.files),
        ],
        knobs=[report.as_json() for report in plan.reports],
        systemd_reload_needed=any("/systemd/" in change.path for change in plan.files),
        diff=diff(plan),
    )


def run(module: AnsibleModule) -> Plan:
    """Plan, and apply the plan unless in check mode."""
    arguments = module.params
    root = Path(arguments["root"])
    if not (root / "proc").is_dir():
        raise TuningError(f"root {root} holds no proc directory")
    if root == Path("/") and os.geteuid() != 0 and not module.check_mode:
        raise TuningError("changing this host needs root; set become: true")
    knobs = changeable_knobs(arguments["knobs"], arguments["skip_knobs"])
    workload = parse_workload(arguments["workload"])
    facts = collect(root)
    record = Record(facts.files, arguments["record"])
    plan = make_plan(facts, workload, knobs, arguments["units"], arguments["login_domains"], record)
    if not module.check_mode:
        apply_plan(facts.files, plan, record)
    return plan


def diff(plan: Plan) -> list[dict[str, str]]:
    parts = [(change.path, change.before or "", change.after) for change in plan.files]
    if plan.settings:
        parts.insert(0, ("running kernel", *plan.settings_as_text()))
    return [
        {"before_header": name, "after_header": name, "before": before, "after": after} for name, before, after in parts
    ]


if __name__ == "__main__":
    main()
