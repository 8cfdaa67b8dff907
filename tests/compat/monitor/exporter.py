"""kafka_exporter, built from a checkout, on the same cluster: names that both have must have the same values."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, need, run_step
from highwater.common.ports import free_ports
from tests.compat.monitor.scraping import Series, samples
from tests.waiting import wait_until

_OFFSET: Final = "kafka_consumergroup_current_offset"
_LAG: Final = "kafka_consumergroup_lag"
NAMES: Final = (
    "kafka_brokers",
    "kafka_broker_info",
    "kafka_topic_partitions",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
)
"""All that kafka_exporter 1.9 has of a cluster, but for lag of groups in ZooKeeper."""


def program() -> Path:
    """Built once for each go.sum. Its module is in no proxy, so that it comes from a checkout."""
    sources = Path(os.environ.get("KAFKA_EXPORTER_SOURCES", ""))
    if not (sources / "kafka_exporter.go").is_file():
        raise ValueError("KAFKA_EXPORTER_SOURCES names no checkout of kafka_exporter")
    need("go", "golang", "builds kafka_exporter")

    def build(directory: Path) -> None:
        run_step(["go", "build", "-o", directory / "kafka_exporter", "."], sources)

    pinned = hashlib.sha256((sources / "go.sum").read_bytes() + (sources / "kafka_exporter.go").read_bytes())
    name = f"kafka-exporter-{pinned.hexdigest()[:12]}"
    return cached(name, "kafka_exporter: built, a minute", build) / "kafka_exporter"


@contextmanager
def exporting(bootstrap: str, log: Path) -> Iterator[str]:
    """The address of its page."""
    (port,) = free_ports(1)
    servers = [f"--kafka.server={address}" for address in bootstrap.split(",")]
    command = [str(program()), *servers, f"--web.listen-address=127.0.0.1:{port}"]
    address = f"http://127.0.0.1:{port}/metrics"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or _serves(address), "kafka_exporter")
        assert process.poll() is None, log.read_text()
        yield address
    finally:
        process.kill()
        process.wait()


def _serves(address: str) -> bool:
    try:
        return bool(samples(address))
    except OSError:
        return False


def check_equal(ours: str, theirs: str) -> None:
    """Every series of NAMES that one of the two has, the other has with the same value, at a cluster at rest."""
    found: list[str] = []
    other: dict[Series, float] = {}

    def is_equal() -> bool:
        # A page of theirs can lack the series that it was to write last; the next page has it.
        other.update(_of(samples(theirs)))
        mine, said = _of(samples(ours)), _without_missing_commits(other)
        differing = [key for key in mine.keys() | said.keys() if mine.get(key) != said.get(key)]
        differing += [(name, frozenset()) for name in set(NAMES).difference(name for name, _ in said)]
        found[:] = sorted(f"{_shown(key)}: {said.get(key)} there, {mine.get(key)} here" for key in differing)
        return not found

    try:
        wait_until(is_equal, "equal values", 120)
    except TimeoutError:
        raise AssertionError(f"{len(found)} series differ: {'; '.join(found[:6])}") from None


def _of(page: dict[Series, float]) -> dict[Series, float]:
    return {key: value for key, value in page.items() if key[0] in NAMES}


def _without_missing_commits(page: dict[Series, float]) -> dict[Series, float]:
    """Where a group has no commit, kafka_exporter writes -1 and adds it to the sum of offsets; we write nothing."""
    made = dict(page)
    for (name, labels), value in page.items():
        if value == -1 and name in (_OFFSET, _LAG):
            del made[name, labels]
            if name == _OFFSET:
                made[f"{_OFFSET}_sum", frozenset(each for each in labels if each[0] != "partition")] += 1
    return made


def _shown(series: Series) -> str:
    labels = ", ".join(f"{name}={value}" for name, value in sorted(series[1]))
    return re.sub(r"^kafka_", "", f"{series[0]}{{{labels}}}")
