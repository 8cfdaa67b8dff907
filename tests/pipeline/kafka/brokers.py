"""Brokers to test with: Highwater, and Apache Kafka 3.9 and 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from pydantic import TypeAdapter

from highwater.bench.systems import start_system
from highwater.bench.workload.system import SystemUnderTest
from tests.broker.running import running_broker
from tests.broker.running_cluster import running_cluster

KAFKAS: Final = tuple(pytest.param(line, marks=pytest.mark.compat) for line in ("3.9", "4"))
"""For parametrize: tests on Apache Kafka are cases of a suite of tests/compat."""
SYSTEMS: Final = ("highwater", *KAFKAS)


@contextmanager
def bootstrap_of(
    system: str, directory: Path, nodes: int = 1, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The addresses of `nodes` brokers; `system` is highwater, 3.9 or 4, `directory` an empty one."""
    settings = {"group.initial.rebalance.delay.ms": "0"} | dict(config or {})
    if system == "highwater":
        properties = tuple(f"{name}={value}" for name, value in settings.items())
        if nodes > 1:
            with running_cluster(directory, nodes, properties=properties) as cluster:
                yield cluster.bootstrap
            return
        with running_broker(directory / "log", properties=properties) as broker:
            yield broker.address
        return
    data, log = directory / "data", directory / "log"
    data.mkdir()
    log.mkdir()
    wanted = TypeAdapter[SystemUnderTest](SystemUnderTest).validate_python(
        {"kind": "apache-kafka", "version": system, "nodes": nodes, "config": dict(config or {})}
    )
    with start_system(wanted, [data], log, lambda: None) as running:
        yield running.bootstrap_servers
