"""Which results are comparable: the facts of a host that affect figures, and their hash.

Two results with one key were taken under conditions that are the same as far as this table knows. Facts that do not
decide (host names, load average, versions of what only reads results) are shown by `differences` and change no key.
The system under test is never part of it: it is what is compared. Nor is a name that somebody gave, such as that of a
storage target.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.results.cluster import ClusterHostUse
from highwater.results.gate import EnvironmentDifference
from highwater.results.models import Environment
from highwater.results.reader import RunResult
from highwater.results.storage import StorageTarget

KEY_LENGTH: Final = 12
# Facts that change all the time: never shown.
_VOLATILE: Final = (
    "load_average", "memory.available_bytes", "unknown", "swaps", "mounts", "block_devices", "control_group.path",
    "softnet", "tcp_ext",
)  # fmt: skip
# Memory is rounded to 1 GiB: the part that firmware and kernel reserve differs by some MiB from boot to boot.
_MEMORY_STEP_BYTES: Final = 1 << 30

Scalar = str | int | float | bool | None

# Fact of the key -> what people call it.
_HUMAN_NAMES: Final = {
    "kernel.release": "kernel",
    "machine": "machine type",
    "cpu.model": "processor",
    "cpu.count": "number of CPUs",
    "cpu.allowed": "CPUs that this process may use",
    "memory.gib": "memory in GiB",
    "memory.cgroup_limit_bytes": "memory limit in bytes",
    "virtual_machine": "virtual machine",
    "container": "container",
    "cpu.governor": "CPU governor",
    "cpu.scaling_driver": "CPU frequency driver",
    "cpu.no_turbo": "turbo switched off",
    "cpu.smt": "simultaneous multithreading",
    "clock.source": "clock source",
    "memory.transparent_hugepage": "transparent huge pages",
    "cgroup.cpu_max": "CPU limit",
    "tuning": "fingerprint of the kernel's settings",
    "kernel": "kernel",
    "runs_in": "runs in",
    "python": "Python",
}
_STORAGE: Final = "storage"
_STORAGE_NAMES: Final = {
    "medium": "medium",
    "emulated": "emulated",
    "model": "model",
    "scheduler": "I/O scheduler",
    "filesystem": "filesystem",
    "mount_options": "mount options",
}
_STORAGE_FACT: Final = re.compile(rf"{_STORAGE}(?:\.(?P<target>.+))?\.(?P<fact>{'|'.join(_STORAGE_NAMES)})")
_HOST_FACT: Final = re.compile(r"host\.(?P<host>.+)\.(?P<fact>cpu\.count|cpu\.model|memory\.gib|kernel|runs_in|tuning)")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")

# The connection of a trial that recorded nothing about TLS and SASL.
_PLAIN_CONNECTION: Final = {"security.protocol": "PLAINTEXT"}


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """`facts` by name, in the order of display; the name is the first KEY_LENGTH digits of their `sha256`."""

    facts: dict[str, Scalar]

    @property
    def name(self) -> str:
        canonical = json.dumps(self.facts, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:KEY_LENGTH]


def environment_key(environment: Environment, storage: list[StorageTarget]) -> EnvironmentKey:
    """The key of one result, from its env.json and the storage targets of its trials.

    A fact that an older directory did not record is None, which equals only None.
    """
    facts, settings = environment.facts, _mapping(environment.facts.get("settings"))
    memory, versions = _mapping(facts.get("memory")), _mapping(facts.get("versions"))
    key: dict[str, Scalar] = {
        "kernel.release": facts.get("kernel_release"),
        "machine": facts.get("machine"),
        "cpu.model": facts.get("cpu_model"),
        "cpu.count": facts.get("cpu_count"),
        "cpu.allowed": facts.get("cpus_allowed"),
        "memory.gib": _gib(memory.get("total_bytes")),
        "memory.cgroup_limit_bytes": memory.get("cgroup_limit_bytes"),
        "virtual_machine": facts.get("virtual_machine"),
        "container": facts.get("container"),
        **{
            name: settings.get(name)
            for name in ("cpu.governor", "cpu.scaling_driver", "cpu.no_turbo", "cpu.smt", "clock.source")
        },
        "memory.transparent_hugepage": settings.get("memory.transparent_hugepage"),
        "cgroup.cpu_max": settings.get("cgroup.cpu_max"),
        "tuning": _tuning_fingerprint(facts),
        # The clients are the instrument: another librdkafka measures and sends in another way.
        "librdkafka": versions.get("librdkafka"),
        "python": ".".join(str(versions["python"]).split(".")[:2]) if "python" in versions else None,
    }
    return EnvironmentKey(key | storage_facts(storage))


def storage_facts(targets: Iterable[StorageTarget]) -> dict[str, Scalar]:
    """The facts of a key about storage targets, whatever their names."""
    return _numbered(
        {
            "medium": target.medium,
            "emulated": target.emulated,
            "model": target.model,
            "scheduler": target.scheduler,
            "filesystem": target.filesystem,
            "mount_options": ",".join(sorted(target.mount_options)),
        }
        for target in targets
    )


def key_of(result: RunResult) -> EnvironmentKey:
    """The key of a result directory."""
    storage = {trial.summary.storage.name: trial.summary.storage for trial in result.trials}
    key = environment_key(result.environment, list(storage.values()))
    hosts = {(t.summary.system.version, host.name): host for t in result.trials for host in t.summary.cluster_hosts}
    return EnvironmentKey(key.facts | _hosts_facts(list(hosts.values())) | _connection_facts(result))


def differences(base: RunResult, head: RunResult) -> list[EnvironmentDifference]:
    """The differences between two environments: first facts of the key, then facts that are only shown."""
    base_key, head_key = key_of(base).facts, key_of(head).facts
    if not (base.trials and head.trials):
        # A run without a finished trial does not know its disks, which is no difference.
        both = base_key.keys() & head_key.keys()
        base_key, head_key = ({fact: key[fact] for fact in key if fact in both} for key in (base_key, head_key))
    decisive = unequal(base_key, head_key, decides=True)
    shown = unequal(flat(base.environment.facts), flat(head.environment.facts), decides=False)
    return [*decisive, *shown]


def unequal(
    base: Mapping[str, Scalar], head: Mapping[str, Scalar], *, decides: bool = True
) -> list[EnvironmentDifference]:
    """The facts that differ, in the order of base. decides: they are facts of a key."""
    return [
        EnvironmentDifference(
            fact=fact,
            name=human_name(fact) if decides else "",
            base=base.get(fact),
            head=head.get(fact),
            decides=decides,
        )
        for fact in dict.fromkeys([*base, *head])
        if base.get(fact) != head.get(fact)
    ]


def human_name(fact: str) -> str:
    """What people call a fact of a key: `storage.filesystem` -> `storage: filesystem`; its own name if it has none."""
    if (storage := _STORAGE_FACT.fullmatch(fact)) is not None:
        return f"{' '.join(filter(None, (_STORAGE, storage['target'])))}: {_STORAGE_NAMES[storage['fact']]}"
    if (host := _HOST_FACT.fullmatch(fact)) is not None:
        return f"host {host['host']}: {_HUMAN_NAMES[host['fact']]}"
    if fact.startswith("connection."):
        return f"connection of clients: {fact.removeprefix('connection.')}"
    return _HUMAN_NAMES.get(fact, fact)


def difference_text(difference: EnvironmentDifference) -> str:
    """`storage: filesystem ext4 → xfs`, `processor: A → B`."""
    name = difference.name or difference.fact
    colon = "" if ": " in name else ":"
    return f"{name}{colon} {_value_text(difference.base)} → {_value_text(difference.head)}"


def _value_text(value: Scalar) -> str:
    if value is None:
        return "not known"
    text = str(value)
    return text[:KEY_LENGTH] if _FINGERPRINT.fullmatch(text) else text


def renamed(facts: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The facts of a key of any version as this version names them: formerly they had the names of storage targets."""
    targets: dict[str, dict[str, Scalar]] = {}
    others: dict[str, Scalar] = {}
    for fact, value in facts.items():
        found = _STORAGE_FACT.fullmatch(fact)
        if found is None:
            others[fact] = value
        else:
            targets.setdefault(found["target"] or "", {})[found["fact"]] = value
    return others | _numbered(targets.values())


