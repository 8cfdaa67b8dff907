"""Filters for clusters in the inventory: their brokers, and the addresses of ZooKeeper."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_DEFAULT_CLUSTER = "main"
_OURS = "broker_instances"
_DEFAULT_PORTS = {_OURS: 9092, "reference_kafka_instances": 19092}
_ADDRESSES = {_OURS: "broker_address", "reference_kafka_instances": "reference_kafka_address"}
_ZOOKEEPER_PORT = 2181
_LOOPBACK = "127.0.0.1"
# The port of brokers among themselves, above that of clients, where they are two (cluster_security: tls).
INSIDE_ABOVE = 1000


def address_of(host: str, hostvars: Mapping[str, Mapping[str, Any]], own: str) -> str:
    """`'node1' | highwater_address(hostvars, 'broker_address')`: where others find it, by a role's own variable first.

    Without one as all roles have it by default.
    """
    names = (own, "highwater_address", "ansible_host")
    return str(next(filter(None, map(hostvars[host].get, names)), host))


def agent_address(host: str, hostvars: Mapping[str, Mapping[str, Any]], monitors: Iterable[str]) -> str:
    """`'node1' | highwater_agent_address(hostvars, groups['monitor'])`: where a monitor finds the agent of a host.

    Loopback in an inventory without a monitor, unless the host says where.
    """
    own = hostvars[host].get("agent_address")
    if own:
        return str(own)
    return address_of(host, hostvars, "agent_address") if list(monitors) else _LOOPBACK


def in_url(address: str) -> str:
    """`address | highwater_in_url`: as it stands before a colon and a port."""
    return f"[{address}]" if ":" in address else address


def listened(address: str) -> str:
    """`address | highwater_listened`: what to listen on for others to come to an address; empty for every interface.

    That is for names: Debian often has a host's own name at 127.0.1.1.
    """
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return ""
    return in_url(address)


def zookeeper_connect(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> str:
    """`groups['zookeeper'] | highwater_zookeeper_connect(hostvars)`: host:port of each, without a chroot."""
    return ",".join(
        f"{in_url(address_of(host, hostvars, 'zookeeper_address'))}:"
        f"{hostvars[host].get('zookeeper_client_port', _ZOOKEEPER_PORT)}"
        for host in hosts
    )


def clusters(
    hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], variable: str = _OURS
) -> dict[str, dict[str, Any]]:
    """`groups['brokers'] | highwater_clusters(hostvars)`: by name, bootstrap_servers and brokers of each cluster.

    A broker has host, name, broker_id (None where the inventory lacks it), address, port, inside_port and log_dirs.
    inside_servers, at these ports: brokers among themselves, and the playbooks; the same as port without TLS.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for host in hosts:
        variables = hostvars[host]
        default = [_default_instance(variables)] if variable == _OURS and variable not in variables else []
        above = INSIDE_ABOVE if variable == _OURS and variables.get("cluster_security") == "tls" else 0
        for instance in variables.get(variable) or default:
            port = int(instance.get("port") or _DEFAULT_PORTS[variable])
            found.setdefault(str(instance.get("cluster") or _DEFAULT_CLUSTER), []).append(
                {
                    "host": host,
                    "name": instance.get("name", "main"),
                    "broker_id": instance.get("broker_id", variables.get("broker_id")),
                    "address": address_of(host, hostvars, _ADDRESSES[variable]),
                    "port": port,
                    "inside_port": int(instance.get("inside_port") or port + above) if above else port,
                    "log_dirs": list(instance.get("log_dirs") or []),
                }
            )
    return {
        name: {
            "bootstrap_servers": ",".join(f"{in_url(each['address'])}:{each['port']}" for each in brokers),
            "inside_servers": ",".join(f"{in_url(each['address'])}:{each['inside_port']}" for each in brokers),
            "brokers": brokers,
        }
        for name, brokers in found.items()
    }


def _default_instance(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a host carries that says nothing of its brokers, as roles/broker/defaults has it."""
    disks = variables.get("storage_disks") or []
    return {"name": "main", "log_dirs": [f"{disk['mount_point'].rstrip('/')}/highwater" for disk in disks]}


def properties_text(settings: Mapping[str, Any]) -> str:
    """`settings | highwater_properties`: the lines of a file that java.util.Properties reads back as these settings."""
    lines = []
    for name, value in sorted(settings.items()):
        if value is None:
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines.append(f"{_escaped(str(name), also=' =:#!')}={_escaped(text)}")
    return "\n".join(lines)


def _escaped(text: str, also: str = "") -> str:
    """In ASCII, as Java reads ISO 8859-1; a value keeps the blanks that it begins with."""
    named = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    escaped = []
    for position, character in enumerate(text):
        if character in named:
            escaped.append(named[character])
        elif character in also or (character == " " and position == 0):
            escaped.append(f"\\{character}")
        elif " " <= character <= "~":
            escaped.append(character)
        else:
            units = character.encode("utf-16-be")
            escaped += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(escaped)


def cluster_faults(log_directories: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is at odds between the log directories of all hosts, each with host, cluster, path and cluster_id.

    Empty cluster ids are those of directories that no broker has used.
    """
    used = [entry for entry in log_directories if entry["cluster_id"]]
    places: dict[str, dict[str, Mapping[str, Any]]] = {}
    owners: dict[str, Mapping[str, Any]] = {}
    faults = []
    for entry in used:
        first = next(iter(places.setdefault(entry["cluster"], {entry["cluster_id"]: entry}).values()))
        if entry["cluster_id"] not in places[entry["cluster"]]:
            faults.append(
                f"{entry['host']}: {entry['path']} belongs to cluster {entry['cluster_id']}, and {first['path']} on "
                f"{first['host']} to {first['cluster_id']}, while the inventory has both in {entry['cluster']}; "
                "name the log_dirs that belong together"
            )
        owner = owners.setdefault(entry["cluster_id"], entry)
        if owner["cluster"] != entry["cluster"]:
            faults.append(
                f"{entry['host']}: {entry['path']} and {owner['path']} on {owner['host']} belong to one cluster "
                f"({entry['cluster_id']}), while the inventory has them in {entry['cluster']} and {owner['cluster']}; "
                "do not exchange log_dirs between clusters"
            )
    return faults


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_address": address_of,
            "highwater_agent_address": agent_address,
            "highwater_cluster_faults": cluster_faults,
            "highwater_clusters": clusters,
            "highwater_in_url": in_url,
            "highwater_listened": listened,
            "highwater_properties": properties_text,
            "highwater_zookeeper_connect": zookeeper_connect,
        }
