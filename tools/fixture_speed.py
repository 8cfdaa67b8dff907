"""Measures how long a test waits for its broker: from the request to the first acknowledged record.

    python -m tools.fixture_speed [--times 20] [--page docs/results/fixture-speed.md]

Each broker is a new one, as with the fixture `kafka_broker`. librdkafka produces one record with acks=all to a topic
that the broker creates for it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import psutil
import typer
from confluent_kafka import Producer

from highwater.common.child_process import HIGHWATER, last_words
from highwater.testing.brokers import Brokers
from highwater.tuning.facts import collect

_WITHIN_S: Final = 60.0
_COMMAND: Final = (*HIGHWATER, "broker", "start", "--ephemeral", "--ready-fd", "1")
_PAGE: Final = """\
# How long a test waits for its broker

Milliseconds from the request for a broker to the first acknowledged record. Each time the broker, its log and the
producer are new (librdkafka, acks=all, a topic that the broker creates for the record).

| how it starts | starts | acknowledged, median | least to most | ready, median | CPU of it (steps of 10), median |
|---|---|---|---|---|---|
{rows}

{where}

A broker of a fixture is a fork of a process that has imported everything ([a broker for tests](../testing.md)). The
first of a run waits for the imports, unless a test without a broker comes before it. The command imports each time.

Published figures of others, measured elsewhere: Apache Kafka as a native image is ready after 110 to 140 ms, and on the
JVM after 1,150 ms (KIP-974); the start of a container is not in these.

```
python -m tools.fixture_speed --page docs/results/fixture-speed.md
```
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One broker. cpu_ms: what its process had taken when the record was acknowledged."""

    ready_ms: float
    acknowledged_ms: float
    cpu_ms: float


def acknowledge(bootstrap_servers: str) -> None:
    """Produce one record and wait for its acknowledgement."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0})
    producer.produce("first", b"record", on_delivery=lambda error, _: errors.append(error))
    producer.flush(_WITHIN_S)
    if errors != [None]:
        raise SystemExit(f"error: the record was not acknowledged: {errors or 'no answer'}")


def measured(begun_s: float, address: str, process_id: int) -> Start:
    ready_s = time.monotonic()
    acknowledge(address)
    times = psutil.Process(process_id).cpu_times()
    return Start((ready_s - begun_s) * 1e3, (time.monotonic() - begun_s) * 1e3, (times.user + times.system) * 1e3)


@contextmanager
def forked(brokers: Brokers) -> Iterator[Start]:
    begun_s = time.monotonic()
    broker = brokers.start()
    assert broker.process_id is not None
    yield measured(begun_s, broker.bootstrap_servers, broker.process_id)
    broker.close()


@contextmanager
def first_of_a_run() -> Iterator[Start]:
    """The template starts with the request, as when the first test of a run wants a broker at once."""
    begun_s = time.monotonic()
    with Brokers() as brokers:
        broker = brokers.start()
        assert broker.process_id is not None
        yield measured(begun_s, broker.bootstrap_servers, broker.process_id)


@contextmanager
def by_command() -> Iterator[Start]:
    begun_s = time.monotonic()
    with subprocess.Popen(_COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit(f"error: the broker did not start: {last_words(process.stderr)}")
        yield measured(begun_s, address, process.pid)
        process.terminate()


def row(name: str, starts: Sequence[Start]) -> str:
    acknowledged = [each.acknowledged_ms for each in starts]
    ready, cpu = (median(getattr(each, figure) for each in starts) for figure in ("ready_ms", "cpu_ms"))
    return (
        f"| {name} | {len(starts)} | {median(acknowledged):.0f} | {min(acknowledged):.0f} to {max(acknowledged):.0f} "
        f"| {ready:.0f} | {cpu:.0f} |"
    )


def page(rows: Sequence[str], where: str) -> str:
    return _PAGE.format(rows="\n".join(rows), where=where)


def main(
    times: Annotated[int, typer.Option(min=1, help="Brokers of the fixture; a quarter as many of the others.")] = 20,
    page_file: Annotated[Path | None, typer.Option("--page", help="Write the page of the result here.")] = None,
) -> None:
    """Measure the start of brokers for tests; takes some 30 seconds."""
    load = os.getloadavg()[0]
    with Brokers() as brokers:
        brokers.start().close()  # the template has imported all
        warm = [_of(lambda: forked(brokers)) for _ in range(times)]
    others = max(1, times // 4)
    rows = [
        row("fixture `kafka_broker`", warm),
        row("the same, first of a run", [_of(first_of_a_run) for _ in range(others)]),
        row("`highwater broker start --ephemeral`", [_of(by_command) for _ in range(others)]),
    ]
    facts = collect()
    host = f"{facts.cpu_model}, {os.cpu_count()} processors, Python {platform.python_version()}"
    where = f"On {datetime.now(UTC):%Y-%m-%d}, {host}, load average {load:.1f} at the start."
    typer.echo("\n".join([*rows, where]))
    if page_file is not None:
        page_file.write_text(page(rows, where), "utf-8")


def _of(start: Callable[[], AbstractContextManager[Start]]) -> Start:
    with start() as measured_start:
        return measured_start


if __name__ == "__main__":
    typer.run(main)
