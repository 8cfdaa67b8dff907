"""Filters for clusters in the inventory: their brokers, and the addresses of ZooKeeper."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

_DEFAULT_CLUSTER = "main"
_OURS = "broker_instances"
_DEFAULT_PORTS = {_OURS: 9092, "reference_kafka_instances": 19092}
_ADDRESSES = {_OURS: "broker_address", "reference_kafka_instances": "reference_kafka_address"}
_ZOOKEEPER_PORT = 2181
_LOOPBACK = "127.0.0.1"
# The port of brokers among themselves, above that of clients, where they are two (cluster_security: tls).
INSIDE_ABOVE = 1000
# The port of metrics, as `highwater broker cluster up` has it.
METRICS_ABOVE = 1100
# Ids of the processes of a host are so far apart; broker_id is below that.
ID_STEP = 100
# Above it the ports of process 0 for brokers and for metrics would be those of another process.
MOST_PROCESSES = 64
_AUTO = "auto"
# What processes.yml finds on hosts with broker_processes: auto.
_COUNTED = "__broker_counted"


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


def divided(
    instances: Iterable[Mapping[str, Any]], processes: Any, broker_id: Any, counted: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """`broker_instances | highwater_divided(broker_processes, broker_id, counted)`: each as so many brokers of a host.

    The first is as it was, so that a host can have more later. The others count up: name, port, ports of their own,
    log directories beside its own, and ids in steps of 100. `process` is their number. counted: of processes.yml.
    """
    found: list[dict[str, Any]] = []
    given = list(instances)
    for instance in given:
        port = int(instance.get("port") or _DEFAULT_PORTS[_OURS])
        for number in range(_count(str(instance.get("name", "main")), len(given), processes, counted)):
            own = {**instance, "process": number}
            if number:
                own |= {
                    "name": f"{instance.get('name', 'main')}-{number}",
                    "port": port + number,
                    "log_dirs": [f"{str(each).rstrip('/')}-{number}" for each in instance.get("log_dirs") or []],
                    "broker_id": _counted_id(instance.get("broker_id", broker_id), number),
                }
                own |= {
                    name: int(instance[name]) + number for name in ("inside_port", "metrics_port") if instance.get(name)
                }
            found.append(own)
    return found


def _count(name: str, instances: int, processes: Any, counted: Mapping[str, Any] | None) -> int:
    """Return how many brokers the instance of a name has. What is no number is reported by preflight.yml."""
    if processes == _AUTO:
        if not counted:
            raise AnsibleFilterError(
                "broker_processes is auto, and the cores of the host are not known, as it does not answer; mend it, or "
                "set broker_processes of this host to a number"
            )
        # It never shrinks by itself, as brokers that are set up may have the only copy of a partition.
        there = [number for number in range(MOST_PROCESSES) if f"{name}-{number}" in counted["names"]]
        return min(max(1, int(counted["cores"]) // instances, *(number + 1 for number in there)), MOST_PROCESSES)
    try:
        return min(max(int(processes), 1), MOST_PROCESSES)
    except (TypeError, ValueError):
        return 1


def uncounted(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """`groups['brokers'] | highwater_uncounted(hostvars)`: hosts with broker_processes: auto not counted so far."""
    return [
        host for host in hosts if hostvars[host].get("broker_processes") == _AUTO and not hostvars[host].get(_COUNTED)
    ]


def counted(lines: Iterable[str]) -> dict[str, Any]:
    """`lines | highwater_counted`: the cores of a host, and the names of the brokers that are set up there.

    lines: what nproc prints, then the files of properties.
    """
    cores, *files = (line.strip() for line in lines)
    names = [re.fullmatch(r"(?:.*/)?broker-(.+)[.]properties", file) for file in files]
    return {"cores": int(cores), "names": [name[1] for name in names if name]}


def _counted_id(broker_id: Any, number: int) -> int | None:
    try:
        return int(broker_id) + ID_STEP * number
    except (TypeError, ValueError):
        return None


def left(everywhere: Iterable[str], here: Sequence[str], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`lines | highwater_left(lines_of_host, clusters)`: ids of brokers that the inventory leaves out, and whom to ask.

    Of the cluster of the host's first one: nothing moves to another one of them. Lines are those of grep, as
    /etc/highwater/broker-main-1.properties:broker.id=101, two for each broker.
    """
    ids: dict[str, list[str]] = {}
    number = ""
    for line in [*here, *everywhere]:
        name, _, value = line.partition(".properties:")[2].partition("=")
        if name == "broker.id":
            number = value
        elif number not in ids.setdefault(value.rpartition("/")[2], []):
            ids[value.rpartition("/")[2]].append(number)
    cluster = next(iter(ids), "")
    address = str(found.get(cluster, {}).get("inside_servers", "")).partition(",")[0]
    return {"ids": ids.get(cluster) or ["ID"], "bootstrap": address or "HOST:PORT"}


def clusters(
    hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], variable: str = _OURS
) -> dict[str, dict[str, Any]]:
    """`groups['brokers'] | highwater_clusters(hostvars)`: by name, bootstrap_servers and brokers of each cluster.

    A broker has host, name, broker_id (None where the inventory lacks it), address, port, inside_port, metrics_port (0
    for none), log_dirs, rack, and process: its number on the host, where broker_processes divides it.
    inside_servers, at these ports: brokers among themselves, and the playbooks; the same as port without TLS.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for host in hosts:
        variables = hostvars[host]
        default = [_default_instance(variables)] if variable == _OURS and variable not in variables else []
        above = INSIDE_ABOVE if variable == _OURS and variables.get("cluster_security") == "tls" else 0
        instances: Iterable[Mapping[str, Any]] = variables.get(variable) or default
        if variable == _OURS:
            try:
                instances = divided(
                    instances, variables.get("broker_processes"), variables.get("broker_id"), variables.get(_COUNTED)
                )
            except AnsibleFilterError as error:
                raise AnsibleFilterError(f"{host}: {error}") from None
        for instance in instances:
            port = int(instance.get("port") or _DEFAULT_PORTS[variable])
            found.setdefault(str(instance.get("cluster") or _DEFAULT_CLUSTER), []).append(
                {
                    "host": host,
                    "name": instance.get("name", "main"),
                    "broker_id": instance.get("broker_id", variables.get("broker_id")),
                    "address": address_of(host, hostvars, _ADDRESSES[variable]),
                    "port": port,
                    "inside_port": int(instance.get("inside_port") or port + above) if above else port,
                    "metrics_port": _metrics_port(instance, port) if variable == _OURS else 0,
                    "log_dirs": list(instance.get("log_dirs") or []),
                    "process": int(instance.get("process", 0)),
                    "rack": str(variables.get("broker_rack") or ""),
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


def _metrics_port(instance: Mapping[str, Any], port: int) -> int:
    given = instance.get("metrics_port")
    return port + METRICS_ABOVE if given in (None, "") else int(given or 0)


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
    """Return the text in ASCII, as Java reads ISO 8859-1; a value keeps the blanks that it begins with."""
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
            "highwater_counted": counted,
            "highwater_divided": divided,
            "highwater_in_url": in_url,
            "highwater_left": left,
            "highwater_listened": listened,
            "highwater_properties": properties_text,
            "highwater_uncounted": uncounted,
            "highwater_zookeeper_connect": zookeeper_connect,
        }
