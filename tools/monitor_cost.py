"""Measures what a tick of the monitor and an update of `highwater top` cost in CPU time, on a small cluster at rest.

    python -m tools.monitor_cost [--ticks 15]

One broker of three processes, 200 topics of three partitions, 50 groups with committed offsets. The monitor has its
history, its pages and /metrics, which nobody reads. What a start costs is not counted: a first tick is waited for.
"""

from __future__ import annotations

import os
import pty
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.systems.highwater import start_highwater
from highwater.common.child_process import HIGHWATER
from highwater.tuning.facts import collect
from tools.start_cost import cpu_ms, memory

_PROCESSES: Final = 3
_TOPICS: Final = 200
_PARTITIONS: Final = 3
_GROUPS: Final = 50
_TICK_S: Final = 2
_WITHIN_S: Final = 120.0


def main(ticks: Annotated[int, typer.Option(min=1, help="Ticks of the monitor, and updates of top.")] = 20) -> None:
    """Measure both, one after the other; takes about a minute."""
    with tempfile.TemporaryDirectory(prefix="highwater-monitor-cost-") as name, _cluster(Path(name)) as address:
        config = Path(name) / "monitor.yaml"
        config.write_text(
            f"name: small\nbootstrap_servers: {address}\ntick: {_TICK_S}s\ndata: {name}/history\n"
            "web: {listen: '127.0.0.1:0'}\nmetrics: {listen: '127.0.0.1:0'}\n"
        )
        _measure("a tick of the monitor", ["monitor", "serve", "-c", str(config)], ticks)
        _measure("an update of top", ["top", "-b", address, "--interval", str(_TICK_S)], ticks)
    typer.echo(
        f"{_PROCESSES} brokers, {_TOPICS} topics, {_TOPICS * _PARTITIONS} partitions, {_GROUPS} groups; "
        f"{collect().cpu_model}, load average {os.getloadavg()[0]:.1f}."
    )


@contextmanager
def _cluster(place: Path) -> Iterator[str]:
    data = place / "data"
    data.mkdir()
    with start_highwater(1, {}, [data], place, lambda: None, ready_within_s=_WITHIN_S, processes=_PROCESSES) as system:
        address = system.brokers[0].address
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        names = [f"topic-{number}" for number in range(_TOPICS)]
        for created in admin.create_topics([NewTopic(each, _PARTITIONS) for each in names]).values():
            created.result(_WITHIN_S)
        for number in range(_GROUPS):
            consumer = Consumer({"bootstrap.servers": address, "group.id": f"group-{number}", "log_level": 0})
            offsets = [TopicPartition(names[number], partition, 0) for partition in range(_PARTITIONS)]
            consumer.commit(offsets=offsets, asynchronous=False)
            consumer.close()
        yield address


def _measure(what: str, arguments: list[str], ticks: int) -> None:
    screen, terminal = pty.openpty()
    process = subprocess.Popen([*HIGHWATER, *arguments], stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    threading.Thread(target=_read_away, args=(screen,), daemon=True).start()
    try:
        time.sleep(5 * _TICK_S)
        before_ms = cpu_ms(process.pid)
        time.sleep(ticks * _TICK_S)
        spent_ms = cpu_ms(process.pid) - before_ms
        if process.poll() is not None:
            raise SystemExit(f"highwater {arguments[0]} ended with {process.returncode}")
        mib = ", ".join(f"{name} {size:.0f}" for name, size in memory(process.pid).items())
        typer.echo(f"{what}: {spent_ms / ticks:.0f} ms of CPU time; memory in MiB: {mib}")
    finally:
        process.terminate()
        process.wait()


def _read_away(screen: int) -> None:
    with suppress(OSError):  # the other end is closed when the process has ended
        while os.read(screen, 1 << 16):
            pass
    os.close(screen)


if __name__ == "__main__":
    typer.run(main)
