"""Makes the input of a benchmark from the inventory and the facts of hosts: hosts, probes, workload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ansible.errors import AnsibleFilterError

_MOST_COPIES = 3
_RELEASE_LINK = "/opt/highwater/broker/current"
_KAFKA_RELEASE = re.compile(r"\S*/(\d+\.\d+\.\d+)/libs")
_OURS, _REFERENCE = "highwater", "reference"


def brokers_on(clusters: Mapping[str, Mapping[str, Any]], host: str, kind: str) -> list[dict[str, Any]]:
    """`clusters | highwater_brokers_on(host, 'highwater')`: for each cluster (highwater_clusters) its part on a host.

    kind: highwater or reference. A part has system (the bench's name for the cluster), units and log_dirs.
    """
    unit = {_OURS: "highwater-broker@{}.service", _REFERENCE: "reference-kafka@{}.service"}[kind]
    found = []
    for name, cluster in clusters.items():
        brokers = [broker for broker in cluster["brokers"] if broker["host"] == host]
        if brokers:
            units = [unit.format(broker["name"]) for broker in brokers]
            ours = ["readlink", _RELEASE_LINK]
            reference = ["systemctl", "show", "--property=Environment", "--value", units[0]]
            found.append(
                {
                    "system": f"{kind}-{name}",
                    "units": units,
                    "log_dirs": [path for broker in brokers for path in broker["log_dirs"]],
                    "version_command": ours if kind == _OURS else reference,
                }
            )
    return found


def products(pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, str]:
    """Return the product of each system. pairs: parts, and the results of their version_command."""
    return {part["system"]: _product(part["system"], told.get("stdout") or "") for part, told in pairs}


def _product(system: str, told: str) -> str:
    if system.startswith(f"{_OURS}-"):
        return " ".join(filter(None, ("highwater", PurePosixPath(told.strip()).name)))
    release = _KAFKA_RELEASE.match(told.partition("CLASS_PATH=")[2])
    return f"apache-kafka {release[1]}" if release else "apache-kafka"


def observed(
    pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
    disks: Sequence[Mapping[str, Any]],
    sampler: str,
    attendants: Sequence[str],
    generator: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Return this host for each system, as in a workload file. pairs: parts, and `bench host describe`'s output."""
    return {
        part["system"]: _host(part, json.loads(described["stdout"]), disks)
        | {
            "sampler": {
                "address": sampler,
                "brokers": list(part["units"]),
                "attendants": list(attendants),
                "generator": list(generator),
            }
        }
        for part, described in pairs
        # In check mode a broker need not be there yet.
        if described.get("stdout")
    }


def _host(part: Mapping[str, Any], told: dict[str, Any], disks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the host reported, and what only the inventory knows: which medium its disks are, or stand for."""
    below = [disk for disk in disks if any(_is_below(path, disk["mount_point"]) for path in part["log_dirs"])]
    media = {disk["medium"] for disk in below if disk.get("medium")}
    storage = dict(told["storage"])
    if any(disk.get("emulated") for disk in below):
        storage |= {
            "emulated": True,
            "emulation": "a file as a disk, which stands for its medium as the inventory says",
        }
    if len(media) == 1 and (storage.get("emulated") or storage.get("medium", "unknown") == "unknown"):
        storage["medium"] = media.pop()
    return told | {"storage": storage}


def _is_below(path: str, mount_point: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(mount_point))


def probes(
    pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], probed: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return fio's figures of each system's disk. pairs: parts, and findmnt's answer; probed: one result per mount."""
    by_mount = {
        result["item"]: json.loads(result["stdout"])
        for result in probed
        if result.get("rc") == 0 and result.get("stdout")
    }
    return {part["system"]: by_mount[mount["stdout"]] for part, mount in pairs if mount.get("stdout") in by_mount}


def systems(
    ours: Mapping[str, Mapping[str, Any]], reference: Mapping[str, Mapping[str, Any]], chosen: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Clusters of both kinds (highwater_clusters) by the bench's names; those chosen, or all."""
    found = {f"{_OURS}-{name}": dict(cluster) for name, cluster in ours.items()}
    found |= {f"{_REFERENCE}-{name}": dict(cluster) for name, cluster in reference.items()}
    if unknown := [name for name in chosen if name not in found]:
        known = ", ".join(found) or "none"
        raise AnsibleFilterError(f"bench_systems names {unknown[0]}, and the clusters of the inventory are {known}")
    return {name: found[name] for name in chosen} if chosen else found


def described_clusters(
    found: Mapping[str, Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]], command_config: str = ""
) -> dict[str, dict[str, Any]]:
    """Return clusters as in a workload file, with what each host reported of itself (role observer).

    command_config: the file with TLS and the login of our clusters; empty where they have neither.
    """
    clusters = {}
    for name, cluster in found.items():
        hosts = list(dict.fromkeys(broker["host"] for broker in cluster["brokers"]))
        told = {host: hostvars[host].get("observer_clusters", {}).get(name) for host in hosts}
        products = [hostvars[host].get("observer_products", {}).get(name) for host in hosts]
        # Hosts may run other releases, such as compiled ones.
        product = " and ".join(dict.fromkeys(filter(None, products))) or name.partition("-")[0]
        processes = max(broker.get("process", 0) for broker in cluster["brokers"]) + 1
        clusters[name] = {
            "bootstrap_servers": cluster["bootstrap_servers"],
            "product": product if processes == 1 else f"{product}, {processes} processes on each host",
            "hosts": {host: entry for host, entry in told.items() if entry},
        }
        if command_config and name.startswith(f"{_OURS}-"):
            clusters[name]["command_config"] = command_config
    return clusters


def probes_of_clusters(
    found: Mapping[str, Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return what fio measured by system and host (role observer), as `bench run --probes` takes it."""
    return {
        name: {
            host: probe
            for host in dict.fromkeys(broker["host"] for broker in cluster["brokers"])
            if (probe := hostvars[host].get("observer_probes", {}).get(name))
        }
        for name, cluster in found.items()
    }


def workload(
    base: Mapping[str, Any],
    name: str,
    found: Mapping[str, Mapping[str, Any]],
    clusters: Mapping[str, Mapping[str, Any]],
    copies: int,
    in_sync: int,
    overrides: Mapping[str, Any],
) -> dict[str, Any]:
    """The workload file that lies over base.yaml: its load, on the clusters. null takes away what was of other systems.

    found: the clusters with their brokers; clusters: as the file has them. copies, in_sync: 0 for what they allow.
    """
    # Brokers into which broker_processes divides one have one copy among them.
    brokers = min(sum(not broker.get("process") for broker in cluster["brokers"]) for cluster in found.values())
    copies = copies or min(_MOST_COPIES, brokers)
    if copies > brokers:
        raise AnsibleFilterError(f"bench_replication is {copies}, and the smallest cluster can keep {brokers} apart")
    names = list(clusters)
    matrix = {axis: None for axis in base.get("matrix") or {} if axis == "storage.target" or axis.startswith("system.")}
    document: dict[str, Any] = {
        "schema": "bench.workload/1",
        "include": "base.yaml",
        "name": name,
        "topics": {
            "replication": copies,
            "config": {"min.insync.replicas": in_sync or max(1, copies - 1)},
        },
        "system": dict.fromkeys(base.get("system") or {})
        | {"kind": "external", "cluster": names[0], "clusters": dict(clusters)},
    }
    if storage := _nulls(base.get("storage")):
        document["storage"] = storage
    if variants := _variants(base.get("variants") or {}):
        document["variants"] = variants
    if len(names) > 1:
        matrix["system.cluster"] = names
    if matrix:
        document["matrix"] = matrix
    gone = {axis for axis, values in matrix.items() if values is None}
    if any(gone & set(combination) for combination in base.get("exclude") or []):
        document["exclude"] = [combination for combination in base["exclude"] if not gone & set(combination)]
    if (payload := (base.get("records") or {}).get("payload_file")) is not None:
        document["records"] = {"payload_file": PurePosixPath(payload).name}
    return _laid(document, overrides)


def _nulls(storage: Mapping[str, Any] | None) -> dict[str, None]:
    return {key: None for key in ("target", "targets") if key in (storage or {})}


def _variants(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What variants say of systems that a run starts, and of its storage, taken away."""
    found = {}
    for name, overlay in variants.items():
        gone: dict[str, Any] = {"system": None} if "system" in overlay else {}
        if storage := _nulls(overlay.get("storage")):
            gone["storage"] = None if set(overlay["storage"]) == set(storage) else storage
        if gone:
            found[name] = gone
    return found


def _laid(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merged key by key, everything else replaced."""
    merged = dict(below)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _laid(merged[key], value) if both else value
    return merged


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_bench_systems": systems,
            "highwater_bench_workload": workload,
            "highwater_brokers_on": brokers_on,
            "highwater_described_clusters": described_clusters,
            "highwater_observed": observed,
            "highwater_probes": probes,
            "highwater_probes_of_clusters": probes_of_clusters,
            "highwater_products": products,
        }
