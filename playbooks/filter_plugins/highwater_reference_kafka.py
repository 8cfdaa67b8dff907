"""The reference brokers of the inventory: their faults, and the properties that follow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_VARIABLE = "reference_kafka_instances"
_LINE = "3.9"
# Brokers with the lowest ids are the controllers too; an even number of them survives no more failures than one less.
_CONTROLLERS_AT_MOST = 5
_COPIES_AT_MOST = 3
_CONTROLLER_PORT_ABOVE = 100

Broker = Mapping[str, Any]


def brokers(hosts: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`groups['reference_kafka'] | highwater_reference_kafka_brokers(hostvars)`: all of them, with nothing left out.

    broker_id is None where the inventory has none.
    """
    found = []
    for host in hosts:
        variables = hostvars[host]
        address = variables.get("reference_kafka_address") or variables.get("highwater_address")
        for raw in variables.get(_VARIABLE) or []:
            line = str(raw.get("line") or variables.get("reference_kafka_line") or _LINE)
            mode = str(variables.get("reference_kafka_mode") or "auto")
            port = int(raw.get("port") or 0)
            broker_id = raw.get("broker_id", variables.get("reference_kafka_broker_id", variables.get("broker_id")))
            found.append(
                {
                    "host": str(host),
                    "address": str(address or variables.get("ansible_host") or host),
                    "name": str(raw.get("name") or ""),
                    "cluster": str(raw.get("cluster") or "main"),
                    "broker_id": None if broker_id is None else int(broker_id),
                    "port": port,
                    "controller_port": int(raw.get("controller_port") or port + _CONTROLLER_PORT_ABOVE),
                    "log_dirs": [str(path).rstrip("/") for path in raw.get("log_dirs") or []],
                    "cpus": str(raw.get("cpus") or ""),
                    "properties": dict(raw.get("properties") or {}),
                    "line": line,
                    "is_kraft": mode == "kraft" or not line.startswith("3."),
                }
            )
    return found