def _numbered(targets: Iterable[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """The facts of storage targets by what they are: `storage.medium`, and of a second kind `storage.2.medium`."""
    different = {json.dumps(facts, sort_keys=True): facts for facts in targets}
    numbered: dict[str, Scalar] = {}
    for number, (_, facts) in enumerate(sorted(different.items()), start=1):
        place = _STORAGE if number == 1 else f"{_STORAGE}.{number}"
        numbered |= {f"{place}.{name}": value for name, value in facts.items()}
    return numbered


def _connection_facts(result: RunResult) -> dict[str, Scalar]:
    """How clients connected to an external cluster: this is not in the workload's text, and TLS costs CPU."""
    connections = [trial.summary.system.connection for trial in result.trials]
    values_of: dict[str, set[str]] = {}
    for connection in connections if any(connections) else ():
        for name, value in (connection or _PLAIN_CONNECTION).items():
            values_of.setdefault(name, set()).add(value)
    return {f"connection.{name}": ", ".join(sorted(values)) for name, values in sorted(values_of.items())}


def connection_text(connection: Mapping[str, str]) -> str:
    """How a trial's clients connected, for people: `SASL_SSL PLAIN`."""
    return " ".join((connection or _PLAIN_CONNECTION).values())


def _hosts_facts(hosts: Sequence[ClusterHostUse]) -> dict[str, Scalar]:
    """The facts of the hosts of an external cluster, which decide as the facts of this host do."""
    facts: dict[str, Scalar] = {}
    for host in sorted(hosts, key=lambda item: item.name):
        facts[f"host.{host.name}.cpu.count"] = host.cpu_count
        facts[f"host.{host.name}.cpu.model"] = host.cpu_model
        facts[f"host.{host.name}.memory.gib"] = _gib(host.memory_bytes)
        facts[f"host.{host.name}.kernel"] = host.kernel
        facts[f"host.{host.name}.runs_in"] = host.runs_in
        facts[f"host.{host.name}.tuning"] = host.tuning_fingerprint
    return facts


def _tuning_fingerprint(facts: Mapping[str, Any]) -> str | None:
    """The recorded fingerprint; for a run without one, a fingerprint of its recorded kernel settings."""
    recorded = facts.get("tuning_fingerprint")
    if isinstance(recorded, Mapping):
        recorded = recorded.get("sha256")
    if recorded is not None:
        return str(recorded)
    sysctl = facts.get("sysctl")
    return hashlib.sha256(json.dumps(sysctl, sort_keys=True).encode()).hexdigest() if sysctl else None


def _gib(size_bytes: Any) -> int | None:
    return round(size_bytes / _MEMORY_STEP_BYTES) if isinstance(size_bytes, int) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    """Nested data by dotted names, lists as text, without facts that change all the time."""
    leaves: dict[str, Scalar] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if path in _VOLATILE:
            continue
        if isinstance(value, Mapping):
            leaves |= flat(value, path + ".")
        else:
            leaves[path] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return leaves


def what_is_measured(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document without paths of password files and without where live figures go: two workloads that differ
    in these only are the same.
    """
    system = {key: value for key, value in document.get("system", {}).items() if key != "command_config"}
    if "clusters" in system:
        system["clusters"] = {
            name: {key: value for key, value in cluster.items() if key != "command_config"}
            for name, cluster in system["clusters"].items()
        }
    measured = {key: value for key, value in document.items() if key != "telemetry"}
    return {**measured, "system": system}
