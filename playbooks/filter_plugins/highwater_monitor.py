"""Filters for monitors: which there are by default, their faults, and the hosts that they ask."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

DEFAULT_PORT = 9644
# Ports between two monitors of a host: the agent's and the one for metrics lie beside a monitor's.
_PORTS_APART = 10
_AGENT_PORT = 9646
_LAST_PORT = 65_535
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = ("name", "cluster", "port", "settings", "files", "environment")
AUTHORITY_FILE = "agents.pem"
_OWN_FILES = ("monitor.yaml", "certificate.pem", "key.pem", "cluster.pem", AUTHORITY_FILE, "environment")
TOKEN_SUFFIX = ".token"  # noqa: S105 - of a file
# Variables that systemd, the unit and the role set.
_SET_BY_UNIT = ("CLUSTER_PASSWORD", "ZOOKEEPER_LOGIN", "HOME", "PATH", "STATE_DIRECTORY", "RUNTIME_DIRECTORY")

Variables = Mapping[str, Any]


def instances(clusters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`clusters | highwater_monitors`: one for each cluster."""
    return [
        {"name": name, "port": DEFAULT_PORT + number * _PORTS_APART} for number, name in enumerate(sorted(clusters))
    ]


def faults(given: Iterable[Variables], clusters: Mapping[str, Any]) -> list[str]:
    """`monitor_instances | highwater_monitor_faults(clusters)`: a sentence for each fault, without any secret."""
    found = []
    monitors = list(given)
    for name, count in Counter(str(each.get("name", "")) for each in monitors).items():
        if not _NAME.fullmatch(name):
            found.append(f"a monitor has the name {name!r}; names have letters, digits, '_' and '-'")
        if count > 1:
            found.append(f"{count} monitors have the name {name}; give each its own")
    for port, count in Counter(str(each.get("port", DEFAULT_PORT)) for each in monitors).items():
        if not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            found.append(f"a monitor has the port {port}, which is none")
        if count > 1:
            found.append(f"{count} monitors have the port {port}; give each its own")
    for each in monitors:
        found += _faults_of(each, clusters)
    return found


def _faults_of(monitor: Variables, clusters: Mapping[str, Any]) -> Iterable[str]:
    who = f"monitor {monitor.get('name')}"
    if unknown := sorted(set(monitor) - set(_KEYS)):
        yield f"{who} has the unknown key {unknown[0]}; keys are {', '.join(_KEYS)}"
    cluster = str(monitor.get("cluster") or monitor.get("name"))
    if cluster not in clusters and "bootstrap_servers" not in (monitor.get("settings") or {}):
        there = ", ".join(sorted(clusters)) or "none"
        yield (
            f"{who} is for cluster {cluster}, which no host of the group brokers has; clusters are: {there}; for "
            "another one give settings.bootstrap_servers"
        )
    files = [str(path) for path in monitor.get("files") or []]
    yield from (f"{who} names the file {path}, which is not on the controller" for path in files if _is_missing(path))
    names = [Path(path).name for path in files]
    taken = [name for name in names if name in _OWN_FILES or name.endswith(TOKEN_SUFFIX) or names.count(name) > 1]
    if taken:
        yield f"{who} has two files with the name {taken[0]}; beside its own file they would be one"
    for variable, value in (monitor.get("environment") or {}).items():
        if not _VARIABLE.fullmatch(str(variable)) or variable in _SET_BY_UNIT:
            yield f"{who} has the variable {variable!r}, which is not a name for a variable of yours"
        elif not str(value).isprintable():
            yield f"{who} has a value of several lines for {variable}"


def _is_missing(path: str) -> bool:
    return not Path(path).is_file()


def hosts_of(cluster: Mapping[str, Any] | None) -> list[str]:
    """`clusters[name] | highwater_monitor_hosts`: those that have its brokers."""
    return list(dict.fromkeys(broker["host"] for broker in (cluster or {}).get("brokers", [])))


def agents(
    addresses: Mapping[str, str], hostvars: Mapping[str, Variables], has_authority: bool
) -> dict[str, dict[str, Any]]:
    """`addresses | highwater_agents(hostvars, has_authority)`: `hosts` of a monitor's file.

    has_authority: certificates of all agents, also those that were given, are of the authority in agents.pem.
    """
    found = {}
    for host, address in addresses.items():
        variables = hostvars[host]
        where = f"[{address}]" if ":" in address else address
        entry: dict[str, Any] = {"address": f"{where}:{variables.get('agent_port') or _AGENT_PORT}"}
        is_local, is_given = address in _LOOPBACK, bool(variables.get("agent_certificate"))
        if not is_local or variables.get("agent_token"):
            entry["token_file"] = f"{host}{TOKEN_SUFFIX}"
        if (has_authority and is_given) or not (is_local or is_given):
            entry["ca"] = AUTHORITY_FILE
        found[host] = entry
    return found


def wanted_tokens(asked: Mapping[str, Variables], hostvars: Mapping[str, Variables]) -> list[str]:
    """`agents | highwater_wanted_tokens(hostvars)`: names of the secrets that agents have which were given no token."""
    return [f"agent-{host}" for host in _with_token(asked) if not hostvars[host].get("agent_token")]


def token_files(
    asked: Mapping[str, Variables], hostvars: Mapping[str, Variables], made: Mapping[str, str]
) -> list[dict[str, str]]:
    """`agents | highwater_token_files(hostvars, keys_texts)`: names and texts."""
    return [
        {
            "name": asked[host]["token_file"],
            "text": str(hostvars[host].get("agent_token") or made.get(f"agent-{host}", "")),
        }
        for host in _with_token(asked)
    ]


def _with_token(asked: Mapping[str, Variables]) -> list[str]:
    return [host for host, entry in asked.items() if "token_file" in entry]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_agents": agents,
            "highwater_monitor_faults": faults,
            "highwater_monitor_hosts": hosts_of,
            "highwater_monitors": instances,
            "highwater_token_files": token_files,
            "highwater_wanted_tokens": wanted_tokens,
        }