def faults(of_host: str, all_brokers: Sequence[Broker], ours: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """What is wrong with the brokers of a host, a line each. ours: the host's broker_instances."""
    own = [broker for broker in all_brokers if broker["host"] == of_host]
    found = []
    if not own:
        found.append("reference_kafka_instances names no broker for it; say name, port and log_dirs, or take it out")
    for broker in own:
        what = f"reference_kafka_instances, {broker['name'] or 'one without a name'}"
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", broker["name"]):
            found.append(f"{what}: a name has letters, digits, dots, dashes and underscores")
        if broker["broker_id"] is None:
            found.append(
                f"{what}: who it is is not said; set broker_id of the host in the inventory, and never change it"
            )
        strange = [path for path in broker["log_dirs"] if not re.fullmatch(r"/[A-Za-z0-9_./-]+", path)]
        found += [f"{what}: {path} is not an absolute path of letters, digits, dots and dashes" for path in strange]
        if not broker["log_dirs"]:
            found.append(f"{what}: it has no log_dirs")
        if not 0 < broker["port"] < 65536 or not 0 < broker["controller_port"] < 65536:
            found.append(f"{what}: its ports are not from 1 to 65535; set port and controller_port")
    found += _twice([broker["name"] for broker in own], "the name")
    ports = [broker["port"] for broker in own] + [broker["controller_port"] for broker in own if broker["is_kraft"]]
    found += _twice([*ports, *(int(each.get("port") or 9092) for each in ours)], "the port")
    directories = [path for broker in own for path in broker["log_dirs"]]
    theirs = [str(path).rstrip("/") for each in ours for path in each.get("log_dirs") or []]
    found += _twice([*directories, *theirs], "the log directory")
    found += _of_clusters(own, all_brokers)
    return found


def _of_clusters(own: Sequence[Broker], all_brokers: Sequence[Broker]) -> list[str]:
    found = []
    for cluster in sorted({broker["cluster"] for broker in own}):
        members = [broker for broker in all_brokers if broker["cluster"] == cluster]
        ids = [broker["broker_id"] for broker in members if broker["broker_id"] is not None]
        found += _twice(ids, f"in cluster {cluster} the broker_id")
        if len({broker["is_kraft"] for broker in members}) > 1:
            found.append(f"cluster {cluster} has brokers with ZooKeeper and brokers with KRaft; give all the same line")
    return found


def _twice(values: Sequence[Any], what: str) -> list[str]:
    return [f"{what} {value} is given {count} times" for value, count in Counter(values).items() if count > 1]


def controllers(broker: Broker, all_brokers: Sequence[Broker]) -> list[Broker]:
    """Return the brokers of the broker's cluster that are KRaft's controllers as well."""
    members = sorted(
        (each for each in all_brokers if each["cluster"] == broker["cluster"]), key=lambda each: int(each["broker_id"])
    )
    count = min(_CONTROLLERS_AT_MOST, len(members))
    return members[: count - 1 if count % 2 == 0 else count]


def settings(
    broker: Broker, all_brokers: Sequence[Broker], zookeeper_connect: str, properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Kafka's properties of a broker: who and where it is, copies by the size of its cluster, and what is asked for."""
    members = [each for each in all_brokers if each["cluster"] == broker["cluster"]]
    copies = min(_COPIES_AT_MOST, len(members))
    in_sync = 2 if copies == _COPIES_AT_MOST else 1
    where = _of_kraft(broker, all_brokers) if broker["is_kraft"] else _of_zookeeper(broker, zookeeper_connect)
    return {
        **where,
        "log.dirs": broker["log_dirs"],
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        **properties,
        **broker["properties"],
    }


def _of_zookeeper(broker: Broker, zookeeper_connect: str) -> dict[str, Any]:
    return {
        "broker.id": broker["broker_id"],
        **_listeners(broker),
        "zookeeper.connect": f"{zookeeper_connect}/reference/{broker['cluster']}",
    }


def _of_kraft(broker: Broker, all_brokers: Sequence[Broker]) -> dict[str, Any]:
    of_quorum = controllers(broker, all_brokers)
    is_controller = any(each["broker_id"] == broker["broker_id"] for each in of_quorum)
    voters = (f"{each['broker_id']}@{_host(each['address'])}:{each['controller_port']}" for each in of_quorum)
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": broker["broker_id"],
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        **_listeners(broker, f",CONTROLLER://:{broker['controller_port']}" if is_controller else ""),
    }


def _listeners(broker: Broker, more: str = "") -> dict[str, str]:
    """Every interface is listened on: Debian often has a host's own name at 127.0.1.1."""
    return {
        "listeners": f"PLAINTEXT://:{broker['port']}{more}",
        "advertised.listeners": f"PLAINTEXT://{_host(broker['address'])}:{broker['port']}",
    }


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def identities(of_brokers: Sequence[Broker], meta_properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return whose each log directory is: host, name, cluster and path, and what its meta.properties has:
    cluster_id and node_id, empty where nobody has used it, and is_kraft."""
    found = []
    for broker in of_brokers:
        for path in broker["log_dirs"]:
            lines = (line.partition("=") for line in meta_properties.get(path, "").splitlines())
            told = {name.strip(): value.strip() for name, separator, value in lines if separator}
            found.append(
                {
                    **{key: broker[key] for key in ("host", "name", "cluster")},
                    "path": path,
                    "cluster_id": told.get("cluster.id", ""),
                    "node_id": told.get("node.id") or told.get("broker.id", ""),
                    "is_kraft": told.get("version") == "1",
                }
            )
    return found


def identity_faults(
    of_brokers: Sequence[Broker],
    all_brokers: Sequence[Broker],
    used: Iterable[Mapping[str, Any]],
    old: Mapping[str, str],
) -> list[str]:
    """What forbids to start the brokers of a host on what their log directories hold, a line each.

    used: as `identities`. old: the properties files until now, by name of the broker.
    """
    found = []
    by_name = {broker["name"]: broker for broker in of_brokers}
    for entry in used:
        broker = by_name[entry["name"]]
        if not entry["cluster_id"]:
            continue
        if entry["node_id"] != str(broker["broker_id"]):
            found.append(
                f"{entry['path']} is the log directory of broker {entry['node_id']}, and {entry['name']} is broker "
                f"{broker['broker_id']}; correct broker_id, or name another directory"
            )
        if entry["is_kraft"] != broker["is_kraft"]:
            of = "KRaft" if entry["is_kraft"] else "ZooKeeper"
            found.append(f"{entry['path']} is of a cluster with {of}; name another directory, or set the line back")
        voters = re.search(r"(?m)^controller\.quorum\.voters=(.*)$", old.get(entry["name"], ""))
        wanted = settings(broker, all_brokers, "", {}).get("controller.quorum.voters")
        if voters and wanted and voters[1].replace("\\", "") != wanted:
            found.append(
                f"{entry['name']} has the controllers {voters[1]}, and {wanted} are wanted; a quorum that holds "
                "metadata is not changed here: put the hosts back, or remove the cluster with its data (teardown.yml)"
            )
    return list(dict.fromkeys(found))


def places(paths: Iterable[str], mount_points: Iterable[str], disks: Iterable[str]) -> list[dict[str, str]]:
    """For each path the mount it is on, and that of `disks` (or /) that it should be on."""
    mounted, expected = list(mount_points), list(disks)
    return [{"path": path, "found": _mount_of(path, mounted), "wanted": _mount_of(path, expected)} for path in paths]


def _mount_of(path: str, mount_points: Iterable[str]) -> str:
    points = [point.rstrip("/") for point in mount_points]
    return max((point for point in points if f"{path}/".startswith(f"{point}/")), key=len, default="") or "/"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_places": places,
            "highwater_reference_kafka_brokers": brokers,
            "highwater_reference_kafka_faults": faults,
            "highwater_reference_kafka_identities": identities,
            "highwater_reference_kafka_identity_faults": identity_faults,
            "highwater_reference_kafka_settings": settings,
        }
