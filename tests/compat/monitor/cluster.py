"""Clusters with the same topics, groups and members, and a `monitor serve` process that watches one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from tests.broker.running import running_broker
from tests.broker.running_cluster import running_cluster
from tests.monitor.kafka_source.oracle import fill
from tests.monitor.test_serve import PASSWORD, Browser, address_in, serving
from tests.pipeline.kafka.brokers import bootstrap_of
from tests.waiting import wait_until

SYSTEMS: Final = ("our-broker", "our-cluster", "kafka-3.9", "kafka-4")
GROUPS: Final = ("idle", "behind", "busy")
_PROPERTIES: Final = ("group.initial.rebalance.delay.ms=0", "metrics.listener=HTTP://127.0.0.1:0")


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster at rest: nobody produces, and whoever reads has committed all that it read."""

    bootstrap: str
    pages: Browser
    """With a session of a viewer's rights and more."""
    metrics: str
    """Address of the monitor's /metrics, which needs no login."""
    broker_metrics: str
    """Address of a broker's own, or empty."""


@contextmanager
def watched(system: str, directory: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        bootstrap, broker_metrics = stack.enter_context(_brokers(system, directory))
        fill(bootstrap, 3 if system == "our-cluster" else 1)
        stack.enter_context(_member(bootstrap))
        config = directory / "monitor.yaml"
        config.write_text("tick: 1s\nname: watched\nmetrics:\n  listen: 127.0.0.1:0\n  partitions: true\n")
        options = ("-b", bootstrap, "-c", config, "--listen", "127.0.0.1:0", "--data", directory / "data")
        _, text = stack.enter_context(serving(directory / "monitor.log", *options))
        (link,) = re.findall(r"(/setup\?token=\S+)", text)
        (metrics,) = re.findall(r"^metrics: (\S+)$", text, re.MULTILINE)
        pages = Browser(address_in(text))
        token = link.partition("=")[2]
        pages.post(link, "/setup", token=token, name="ada", password=PASSWORD, again=PASSWORD)
        pages.post("/login", "/login", name="ada", password=PASSWORD)
        yield Watched(bootstrap, pages, metrics, broker_metrics)


@contextmanager
def _brokers(system: str, directory: Path) -> Iterator[tuple[str, str]]:
    """The address of the brokers and of one broker's metrics."""
    place = directory / "brokers"
    place.mkdir()
    if system == "our-broker":
        with running_broker(place / "log", properties=_PROPERTIES) as broker:
            found = re.search(r"metrics at (http://\S+)", broker.log_text())
            yield broker.address, found[1] if found else ""
    elif system == "our-cluster":
        with running_cluster(place) as cluster:
            yield cluster.bootstrap, ""
    else:
        with bootstrap_of(system.removeprefix("kafka-"), place) as bootstrap:
            yield bootstrap, ""


@contextmanager
def _member(bootstrap: str) -> Iterator[None]:
    """A consumer of `orders` that has read and committed everything, and stays."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "busy",
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    read = 0

    def has_read_all() -> bool:
        nonlocal read
        message = consumer.poll(0.1)
        read += message is not None and message.error() is None
        return read == 60

    try:
        consumer.subscribe(["orders"])
        wait_until(has_read_all, "60 records")
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()
