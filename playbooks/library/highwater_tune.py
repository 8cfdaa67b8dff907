#!/usr/bin/python
"""Ansible module for the host tuner: plans, applies, rolls back or verifies settings on the host."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.highwater.tuning import effects, engine
from ansible.module_utils.highwater.tuning.catalogue import find_knob, select_knobs
from ansible.module_utils.highwater.tuning.check import CANNOT_BE_CHANGED
from ansible.module_utils.highwater.tuning.errors import TuningError
from ansible.module_utils.highwater.tuning.facts import collect
from ansible.module_utils.highwater.tuning.facts.captured import is_captured
from ansible.module_utils.highwater.tuning.facts.model import Facts, Mount
from ansible.module_utils.highwater.tuning.hostfiles import readable
from ansible.module_utils.highwater.tuning.journal import SESSION
from ansible.module_utils.highwater.tuning.model import Knob
from ansible.module_utils.highwater.tuning.planning import make_plan
from ansible.module_utils.highwater.tuning.planning.draft import PlanOptions
from ansible.module_utils.highwater.tuning.profiles import find_profile, knobs_of
from ansible.module_utils.highwater.tuning.runner import runner_for
from ansible.module_utils.highwater.tuning.steps import (
    CommandStep,
    FileStep,
    RemountStep,
    ResourceState,
    SettingStep,
    Step,
    SwapOffStep,
    TuningPlan,
    setting_name,
)
from ansible.module_utils.highwater.tuning.workload import Workload, parse_workload

DOCUMENTATION = r"""
module: highwater_tune
short_description: Apply the tuning catalogue's recommendations to a host, or roll them back
description:
  - Calculates every value on the host, from its memory, its disks and its workload.
  - A value that is good already stays, and a higher limit is never lowered.
  - Writes each change to a durable journal, makes the change and reads it back. When a change fails, the changes before
    it are rolled back.
  - Persists settings over a reboot, in its own files in sysctl.d, udev, tmpfiles.d, systemd drop-ins and limits.d, and
    in single lines of fstab.
  - With O(state=absent) restores what was there before, except for what somebody else changed since.
options:
  state:
    description: >-
      V(present) applies O(profile); V(absent) rolls all changes back; V(verified) changes nothing and reports whether
      the settings are in effect, in processes, in the kernel and at the next boot.
    type: str
    choices: [present, absent, verified]
    default: present
  profile:
    description: The profile to apply; C(highwater tune profiles) lists them.
    type: str
    default: recommended
  only:
    description: >-
      Ids of the knobs to set, as C(highwater tune list) names them; empty for all knobs of the profile. A knob that is
      named here and cannot be set fails the host; any other knob that cannot be set is a warning.
    type: list
    elements: str
    default: []
  skip:
    description: Ids of knobs to leave alone.
    type: list
    elements: str
    default: []
  accept_risk:
    description: Ids of knobs to set although they trade durability or safety away.
    type: list
    elements: str
    default: []
  workload:
    description: The load of the host, with the keys of C(highwater tune check --workload), and C(data_dirs).
    type: dict
    default: {}
  disks:
    description: >-
      Disks for the log, as in C(storage_disks) (device, mount_point, filesystem, mount_options). A disk that is not
      mounted at its mount point fails the host; in check mode it counts as mounted.
    type: list
    elements: dict
    default: []
  units:
    description: Service units of the broker, which get limits and weights in a drop-in; an empty list for none.
    type: list
    elements: str
    default: [highwater-broker@.service]
  login_domains:
    description: Users, @groups or C(*) whose login limits are set.
    type: list
    elements: str
    default: []
  keep_swap:
    description: Leave swap on; exclude only the units from it.
    type: bool
    default: false
  force:
    description: With O(state=absent), restore also what somebody else changed since.
    type: bool
    default: false
  root:
    description: Top of the tree to tune; anything but C(/) is a fake host.
    type: path
    default: /
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
- name: Set everything for a broker on two SSDs
  highwater_tune:
    workload:
      data_dirs: [/data/ssd1, /data/ssd2]
      disk_write_rate: 450MB/s

- name: Only what a power cut may cost
  highwater_tune:
    profile: durable
    only: [vm.dirty_bytes, vm.dirty_background_bytes]

- name: Put everything back
  highwater_tune:
    state: absent
"""

RETURN = r"""
changes:
  description: One line per change.
  returned: always
  type: list
  elements: str
pending:
  description: What takes effect only when a unit is restarted, somebody logs in or the host is booted.
  returned: always
  type: list
  elements: str
