"""Which results are comparable: the facts of a host that affect figures, and their hash.

Two results with one key were taken under conditions that are the same as far as this table knows. Facts that do not
decide (host names, load average, versions of what only reads results) are shown by `differences` and change no key.
The system under test is never part of it: it is what is compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.bench.results import ClusterHostUse, Environment, EnvironmentDifference, RunResult, StorageTarget

KEY_LENGTH: Final = 12
# Facts that change all the time: never shown.
_VOLATILE: Final = (
    "load_average", "memory.available_bytes", "unknown", "swaps", "mounts", "block_devices", "control_group.path",
    "softnet", "tcp_ext",
)  # fmt: skip
# Memory is rounded to 1 GiB: the part that firmware and kernel reserve differs by some MiB from boot to boot.
_MEMORY_STEP_BYTES: Final = 1 << 30

Scalar = str | int | float | bool | None

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
    for target in sorted(storage, key=lambda item: item.name):
        for name, value in _storage_facts(target).items():
            key[f"storage.{target.name}.{name}"] = value
    return EnvironmentKey(key)


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
    decisive = list(_unequal(base_key, head_key, decides=True))
    shown = _unequal(flat(base.environment.facts), flat(head.environment.facts), decides=False)
    return [*decisive, *shown]


def _unequal(
    base: Mapping[str, Scalar], head: Mapping[str, Scalar], *, decides: bool
) -> Iterator[EnvironmentDifference]:
    for fact in dict.fromkeys([*base, *head]):
        one, other = base.get(fact), head.get(fact)
        if one != other:
            yield EnvironmentDifference(fact=fact, base=one, head=other, decides=decides)


def _storage_facts(target: StorageTarget) -> dict[str, Scalar]:
    return {
        "medium": target.medium,
        "emulated": target.emulated,
        "model": target.model,
        "scheduler": target.scheduler,
        "filesystem": target.filesystem,
        "mount_options": ",".join(sorted(target.mount_options)),
    }


def _connection_facts(result: RunResult) -> dict[str, Scalar]:
    """How clients connected to an external cluster: this is not in the workload's text, and TLS costs CPU."""
    connections = [trial.summary.system.connection for trial in result.trials]
    told: dict[str, set[str]] = {}
    for connection in connections if any(connections) else ():
        for name, value in (connection or _PLAIN_CONNECTION).items():
            told.setdefault(name, set()).add(value)
    return {f"connection.{name}": ", ".join(sorted(values)) for name, values in sorted(told.items())}


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
