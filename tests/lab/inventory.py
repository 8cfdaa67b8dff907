"""A lab as Ansible knows it: hosts.yml, beside a link to the variables in playbooks/inventories/lab."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.lab.keys import USER
from tests.lab.record import DEFAULT_LAB, Record, Store

PLAYBOOKS: Final = Path(__file__).parent.parent.parent / "playbooks"
COMMITTED: Final = PLAYBOOKS / "inventories/lab"
COMMITTED_HOSTS: Final = 3

_HEADER: Final = """---
# The hosts of `python -m tests.lab up --name {name} --hosts {hosts}{how}`, which writes this file.
"""


def write(store: Store, record: Record) -> Path:
    """The directory to give to ansible-playbook -i."""
    store.inventory.mkdir(exist_ok=True)
    (store.inventory / "hosts.yml").write_text(text(record, str(store.directory)), encoding="utf-8")
    link = store.inventory / "group_vars"
    link.unlink(missing_ok=True)
    link.symlink_to(COMMITTED / "group_vars")
    return store.inventory


def write_narrowed(
    store: Store,
    directory: Path,
    groups: Mapping[str, Sequence[str] | None],
    *,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Path:
    """In a directory of its own: the lab's inventory with only these groups (None: all their hosts) and these hosts
    (None: all), each with variables over those that it has, and with files of these contents in place of the group
    variables of the same names."""
    content: dict[str, Any] = yaml.safe_load((store.inventory / "hosts.yml").read_text("utf-8"))
    everything = content["all"]
    there = everything["children"]
    everything["children"] = {
        group: there[group] if members is None else {"hosts": dict.fromkeys(members)}
        for group, members in groups.items()
    }
    if hosts is not None:
        everything["hosts"] = {name: {**everything["hosts"][name], **its_own} for name, its_own in hosts.items()}
    directory.mkdir(exist_ok=True)
    (directory / "hosts.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    shutil.copytree(COMMITTED / "group_vars", directory / "group_vars", dirs_exist_ok=True)
    for name, text_of_group in (variables or {}).items():
        (directory / "group_vars" / f"{name}.yml").write_text(text_of_group, encoding="utf-8")
    return directory


def committed_text() -> str:
    """The inventory of the default lab, which is always at the same addresses."""
    record = Record(name=DEFAULT_LAB, network=0, hosts=COMMITTED_HOSTS, boot_id="")
    return text(record, f"~/.cache/highwater/lab/{DEFAULT_LAB}")


def groups_of(names: Sequence[str]) -> dict[str, Sequence[str]]:
    """What each of these hosts is for."""
    # An even ensemble bears no more losses than the odd one below it.
    ensemble = names[: len(names) - (len(names) + 1) % 2]
    return {
        "zookeeper": ensemble,
        "brokers": names,
        "reference_kafka": names,
        "spark_master": names[:1],
        "spark_workers": names,
        "bench": names[:1],
        "pipelines": names[:1],
        "monitor": names[:1],
    }


def text(record: Record, directory: str) -> str:
    groups = groups_of([node.name for node in record.nodes])
    if record.guest_image:
        # Hosts with kernels of their own are for what needs one, and too small for more.
        groups = {name: groups[name] for name in ("zookeeper", "brokers")}
    every_host: dict[str, Any] = {
        "vars": {
            "ansible_user": USER,
            "ansible_ssh_private_key_file": f"{directory}/id_ed25519",
            # Beside the lab's own, and gone with it.
            "keys_directory": f"{directory}/keys",
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={directory}/known_hosts -o IdentitiesOnly=yes",
            # Containers have the machine's clock.
            **({"time_sync_servers": [record.gateway]} if record.guest_image else {}),
        },
        "hosts": {
            node.name: {"ansible_host": node.address, "broker_id": node.number, "zookeeper_id": node.number}
            for node in record.nodes
        },
        "children": {group: {"hosts": {name: {} for name in members}} for group, members in groups.items()},
    }
    body = yaml.safe_dump({"all": every_host}, sort_keys=False, width=120)
    how = " --own-kernel" if record.guest_image else ""
    return _HEADER.format(name=record.name, hosts=record.hosts, how=how) + body
