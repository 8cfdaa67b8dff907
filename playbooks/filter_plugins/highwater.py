"""What the inventory says of clusters as a whole: their brokers, and where ZooKeeper answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

_DEFAULT_CLUSTER = "main"
_OURS = "broker_instances"
_DEFAULT_PORTS = {_OURS: 9092, "reference_kafka_instances": 19092}
_ZOOKEEPER_PORT = 2181


def address_of(host: str, hostvars: Mapping[str, Mapping[str, Any]]) -> str:
    """`'node1' | highwater_address(hostvars)`: where other hosts find it, as the roles have it by default."""
    variables = hostvars[host]
    return str(variables.get("highwater_address") or variables.get("ansible_host") or host)


def zookeeper_connect(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> str:
    """`groups['zookeeper'] | highwater_zookeeper_connect(hostvars)`: host:port of each, without a chroot."""
    return ",".join(
        f"{address_of(host, hostvars)}:{hostvars[host].get('zookeeper_client_port', _ZOOKEEPER_PORT)}" for host in hosts
    )


def zookeeper_members(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`groups['zookeeper'] | highwater_zookeeper_members(hostvars)`: what the inventory says of each member.

    A member has name, id (0 where the inventory lacks it), host, port, quorum_port and election_port.
    """
    return [
        {
            "name": host,
            "id": int(hostvars[host].get("zookeeper_id") or 0),
            "host": str(hostvars[host].get("zookeeper_address") or address_of(host, hostvars)),
            "port": int(hostvars[host].get("zookeeper_client_port") or _ZOOKEEPER_PORT),
            "quorum_port": int(hostvars[host].get("zookeeper_quorum_port") or 2888),
            "election_port": int(hostvars[host].get("zookeeper_election_port") or 3888),
        }
        for host in hosts
    ]


def clusters(
    hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], variable: str = _OURS
) -> dict[str, dict[str, Any]]:
    """`groups['brokers'] | highwater_clusters(hostvars)`: by name, bootstrap_servers and brokers of each cluster.

    A broker has host, name, broker_id (None where the inventory lacks it), address, port and log_dirs.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for host in hosts:
        variables = hostvars[host]
        default = [_default_instance(variables)] if variable == _OURS and variable not in variables else []
        for instance in variables.get(variable) or default:
            found.setdefault(str(instance.get("cluster") or _DEFAULT_CLUSTER), []).append(
                {
                    "host": host,
                    "name": instance.get("name", "main"),
                    "broker_id": instance.get("broker_id", variables.get("broker_id")),
                    "address": address_of(host, hostvars),
                    "port": int(instance.get("port") or _DEFAULT_PORTS[variable]),
                    "log_dirs": list(instance.get("log_dirs") or []),
                }
            )
    return {
        name: {
            "bootstrap_servers": ",".join(f"{each['address']}:{each['port']}" for each in brokers),
            "brokers": brokers,
        }
        for name, brokers in found.items()
    }


def _default_instance(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a host carries that says nothing of its brokers, as roles/broker/defaults has it."""
    disks = variables.get("storage_disks") or []
    return {"name": "main", "log_dirs": [f"{disk['mount_point'].rstrip('/')}/highwater" for disk in disks]}


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_address": address_of,
            "highwater_clusters": clusters,
            "highwater_zookeeper_connect": zookeeper_connect,
            "highwater_zookeeper_members": zookeeper_members,
        }