knobs:
  description: How each chosen knob stood before the change, with state, current and recommended value and notes.
  returned: always
  type: list
  elements: dict
asks:
  description: What to ask whoever runs the machine below for, where this one is a container.
  returned: always
  type: list
  elements: str
in_effect:
  description: With O(state=verified), a line for each that is in effect.
  returned: always
  type: list
  elements: str
not_in_effect:
  description: With O(state=verified), a line for each that is not in effect.
  returned: always
  type: list
  elements: str
beyond_reach:
  description: With O(state=verified), a line for each that is not as wanted and that this host is not let set.
  returned: always
  type: list
  elements: str
kept:
  description: With O(state=absent), what somebody else changed since and was left alone.
  returned: always
  type: list
  elements: str
"""

_OF_A_REPORT = ("id", "target", "state", "current", "recommended", "note", "binding", "overridden_by", "ask")


_LISTS = ("changes", "pending", "knobs", "asks", "in_effect", "not_in_effect", "beyond_reach", "kept")


def main() -> None:
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
            "profile": {"type": "str", "default": "recommended"},
            "only": strings,
            "skip": strings,
            "accept_risk": strings,
            "workload": {"type": "dict", "default": {}},
            "disks": {"type": "list", "elements": "dict", "default": []},
            "units": {"type": "list", "elements": "str", "default": list(Workload().units)},
            "login_domains": strings,
            "keep_swap": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    try:
        result = {"present": present, "absent": absent, "verified": verified}[module.params["state"]](module)
    except TuningError as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**{name: [] for name in _LISTS} | result)


def present(module: AnsibleModule) -> dict[str, Any]:
    """Plan, and carry the plan out unless in check mode."""
    root = checked_root(module)
    arguments = module.params
    knobs, workload, accepted = wanted_by(module)
    facts = with_disks(module, collect(root))
    files = facts.files
    runner = runner_for(root)
    recovered = engine.rollback(files, runner, journals=(SESSION,), dry_run=module.check_mode)
    unfinished = engine.interrupted(files)
    options = PlanOptions(
        named=frozenset(arguments["only"]),
        accepted=accepted,
        login_domains=tuple(arguments["login_domains"]),
        keep_swap=arguments["keep_swap"],
        original_texts=engine.original_texts(files),
    )
    if recovered.restored and not module.check_mode:
        facts = with_disks(module, collect(root))
    plan = make_plan(facts, workload, knobs, options)
    # Below another root there is no system whose mounts, swap and daemons could be changed.
    skipped = [step for step in plan.steps if runner.absent and not isinstance(step, SettingStep | FileStep)]
    plan = dataclasses.replace(plan, steps=tuple(step for step in plan.steps if step not in skipped))
    if not module.check_mode:
        engine.apply(files, runner, plan, engine.Owner.this_process(files, "Ansible's highwater_tune"))
    return {
        "changed": plan.changes_anything or bool(unfinished) or bool(recovered.restored),
        "changes": [*(held.describe() for held in recovered.restored), *(step.describe() for step in plan.steps)],
        "pending": list(plan.pending),
        "knobs": [{name: getattr(report, name) for name in _OF_A_REPORT} for report in plan.reports],
        "asks": list(dict.fromkeys(report.ask for report in plan.reports if report.state == "differs" and report.ask)),
        "warnings": [
            *recovered.problems,
            *plan.warnings,
            *(f"{step.describe()}: {runner.absent}" for step in skipped),
        ],
        "diff": diff_of_plan(plan),
    }


def absent(module: AnsibleModule) -> dict[str, Any]:
    """Take back, or in check mode say what would be taken back."""
    root = checked_root(module)
    files = collect(root).files
    done = engine.rollback(files, runner_for(root), force=module.params["force"], dry_run=module.check_mode)
    if done.problems:
        raise TuningError(f"{'; '.join(done.problems)}; the journal stays, so that the rollback can be repeated")
    kept = [held.describe() for held in done.kept]
    return {
        "changed": bool(done.restored),
        "changes": [held.describe() for held in done.restored],
        "kept": kept,
        "warnings": [f"left alone: {text}" for text in kept],
        "diff": diff_of_states((held.step, held.now, held.restored) for held in done.restored),
    }


def verified(module: AnsibleModule) -> dict[str, Any]:
    """Say what is in effect; changes nothing."""
    root = checked_root(module)
    knobs, workload, accepted = wanted_by(module)
    facts = with_disks(module, collect(root))
    found = effects.verify(facts, workload, knobs, runner_for(root), accepted=accepted)
    failed = [effect for effect in found if effect.state == "failed"]
    beyond_reach = [effect for effect in failed if any(CANNOT_BE_CHANGED in note for note in effect.footnotes)]
    return {
        "changed": False,
        "in_effect": [told(effect) for effect in found if effect.state == "effective"],
        "not_in_effect": [told(effect) for effect in failed if effect not in beyond_reach],
        "beyond_reach": [told(effect) for effect in beyond_reach],
        "pending": [told(effect) for effect in found if effect.state == "pending"],
        "warnings": [],
    }


def told(effect: effects.Effect) -> str:
    """An effect in one line."""
    name = f"{effect.parameter} of {effect.target}" if effect.target else effect.parameter
    line = f"{name}: wanted {effect.expected}, found {effect.effective or effect.actual}"
    return f"{line} ({'; '.join(effect.footnotes)})" if effect.footnotes else line


def wanted_by(module: AnsibleModule) -> tuple[tuple[Knob, ...], Workload, frozenset[str]]:
    """The knobs that are chosen, what the host carries, and the knobs whose trade is accepted."""
    arguments = module.params
    knobs = knobs_of(find_profile(arguments["profile"]), select_knobs(arguments["only"] or ["all"], arguments["skip"]))
    workload = parse_workload({**arguments["workload"], "units": arguments["units"]})
    return tuple(knobs), workload, frozenset(find_knob(knob_id).id for knob_id in arguments["accept_risk"])


def with_disks(module: AnsibleModule, facts: Facts) -> Facts:
    """Return facts with unmounted disks as they will be mounted, in check mode. Raises TuningError for them otherwise.

    Without this the file system that holds the empty mount point, such as the root, would be tuned in their place.
    """
    mounted = {mount.mount_point for mount in facts.mounts}
    missing = [disk for disk in module.params["disks"] if disk["mount_point"].rstrip("/") not in mounted]
    if missing and not module.check_mode:
        points = ", ".join(disk["mount_point"] for disk in missing)
        raise TuningError(f"no disk is mounted on {points}; run provision.yml first")
    devices = [facts.block_device(facts.files.real_path(disk["device"]).rpartition("/")[2]) for disk in missing]
    to_come = [
        Mount(
            mount_point=disk["mount_point"].rstrip("/"),
            filesystem=disk.get("filesystem", "ext4"),
            source=f"/dev/{device.name}",
            device_number=device.device_number,
            mount_options=("rw", *disk.get("mount_options", ("noatime",))),
        )
        for disk, device in zip(missing, devices, strict=True)
        if device is not None
    ]
    return dataclasses.replace(facts, mounts=(*facts.mounts, *to_come))


def checked_root(module: AnsibleModule) -> Path:
    """Raises TuningError for a root that is no host's, and for one that this user cannot change."""
    root = Path(module.params["root"])
    if not (root / "proc").is_dir():
        raise TuningError(f"root {root} has no proc directory")
    if is_captured(root):
        raise TuningError(f"root {root} is a capture of another host, to be looked at only")
    if root == Path("/") and os.geteuid() != 0 and not module.check_mode:
        raise TuningError("changing this host needs root; set become: true")
    return root


