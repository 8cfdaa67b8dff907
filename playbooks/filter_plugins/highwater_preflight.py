"""Filter that finds faults in the variables of an inventory, without asking a host."""

from __future__ import annotations

import difflib
import ipaddress
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import DEFAULT_TYPE_VALIDATORS
from ansible.module_utils.errors import ArgumentTypeError, ElementError, NoLogError, SubParameterTypeError

Variables = Mapping[str, Any]
_ROLES = Path(__file__).parent.parent / "roles"
_GROUPS = ("zookeeper", "brokers", "reference_kafka", "spark_master", "spark_workers", "bench", "monitor", "pipelines")
_ENSEMBLES = (1, 3, 5)
# Where all roles find a host, unless a variable of their own says otherwise.
_OF_ALL_ROLES = ("highwater_address", "ansible_host")
# A label of a host name; with underscores, which names of containers have.
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_NAME = 253
_EVERYWHERE = ("0.0.0.0", "::")
_LISTENED = ("agent_address", "broker_metrics_address", "zookeeper_client_bind_address")
_MOST_HOSTS_NAMED = 4
# As in highwater.py; filters of Ansible's cannot import each other.
_ID_STEP = 100
_MOST_PROCESSES = 64
_MOST_COPIES = 3
# Properties that follow from an instance and its number.
_OF_ONE_BROKER = (
    *("broker.id", "node.id", "broker.rack", "log.dir", "log.dirs", "listeners", "advertised.listeners"),
    "metrics.listener",
)
# As in highwater_monitor.py.
_MONITOR, _MONITORS_APART = 9644, 10
# How like a name of ours must be to be taken for a misspelling of it.
_ALIKE = 0.88
# What an operator says to more than one role.
_BESIDE_ROLES = ("highwater_address", "teardown_confirmed", "teardown_remove_data")
# Roles of ours give it to each other; an operator's package_name is no misspelling of it.
_OF_ROLES_ALONE = "packages_names"
# What a name of ours can be in an inventory beside the arguments of roles.
_PLAIN = (str, int, float, bool, list, dict, type(None))
# What the validator has against a type, looking for secrets too.
_OF_TYPES = (ArgumentTypeError, ElementError, NoLogError, SubParameterTypeError)
# Types of arguments in words.
_KINDS = {
    "str": "a string",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
}


def variable_faults(hostvars: Mapping[str, Variables]) -> list[str]:
    """Variables that no role has and that look like one, and values that their role would refuse."""
    hosts_of: dict[str, list[str]] = {}
    for host in hostvars:
        for fault in _faults_of_variables(hostvars[host]):
            hosts_of.setdefault(fault, []).append(host)
    return [f"{_names(hosts)}: {fault}" for fault, hosts in hosts_of.items()]


