"""The inventory of a planned cluster, as texts by file name: hosts and disks to fill in."""

from __future__ import annotations

from typing import Any, Final

import yaml

from highwater.studies.capacity.load import Load
from highwater.studies.capacity.plan import Plan

_ENSEMBLE: Final = 3
_HOST: Final = "broker{}.example.net"


def inventory_of(plan: Plan, load: Load) -> dict[str, str]:
    """Files of an inventory by their relative names."""
    hosts = {_HOST.format(number): None for number in range(1, plan.state_brokers + 1)}
    ensemble = list(hosts)[: _ENSEMBLE if len(hosts) >= _ENSEMBLE else 1]
    disks = load.hosts.disks
    arrays = disks.count if disks.layout == "jbod" else 1
    files = {
        "hosts.yml": _text(
            f"{plan.state_brokers} brokers, as `highwater plan` says for {plan.name}. Put your names in the place of "
            "broker*.example.net, here and in the names of the files of host_vars/.",
            {
                "all": {
                    "hosts": hosts,
                    "children": {
                        "zookeeper": {"hosts": dict.fromkeys(ensemble)},
                        "brokers": {"hosts": dict.fromkeys(hosts)},
                    },
                }
            },
        ),
        "group_vars/brokers.yml": _text(
            "What the formulas of the tuning go by, as the plan has it.",
            {"tuning_workload": _tuning_workload(plan)},
        ),
    }
    for number, host in enumerate(hosts, start=1):
        own: dict[str, Any] = {"broker_id": number}
        if host in ensemble:
            own["zookeeper_id"] = number
        own["storage_disks"] = [
            {"device": f"/dev/disk/by-id/FILL_IN_{disk}", "mount_point": f"/data/disk{disk}"}
            for disk in range(1, arrays + 1)
        ]
        what = (
            f"{disks.count} disks, a mount for each"
            if disks.layout == "jbod"
            else f"{disks.count} disks as one array ({disks.layout}), which the playbooks do not build"
        )
        files[f"host_vars/{host}.yml"] = _text(f"Its data disks: {what}.", own)
    return files


def _tuning_workload(plan: Plan) -> dict[str, Any]:
    own: dict[str, Any] = {}
    chosen = next((choice for choice in plan.disks if choice.chosen), None)
    if chosen is not None:
        own["disk_write_rate"] = f"{max(1, int(chosen.disk_write_bytes_per_s / 1e6))}MB/s"
    if plan.state is not None:
        own["partitions"] = plan.state.partition_replicas
    return own


def _text(comment: str, data: dict[str, Any]) -> str:
    # An empty value is a host without variables, as inventories write it.
    body = yaml.safe_dump(data, sort_keys=False, default_flow_style=False).replace(": null\n", ":\n")
    return f"---\n# {comment}\n{body}"
