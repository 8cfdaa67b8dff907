"""The `system:` section of a workload file: the kind of broker, and the keys of each kind."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import Field, model_validator

from highwater.bench.workload.clusters import COMMAND_CONFIG, Cluster
from highwater.bench.workload.values import KeyFaultError, Part, Properties

COMMAND_PLACES: Final = ("{port}", "{data_directory}")
# Which broker this is, where it listens and where it writes. (storage.target names the directory.)
_SET_BY_THE_RUN: Final = (
    "advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.voters", "listeners",
    "log.dir", "log.dirs", "node.id", "process.roles", "zookeeper.connect",
)  # fmt: skip


class SystemUnderTest(Part):
    kind: Literal["highwater", "apache-kafka", "bare-loop", "external", "command"] = "highwater"
    nodes: int = Field(default=1, ge=1, le=9, description="brokers, on this host")
    version: Literal["default", "3.9", "4"] = Field(
        default="default", description="of apache-kafka: 3.9 (with ZooKeeper) or 4 (KRaft, the default)"
    )
    source: str | None = Field(default=None, description="highwater only: run the broker of this checkout")
    command: str | None = Field(
        default=None, description="of kind command: a command line with {port} and {data_directory}"
    )
    bootstrap_servers: str | None = Field(default=None, description="of an external cluster, host:port[,host:port…]")
    command_config: str | None = Field(default=None, description=f"of an external cluster: {COMMAND_CONFIG}")
    cluster: str | None = Field(default=None, description="of kind external: the one of clusters that is measured")
    clusters: dict[str, Cluster] = Field(default={}, description="clusters that are there, by name")
    config: Properties = Field(default={}, description="broker configuration, by Kafka's names")

    @model_validator(mode="after")
    def _fits_kind(self) -> SystemUnderTest:
        if self.kind == "external" and not (self.bootstrap_servers or self.cluster):
            raise KeyFaultError("kind", text="external needs bootstrap_servers (or --bootstrap-servers HOST:PORT)")
        if self.cluster is not None:
            self._check_cluster(self.cluster)
        if self.kind == "command" and not self.command:
            raise KeyFaultError("kind", text="command needs command: 'prog --port {port} --data {data_directory}'")
        if self.kind != "external" and self.bootstrap_servers is not None:
            raise KeyFaultError("bootstrap_servers", text="is for kind: external; this run starts its own broker")
        if self.kind != "external" and self.command_config is not None:
            raise KeyFaultError("command_config", text="is for kind: external; this run starts its own broker")
        if self.kind != "command" and self.command is not None:
            raise KeyFaultError("command", text="is for kind: command")
        if self.kind != "apache-kafka" and self.version != "default":
            raise KeyFaultError("version", text=f"is for kind: apache-kafka; {self.kind} runs as it is")
        if self.kind != "highwater" and self.source is not None:
            raise KeyFaultError("source", text="is for kind: highwater")
        for name in self.config:
            if name in _SET_BY_THE_RUN:
                raise KeyFaultError("config", name, text="cannot be set here: the run sets it")
        if self.kind == "external" and self.config:
            raise KeyFaultError("config", text="cannot be applied to an external cluster; leave it out")
        if self.kind == "command" and self.config:
            raise KeyFaultError("config", text="is unknown to kind: command; put settings into the command line")
        if self.kind == "bare-loop" and self.config:
            raise KeyFaultError("config", text="is unknown to kind: bare-loop, which only receives and writes")
        if self.kind in ("external", "command", "bare-loop") and self.nodes != 1:
            raise KeyFaultError(
                "nodes", text=f"is for brokers that this run starts by itself, not for kind: {self.kind}"
            )
        if self.command is not None:
            places = re.findall(r"\{\w*\}", self.command)
            if "{port}" not in places:
                raise KeyFaultError("command", text="has no {port}, where the port to listen on is put in")
            if unknown := [place for place in places if place not in COMMAND_PLACES]:
                raise KeyFaultError("command", text=f"{unknown[0]} is not one of {', '.join(COMMAND_PLACES)}")
        return self

    def _check_cluster(self, name: str) -> None:
        if self.kind != "external":
            raise KeyFaultError("cluster", text="is for kind: external; this run starts its own broker")
        if self.bootstrap_servers is not None:
            raise KeyFaultError("cluster", text="has bootstrap_servers of its own; give one of the two")
        if self.command_config is not None:
            raise KeyFaultError("command_config", text=f"belongs to one cluster: clusters.{name}.command_config")
        if name not in self.clusters:
            known = ", ".join(self.clusters) or "none there"
            raise KeyFaultError("cluster", text=f"{name!r} is not one of the clusters ({known})")

    @property
    def external(self) -> Cluster | None:
        """The cluster that somebody else runs; None for a system that this run starts."""
        if self.kind != "external":
            return None
        if self.cluster is not None:
            return self.clusters[self.cluster]
        return Cluster(bootstrap_servers=self.bootstrap_servers or "", command_config=self.command_config)
