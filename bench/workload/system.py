"""The `system:` section of a workload file: a model with its keys for each kind of system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from highwater.bench.workload.clusters import COMMAND_CONFIG, Cluster
from highwater.bench.workload.values import SYSTEM_TAG, KeyFaultError, Part, Properties

COMMAND_PLACES: Final = ("{port}", "{data_directory}")
NODE_PORT: Final = "{node_port}"
"""A second port, for a proxy that speaks Kafka's protocol and gives clients an address of its own for the broker."""
PROXY_PLACES: Final = ("{port}", "{target}", NODE_PORT)
_PLACES: Final = {"{port}": "the port to listen on", "{target}": "the HOST:PORT of the broker"}
DIRECT: Final = "direct"
# The run sets the broker's id and listeners itself; storage.target names the directory of the log.
_SET_BY_THE_RUN: Final = (
    "advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.voters", "listeners",
    "highwater.processes", "log.dir", "log.dirs", "node.id", "process.roles", "zookeeper.connect",
)  # fmt: skip


def _free_to_set(config: Properties) -> Properties:
    for name in config:
        if name in _SET_BY_THE_RUN:
            raise KeyFaultError(name, text="cannot be set here: the run sets it")
    return config


def _fault_of(command: str, places: Sequence[str], *, needed: Sequence[str]) -> str | None:
    """What is wrong with the places of a command line, in words."""
    found = re.findall(r"\{\w*\}", command)
    for place in needed:
        if place not in found:
            return f"has no {place}, which is replaced by {_PLACES[place]}"
    return next((f"{place} is not one of {', '.join(places)}" for place in found if place not in places), None)


def _command_of_a_proxy(command: str) -> str:
    if fault := _fault_of(command, PROXY_PLACES, needed=PROXY_PLACES[:2]):
        raise ValueError(fault)
    return command


class _AnySystem(Part):
    kind: str
    clusters: dict[str, Cluster] = Field(default={}, description="known clusters, by name")

    @property
    def external(self) -> Cluster | None:
        """The external cluster to measure; None for a system that this run starts."""
        return None


class _ConfiguredBrokers(_AnySystem):
    """Brokers that this run configures and starts."""

    nodes: int = Field(default=1, ge=1, le=9, description="brokers, on this host")
    config: Annotated[Properties, AfterValidator(_free_to_set)] = Field(
        default={}, description="broker configuration, by Kafka's names"
    )

    proxies: dict[str, Annotated[str, AfterValidator(_command_of_a_proxy)]] = Field(
        default={},
        description="name -> command line of a proxy, with {port} and {target}; {node_port} if it speaks Kafka",
    )
    through: str = Field(default=DIRECT, description="what clients connect through: one of proxies, or direct")

    @model_validator(mode="after")
    def _goes_through_one_proxy(self) -> Self:
        if DIRECT in self.proxies:
            raise KeyFaultError("proxies", text=f"{DIRECT!r} is the way without a proxy; name the proxy otherwise")
        if self.through not in (DIRECT, *self.proxies):
            known = ", ".join(self.proxies) or "none there"
            raise KeyFaultError("through", text=f"{self.through!r} is not {DIRECT}, nor one of the proxies ({known})")
        if self.proxy is not None and self.nodes > 1:
            raise KeyFaultError("through", text="a proxy stands before one broker; remove nodes, or through")
        return self

    @property
    def proxy(self) -> str | None:
        """The command line of the proxy that clients connect through."""
        return self.proxies.get(self.through)

    @property
    def members(self) -> int:
        """How many can have a replica of a partition."""
        return self.nodes


class _OneProcess(_AnySystem):
    """A single process that this run starts without a configuration."""

    @property
    def nodes(self) -> int:
        return 1

    @property
    def members(self) -> int:
        return 1


class HighwaterUnderTest(_ConfiguredBrokers):
    """Highwater's broker."""

    kind: Literal["highwater"] = "highwater"
    source: str | None = Field(default=None, description="run the broker of this checkout")
    processes: int | None = Field(
        default=None, ge=1, le=256, description="number of processes of the one broker; one when absent"
    )

    @model_validator(mode="after")
    def _divides_one_broker(self) -> HighwaterUnderTest:
        if self.processes is not None and self.nodes > 1:
            raise KeyFaultError("processes", text="divides one broker; remove nodes, or processes")
        if self.processes is not None and self.proxy is not None:
            raise KeyFaultError("processes", text="each has an address of its own; remove processes, or through")
        return self

    @property
    def members(self) -> int:
        return self.processes or self.nodes


class ApacheKafkaUnderTest(_ConfiguredBrokers):
    """Apache Kafka, fetched or from KAFKA_HOME."""

    kind: Literal["apache-kafka"] = "apache-kafka"
    version: Literal["default", "3.9", "4"] = Field(
        default="default", description="3.9 (with ZooKeeper) or 4 (KRaft, the default)"
    )


class BareLoopUnderTest(_OneProcess):
    """A loop that only receives and writes: the upper bound for any broker."""

    kind: Literal["bare-loop"] = "bare-loop"


class CommandUnderTest(_OneProcess):
    """Any broker that a command line starts."""

    kind: Literal["command"] = "command"
    command: str = Field(description="a command line with {port} and {data_directory}")

    @model_validator(mode="after")
    def _has_places(self) -> CommandUnderTest:
        if fault := _fault_of(self.command, COMMAND_PLACES, needed=("{port}",)):
            raise KeyFaultError("command", text=fault)
        return self


