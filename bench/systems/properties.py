"""Broker configuration by Kafka's names: what a cluster of this size needs, and files that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from highwater.bench.workload.client_properties import as_text
from highwater.bench.workload.values import Scalar
from highwater.common.java_properties import format_properties


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker to start. number: from 1. data_directories: its log.dirs. log_file: for what it prints."""

    number: int
    data_directories: list[Path]
    log_file: Path
    properties_file: Path

    @property
    def log_dirs(self) -> str:
        return ",".join(str(directory) for directory in self.data_directories)


def brokers_of(nodes: int, data_directories: list[Path], log_directory: Path, *, shared: bool) -> list[Broker]:
    """One broker takes the directories themselves, unless it shares them; several have folders of their own in them."""
    if nodes == 1:
        directories = [directory / "broker" for directory in data_directories] if shared else data_directories
        return [Broker(1, directories, log_directory / "system.log", log_directory / "server.properties")]
    return [
        Broker(
            number,
            [directory / f"broker-{number}" for directory in data_directories],
            log_directory / f"system-{number}.log",
            log_directory / f"server-{number}.properties",
        )
        for number in range(1, nodes + 1)
    ]


def name_of(broker: Broker, nodes: int) -> str:
    """What complaints call it."""
    return "the broker" if nodes == 1 else f"broker {broker.number}"


def cluster_defaults(nodes: int) -> dict[str, str]:
    """Topics are made by the run alone; internal ones have as many copies as there are brokers, at most three."""
    copies = str(min(3, nodes))
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, nodes)),
    }


def write_properties(file: Path, properties: Mapping[str, Scalar]) -> Path:
    file.write_text(format_properties({name: as_text(value) for name, value in properties.items()}), "ascii")
    return file