def inventory_faults(
    hostvars: Mapping[str, Variables],
    groups: Mapping[str, list[str]],
    clusters: Mapping[str, Mapping[str, Any]],
    reference_clusters: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """What hosts say that is sound for each and not for all of them. Clusters are what highwater_clusters finds."""
    brokers = [("broker_instances", name, each) for name, found in clusters.items() for each in found["brokers"]]
    references = [
        ("reference_kafka_instances", name, each)
        for name, found in reference_clusters.items()
        for each in found["brokers"]
    ]
    return [
        *_faults_of_groups(groups),
        *_faults_of_addresses(hostvars),
        *_faults_of_zookeeper(hostvars, groups),
        *_faults_of_ids(brokers),
        *_faults_of_ids(references),
        *_faults_of_processes(hostvars, groups, clusters),
        *_faults_within_hosts(hostvars, groups, clusters, [*brokers, *references]),
    ]


def clock_faults(ahead_s: Mapping[str, float | None], most_s: float) -> list[str]:
    """Hosts whose clocks are away from the others'. Those that could not be asked are None."""
    known = {host: seconds for host, seconds in ahead_s.items() if seconds is not None}
    if len(known) < 2 or max(known.values()) - min(known.values()) <= most_s:
        return []
    middle = statistics.median_low(known.values())
    return [
        f"{host}: the clock is {abs(seconds - middle):.0f} s {'ahead of' if seconds > middle else 'behind'} the other "
        f"hosts', and {most_s:g} s are allowed; set it (chronyc makestep, or timedatectl set-time)"
        for host, seconds in known.items()
        if abs(seconds - middle) > most_s
    ]


def compile_faults(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """`answers | highwater_compile_faults`: of each host, what highwater_wheelhouse said, if it named no release."""
    return [
        f"{host}: {answer['msg']}"
        for host, answer in answers.items()
        if answer.get("msg") and not answer.get("skipped") and "name" not in answer
    ]


def expected_ports(
    host: str,
    hostvars: Mapping[str, Variables],
    groups: Mapping[str, list[str]],
    clusters: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """`inventory_hostname | highwater_ports(hostvars, groups, clusters)`: what will listen on a host, by unit.

    clusters: ours, as highwater_clusters finds them; each has a monitor by default.
    """
    carried = _Carried.by(host, groups, clusters)
    return [{"port": port, "unit": unit} for port, unit, _ in _listeners(hostvars[host], carried)]


def zookeeper_without_tls(variables: Variables, group_names: Iterable[str]) -> list[str]:
    """`hostvars[host] | highwater_zookeeper_without_tls(group_names)`: those that may have no TLS."""
    if "zookeeper" not in group_names or variables.get("cluster_security", "none") != "none":
        return []
    data = variables.get("zookeeper_data_directory") or "/var/lib/zookeeper"
    return ["/etc/highwater/zookeeper/zoo.cfg", f"{data}/started_with.cfg"]


def _faults_of_variables(variables: Variables) -> Iterator[str]:
    known = _options()
    for name in variables:
        if name in known:
            value = _value(variables, name)
            if value is not _UNKNOWN:
                yield from _faults_of_value(*known[name], name, value)
        elif near := _misspelt(name):
            yield f"variable {name} is read by no playbook; did you mean {near}?"


@cache
def _misspelt(name: str) -> str:
    """The variable that is meant by one that no role has, if any."""
    if name.startswith("_"):  # roles keep what they found under names like those of their variables
        return ""
    settable = {*_options(), *_BESIDE_ROLES} - {_OF_ROLES_ALONE}
    near = difflib.get_close_matches(name, sorted(settable), 1, _ALIKE)
    return near[0] if near and near[0] != name else ""


def _faults_of_value(role: str, option: Mapping[str, Any], name: str, value: Any) -> Iterator[str]:
    wrong_types = [f"{fault}; see roles/{role}/README.md" for fault in _wrong_types(name, value, option)]
    yield from wrong_types
    yield from _unknown_keys(name, value, option)
    validator = ArgumentSpecValidator({name: {**_lenient(option), "required": False}})
    for error in validator.validate({name: _without_unknown_keys(value, option)}).errors:
        if not (wrong_types and isinstance(error, _OF_TYPES)):
            yield error.msg


def _wrong_types(where: str, value: Any, option: Mapping[str, Any]) -> Iterator[str]:
    """The validator does not always say of which variable it speaks, and never of which entry of a list."""
    kind, each = option.get("type", "str"), option.get("elements")
    if value is None or kind not in _KINDS:
        return
    if not _can_be(kind, value) or (each and not isinstance(value, list) and not _can_be(each, value)):
        of_each = f", with {_KINDS[each]} for each entry" if each else ""
        yield f"{where} is {_seen(value, kind)} and has to be {_KINDS[kind]}{of_each}"
    elif each and isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _wrong_types(f"{where}[{number}]", entry, {**option, "type": each, "elements": None})
    elif isinstance(value, dict):
        known = option.get("options") or {}
        for key, inner in value.items():
            if key in known:
                yield from _wrong_types(f"{where}.{key}", inner, known[key])


def _can_be(kind: str, value: Any) -> bool:
    if kind in ("str", "path"):
        return not isinstance(value, (list, dict))  # Ansible would take their code
    try:
        DEFAULT_TYPE_VALIDATORS[kind](value)
    except (TypeError, ValueError):
        return False
    return True


def _seen(value: Any, wanted: str) -> str:
    if isinstance(value, str) and wanted in ("list", "dict"):
        return _KINDS["str"]  # it may hold a secret
    return _KINDS["list"] if isinstance(value, list) else _KINDS["dict"] if isinstance(value, dict) else repr(value)


_UNKNOWN = object()


def _value(variables: Variables, name: str) -> Any:
    """What a variable is; _UNKNOWN for one made of facts, which nobody has gathered yet, or of what is not there."""
    try:
        value = _looked_at(variables[name])
    except Exception:  # whatever a template of the inventory's can raise
        return _UNKNOWN
    return value if isinstance(value, _PLAIN) and "{{" not in str(value) else _UNKNOWN


def _looked_at(value: Any) -> Any:
    """Return a copy with every inner value: Ansible resolves what a value names when the value is read."""
    if isinstance(value, Mapping):
        return {key: _looked_at(inner) for key, inner in value.items()}
    return [_looked_at(inner) for inner in value] if isinstance(value, list) else value


def _unknown_keys(where: str, value: Any, option: Mapping[str, Any]) -> Iterator[str]:
    known = option.get("options")
    if not known:
        return
    for place, each in _dictionaries(where, value):
        for key, inner in each.items():
            if key in known:
                yield from _unknown_keys(f"{place}.{key}", inner, known[key])
            else:
                near = difflib.get_close_matches(str(key), known, 1, 0.5)
                meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                yield f"{place} has an unknown key {key}; {meant}"


def _without_unknown_keys(value: Any, option: Mapping[str, Any]) -> Any:
    known = option.get("options")
    if not known or not isinstance(value, (list, dict)):
        return value
    if isinstance(value, list):
        return [_without_unknown_keys(each, option) for each in value]
    return {key: _without_unknown_keys(inner, known[key]) for key, inner in value.items() if key in known}


def _dictionaries(where: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, dict):
        yield where, value
    elif isinstance(value, list):
        for number, each in enumerate(value):
            if isinstance(each, dict):
                yield f"{where}[{number}]", each


def _lenient(option: Mapping[str, Any]) -> dict[str, Any]:
    """A specification as the validator takes it."""
    return {key: value for key, value in option.items() if key not in ("description", "version_added")}


def _faults_of_groups(groups: Mapping[str, list[str]]) -> Iterator[str]:
    for group in groups:
        near = difflib.get_close_matches(group, _GROUPS, 1, _ALIKE)
        if group not in _GROUPS and near and near[0] not in groups:
            yield f"group {group} is read by no playbook; did you mean {near[0]}?"
    if groups.get("brokers") and not groups.get("zookeeper"):
        yield "group zookeeper is empty and brokers need one; name 1, 3 or 5 hosts in it"
    for group in ("spark_master", "bench"):
        hosts = groups.get(group, [])
        if len(hosts) > 1:
            yield f"group {group} has {len(hosts)} hosts ({_names(hosts)}) and can have one; leave one of them"
    if groups.get("spark_workers") and not groups.get("spark_master"):
        yield "group spark_workers has hosts and spark_master has none; name the host that leads them"


def _faults_of_addresses(hostvars: Mapping[str, Variables]) -> Iterator[str]:
    hosts_at: dict[tuple[str, str], list[str]] = {}
    for host in hostvars:
        variables = hostvars[host]
        yield from (f"{host}: {fault}" for fault in _unusable_addresses(host, variables))
        if variables.get("ansible_connection", "ssh") == "ssh":
            place = (str(variables.get("ansible_host") or host), str(variables.get("ansible_port") or 22))
            hosts_at.setdefault(place, []).append(host)
    for (address, port), hosts in hosts_at.items():
        if len(hosts) > 1:
            yield f"{_names(hosts)}: one machine, {address} port {port}, under {len(hosts)} names; leave one of them"


def _unusable_addresses(host: str, variables: Variables) -> Iterator[str]:
    """What others cannot connect to. Roles put ports and brackets around an address themselves."""
    names = sorted({*_OF_ALL_ROLES, *(name for name in _options() if name.endswith("_address"))})
    given = {name: str(value) for name in names if (value := _value(variables, name)) not in (None, "", _UNKNOWN)}
    if not given.keys() & {*_OF_ALL_ROLES}:
        given["the name of the host, which is its address,"] = host
    for name, text in given.items():
        if not _is_address(text):
            meant = _address_within(text)
            way_out = f"write {meant}" if meant else "write an address alone, without brackets, port or scheme"
            yield f"{name} is {text!r}, and that is not an IP address or a host name; {way_out}"
        elif text in _EVERYWHERE and name not in _LISTENED:
            yield f"{name} is {text}, which is every address and none that others can connect to; name one"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        # What ends in a number is an IPv4 address that is wrong (RFC 3696, section 2).
        return len(text) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()
    return True


def _address_within(text: str) -> str:
    """The address in a URL, in brackets or before a port; empty if there is none."""
    text = text.partition("://")[2] or text
    text = text.partition("/")[0].rpartition("@")[2]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return text if _is_address(text) else ""


def _faults_of_zookeeper(hostvars: Mapping[str, Variables], groups: Mapping[str, list[str]]) -> Iterator[str]:
    members = groups.get("zookeeper", [])
    if members and len(members) not in _ENSEMBLES:
        yield (
            f"group zookeeper has {len(members)} hosts; name 1, 3 or 5: an even number bears no more failures than one "
            "less, and more than 5 only slow each write down"
        )
    if len(members) < 2:
        return
    hosts_of: dict[int, list[str]] = {}
    for host in members:
        number = _whole(hostvars[host].get("zookeeper_id", 0))
        if number is None or not 1 <= number <= 255:
            yield f"{host}: zookeeper_id is missing; set it for the host, a number from 1 to 255 that no other has"
        else:
            hosts_of.setdefault(number, []).append(host)
    for number, hosts in hosts_of.items():
        if len(hosts) > 1:
            yield f"{_names(hosts)}: zookeeper_id {number} is that of {len(hosts)} hosts; give each its own"


def _faults_of_ids(brokers: list[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    owners: dict[tuple[str, int], list[str]] = {}
    for variable, cluster, broker in brokers:
        who = f"{broker['host']} ({variable}: {broker['name']})"
        number = _whole(broker["broker_id"])
        if number is None or number < 0:
            yield f"{who}: broker_id is missing; set it for the host, a number that no other broker of its cluster has"
        else:
            owners.setdefault((cluster, number), []).append(who)
    for (cluster, number), several in owners.items():
        if len(several) > 1:
            yield f"{' and '.join(several)}: broker_id {number} twice in cluster {cluster}; give each its own"


def _faults_of_processes(
    hostvars: Mapping[str, Variables], groups: Mapping[str, list[str]], clusters: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield faults of instances that are divided into several brokers: numbers, ids, racks that keep copies apart."""
    for host in groups.get("brokers", []):
        processes = _whole(hostvars[host].get("broker_processes", 1))
        is_number = processes is not None and 1 <= processes <= _MOST_PROCESSES
        if not is_number and hostvars[host]["broker_processes"] != "auto":
            yield f"{host}: broker_processes has to be a number from 1 to {_MOST_PROCESSES}, or auto"
    for name, cluster in clusters.items():
        brokers = cluster["brokers"]
        divided = {broker["host"] for broker in brokers if broker["process"]}
        for broker in brokers:
            number = _whole(broker["broker_id"])
            if divided and not broker["process"] and number is not None and number >= _ID_STEP:
                yield (
                    f"{broker['host']}: broker_id {number} has to be below {_ID_STEP}, as broker_processes counts on "
                    f"from it in steps of {_ID_STEP}"
                )
        for host in sorted(divided):
            given = hostvars[host].get("broker_properties") or {}
            instances = _instances(hostvars[host], "broker_instances", [])
            for properties in (given, *(each.get("properties") or {} for each in instances)):
                yield from (
                    f"{host}: property {which} of a broker would be that of each of its broker_processes; remove it"
                    for which in _OF_ONE_BROKER
                    if which in properties
                )
        hosts = {broker["host"]: broker["rack"] for broker in brokers}
        racks = set(hosts.values())
        if not divided or racks == {""}:
            continue
        if "" in racks:
            without = _names([host for host, rack in hosts.items() if not rack])
            yield f"{without}: broker_rack is missing in cluster {name}; with broker_processes set it for all, or none"
        elif len(racks) < (copies := min(_MOST_COPIES, len(hosts))):
            yield (
                f"cluster {name} has {len(racks)} racks for {copies} copies, so that two copies could be on one host "
                "of broker_processes; leave broker_rack out, and each host is a rack"
            )


def _faults_within_hosts(
    hostvars: Mapping[str, Variables],
    groups: Mapping[str, list[str]],
    clusters: Mapping[str, Mapping[str, Any]],
    brokers: list[tuple[str, str, Mapping[str, Any]]],
) -> Iterator[str]:
    for host in hostvars:
        taken: dict[int, str] = {}
        for port, _, what in _listeners(hostvars[host], _Carried.by(host, groups, clusters)):
            if port in taken:
                yield f"{host}: port {port} is that of {taken[port]} and of {what}; give one of them another"
            taken.setdefault(port, what)
        names: set[tuple[str, str]] = set()
        folders: dict[str, str] = {}
        for variable, _, broker in brokers:
            if broker["host"] != host:
                continue
            what = f"{variable} {broker['name']}"
            if (variable, broker["name"]) in names:
                yield f"{host}: {variable} names {broker['name']} twice; give one of them another name"
            names.add((variable, broker["name"]))
            for folder in (str(each).rstrip("/") for each in broker["log_dirs"]):
                for other, whose in folders.items():
                    if f"{folder}/".startswith(f"{other}/") or f"{other}/".startswith(f"{folder}/"):
                        yield f"{host}: log_dirs {other} of {whose} and {folder} of {what} overlap; keep them apart"
                folders.setdefault(folder, what)


class _Carried(NamedTuple):
    """What decides who listens on a host, beside its variables."""

    groups: set[str]
    members: int
    """The number of members of ZooKeeper's ensemble."""
    has_monitor: bool
    """Whether the inventory has one: then agents are asked."""
    clusters: list[str]
    brokers: list[Mapping[str, Any]]
    """Ours of the host."""

    @classmethod
    def by(cls, host: str, groups: Mapping[str, list[str]], clusters: Mapping[str, Mapping[str, Any]]) -> _Carried:
        return cls(
            {group for group, hosts in groups.items() if host in hosts},
            len(groups.get("zookeeper", [])),
            bool(groups.get("monitor")),
            sorted(clusters),
            [broker for cluster in clusters.values() for broker in cluster["brokers"] if broker["host"] == host],
        )


def _listeners(variables: Variables, carried: _Carried) -> Iterator[tuple[int, str, str]]:
    """Port, unit and name of what will listen on a host, with the roles' own defaults."""
    if "zookeeper" in carried.groups:
        kinds = [("zookeeper_client_port", 2181)]
        if carried.members > 1:
            kinds += [("zookeeper_quorum_port", 2888), ("zookeeper_election_port", 3888)]
        for name, port in kinds:
            yield _whole(variables.get(name)) or port, "zookeeper.service", name
    if "brokers" in carried.groups:
        yield from _listeners_of_brokers(variables, carried.brokers)
        if carried.has_monitor and str(variables.get("agent_state", "present")) != "absent":
            yield _whole(variables.get("agent_port")) or 9646, "highwater-agent.service", "agent_port"
    if "reference_kafka" in carried.groups:
        for instance in _instances(variables, "reference_kafka_instances", []):
            name = str(instance.get("name", "main"))
            port = _whole(instance.get("port")) or 19092
            yield port, f"reference-kafka@{name}.service", f"reference_kafka_instances {name}"
    if "monitor" in carried.groups and str(variables.get("monitor_state", "present")) != "absent":
        default = [
            {"name": name, "port": _MONITOR + number * _MONITORS_APART} for number, name in enumerate(carried.clusters)
        ]
        for instance in _instances(variables, "monitor_instances", default):
            name = str(instance.get("name", ""))
            unit = f"highwater-monitor@{name}.service"
            yield _whole(instance.get("port")) or _MONITOR, unit, f"monitor {name}"
            settings = instance.get("settings")
            metrics = settings.get("metrics") if isinstance(settings, dict) else None
            listen = metrics.get("listen") if isinstance(metrics, dict) else None
            if of_metrics := _whole(str(listen).rpartition(":")[2]):
                yield of_metrics, unit, f"metrics of monitor {name}"


def _listeners_of_brokers(variables: Variables, brokers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    for broker in brokers:
        unit, what = f"highwater-broker@{broker['name']}.service", f"broker_instances {broker['name']}"
        yield broker["port"], unit, what
        if variables.get("cluster_security") == "tls":
            yield broker["inside_port"], unit, f"the inside_port of {what}"
        if broker["metrics_port"]:
            yield broker["metrics_port"], unit, f"the metrics_port of {what}"


def _instances(variables: Variables, name: str, default: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those that are instances; what is of another type is reported as a fault of the variable."""
    given = variables.get(name, default)
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


@cache
def _options() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the role and the specification of every argument of roles, by name."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            found |= {name: (path.parts[-3], option) for name, option in (entry.get("options") or {}).items()}
    return found


def _whole(value: Any) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _names(hosts: Iterable[str]) -> str:
    names = sorted(hosts)
    more = f" and {len(names) - _MOST_HOSTS_NAMED} more" if len(names) > _MOST_HOSTS_NAMED else ""
    return ", ".join(names[:_MOST_HOSTS_NAMED]) + more


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_clock_faults": clock_faults,
            "highwater_compile_faults": compile_faults,
            "highwater_inventory_faults": inventory_faults,
            "highwater_ports": expected_ports,
            "highwater_variable_faults": variable_faults,
            "highwater_zookeeper_without_tls": zookeeper_without_tls,
        }