class ClusterUnderTest(_AnySystem):
    """A cluster that is running already, given by its address or by its name in `clusters`."""

    kind: Literal["external"] = "external"
    bootstrap_servers: str | None = Field(default=None, description="host:port[,host:port…]")
    command_config: str | None = Field(default=None, description=COMMAND_CONFIG)
    cluster: str | None = Field(default=None, description="name of the cluster to measure, one of clusters")

    @model_validator(mode="after")
    def _one_cluster(self) -> ClusterUnderTest:
        if not (self.bootstrap_servers or self.cluster):
            raise KeyFaultError("kind", text="external needs bootstrap_servers (or --bootstrap-servers HOST:PORT)")
        if self.cluster is not None:
            if self.bootstrap_servers is not None:
                raise KeyFaultError("cluster", text="has bootstrap_servers of its own; give one of the two")
            if self.command_config is not None:
                raise KeyFaultError(
                    "command_config", text=f"belongs to one cluster: clusters.{self.cluster}.command_config"
                )
            if self.cluster not in self.clusters:
                known = ", ".join(self.clusters) or "none there"
                raise KeyFaultError("cluster", text=f"{self.cluster!r} is not one of the clusters ({known})")
        return self

    @property
    def name(self) -> str:
        """The cluster's name in reports."""
        return self.cluster or "external"

    @property
    def external(self) -> Cluster:
        if self.cluster is not None:
            return self.clusters[self.cluster]
        return Cluster(bootstrap_servers=self.bootstrap_servers or "", command_config=self.command_config)


_KINDS: Final[dict[str, type[_AnySystem]]] = {
    "highwater": HighwaterUnderTest,
    "apache-kafka": ApacheKafkaUnderTest,
    "bare-loop": BareLoopUnderTest,
    "external": ClusterUnderTest,
    "command": CommandUnderTest,
}
_KEYS: Final = {key for model in _KINDS.values() for key in model.model_fields}
# Accepted with every kind, because they change nothing; manifests of earlier releases have them.
_WITHOUT_EFFECT: Final[dict[str, Any]] = {"nodes": 1, "version": "default", "config": {}}
_STARTS_ITS_OWN: Final = "is for kind: external; this run starts its own broker"
_BROKERS_OF_THE_RUN: Final = "is for kind: highwater and kind: apache-kafka, not for kind: {kind}"
_OF_OTHER_KINDS: Final = {
    "bootstrap_servers": _STARTS_ITS_OWN,
    "command_config": _STARTS_ITS_OWN,
    "cluster": _STARTS_ITS_OWN,
    "command": "is for kind: command",
    "processes": "is for kind: highwater",
    "source": "is for kind: highwater",
    "version": "is for kind: apache-kafka; {kind} has no choice of versions",
    **dict.fromkeys(("nodes", "proxies", "through"), _BROKERS_OF_THE_RUN),
}
_CONFIG_OF_OTHER_KINDS: Final = {
    "external": "cannot be applied to an external cluster; leave it out",
    "command": "is unknown to kind: command; put settings into the command line",
    "bare-loop": "is unknown to kind: bare-loop, which only receives and writes",
}


def _kind_of(value: Any) -> Any:
    return value.get("kind", "highwater") if isinstance(value, dict) else getattr(value, "kind", None)


def _fits_kind(value: Any) -> Any:
    """Refuse keys of other kinds with a text that names the kind. Pydantic would call such a key unknown."""
    kind = _kind_of(value)
    if not isinstance(value, dict) or kind is None:
        return value
    if kind not in list(_KINDS):  # it may be no text, nor hashable
        *names, last = map(repr, _KINDS)
        raise KeyFaultError("kind", text=f"{kind!r} is not {', '.join(names)} or {last}")
    foreign = _KEYS - _KINDS[kind].model_fields.keys()
    for key in value:
        if key in foreign and value[key] is not None and value[key] != _WITHOUT_EFFECT.get(key):
            text = _CONFIG_OF_OTHER_KINDS[kind] if key == "config" else _OF_OTHER_KINDS[key].format(kind=kind)
            raise KeyFaultError(key, text=text)
    if kind == "command" and not value.get("command"):
        raise KeyFaultError("kind", text="command needs command: 'prog --port {port} --data {data_directory}'")
    return {key: given for key, given in value.items() if key not in foreign}


def _any_of(schema: dict[str, Any]) -> None:
    """Let several kinds match: in a file with `include`, `kind` may stand in the other file."""
    schema["anyOf"] = schema.pop("oneOf")


def _tag(value: Any) -> str:
    """The default kind refuses what is no mapping, or has no value as its kind."""
    return SYSTEM_TAG.format(_kind_of(value) or "highwater")


SystemUnderTest = Annotated[
    Annotated[HighwaterUnderTest, Tag(SYSTEM_TAG.format("highwater"))]
    | Annotated[ApacheKafkaUnderTest, Tag(SYSTEM_TAG.format("apache-kafka"))]
    | Annotated[BareLoopUnderTest, Tag(SYSTEM_TAG.format("bare-loop"))]
    | Annotated[ClusterUnderTest, Tag(SYSTEM_TAG.format("external"))]
    | Annotated[CommandUnderTest, Tag(SYSTEM_TAG.format("command"))],
    Discriminator(_tag),
    BeforeValidator(_fits_kind),
    Field(json_schema_extra=_any_of),
]