def diff_of_plan(plan: TuningPlan) -> list[dict[str, str]]:
    return diff_of_states((step, *step.states) for step in plan.steps if not isinstance(step, CommandStep))


def diff_of_states(changes: Iterable[tuple[Step, ResourceState, ResourceState]]) -> list[dict[str, str]]:
    """What runs as one part, a line each, then a part for each file."""
    running: list[tuple[str, str]] = []
    parts: list[dict[str, str]] = []
    for step, before, after in changes:
        if isinstance(step, FileStep):
            parts.append(_part(step.path, (before or {}).get("text", ""), (after or {}).get("text", "")))
        else:
            running.append((_lines(step, before), _lines(step, after)))
    if running:
        parts.insert(0, _part("running system", *("".join(texts) for texts in zip(*running, strict=True))))
    return parts


def _part(name: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": name, "after_header": name, "before": readable(before), "after": readable(after)}


def _lines(step: Step, state: ResourceState) -> str:
    values = state or {}
    if isinstance(step, SettingStep):
        return "".join(f"{setting_name(path)} = {' '.join(text.split())}\n" for path, text in sorted(values.items()))
    if isinstance(step, RemountStep):
        return f"mount {step.mount_point} = {values.get('options', '')}\n"
    if isinstance(step, SwapOffStep):
        return f"swap {step.device} in use = {values.get('in_use', 'no')}\n"
    return ""


if __name__ == "__main__":
    main()
