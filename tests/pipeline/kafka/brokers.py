"""Brokers to test with: Highwater, and Apache Kafka 3.9 and 4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from highwater.bench.systems import start_system
from highwater.bench.workload.system import SystemUnderTest
from tests.broker.running import running_broker

SYSTEMS: Final = ("highwater", "3.9", "4")


@contextmanager
def bootstrap_of(system: str, directory: Path) -> Iterator[str]:
    """The address of one broker; `system` is one of SYSTEMS, `directory` an empty one."""
    if system == "highwater":
        with running_broker(directory / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker:
            yield broker.address
        return
    data, log = directory / "data", directory / "log"
    data.mkdir()
    log.mkdir()
    wanted = TypeAdapter[SystemUnderTest](SystemUnderTest).validate_python({"kind": "apache-kafka", "version": system})
    with start_system(wanted, [data], log, lambda: None) as running:
        yield running.bootstrap_servers
