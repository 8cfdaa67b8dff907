"""Compares brokers with the monitor on and off: their CPU time, and the latency of produce requests.

    python -m highwater.bench.development.monitor_a_a --rounds 10 [--block-s 60] [--partitions 1000] [--groups 200]

Three brokers of this host have `--partitions` partitions with three replicas, `--groups` groups with 20 commits each,
and a steady load. Each round measures a block of each arm, in random order. In `off` the monitor is stopped (SIGSTOP),
in `on` it ticks as it does by default; the same process is asked in all blocks, so that starts cost nothing.

Printed are the medians of each arm; what the monitor adds to a broker's CPU time, in percent of one core, with the 95 %
interval of its median over the rounds; and the change of latencies, paired by round. Exit status 1: the median of the
added CPU time is 1 % of a core or more, a record was not delivered, or the monitor made no tick in a block of `on`.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.bench.analysis.statistics import bootstrap_median_ci, paired_ratio_ci
from highwater.common.units import change_text, count_text, significant
from tests.broker.running_cluster import RunningCluster, running_cluster
from tests.waiting import wait_until

_ARMS: Final = ("off", "on")
_TOPIC_PARTITIONS: Final = 50
_COMMITS: Final = 20
_SETTLE_S: Final = 2.0
_LIMIT_PERCENT: Final = 1.0
_START_S: Final = 300.0
_LOAD: Final = "load"


@dataclass(frozen=True, slots=True)
class Block:
    cpu_percent: float
    """CPU time of a broker, the mean of all, in percent of one core."""
    p50_ms: float
    p99_ms: float
    records: int
    ticks: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--block-s", type=float, default=60.0)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rate", type=int, default=500, help="records of 1 KiB a second, acks=all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="highwater-monitor-a-a-") as folder, running_cluster(Path(folder)) as on:
        _fill(on.bootstrap, options.partitions, options.groups)
        with _monitor(on.bootstrap, Path(folder)) as (process, metrics):
            blocks, failed = _rounds(on, process, metrics, options)
    sys.exit(_printed(blocks, failed))


def _rounds(
    cluster: RunningCluster, process: subprocess.Popen[bytes], metrics: str, options: argparse.Namespace
) -> tuple[dict[str, list[Block]], int]:
    """The blocks of each arm, and how many records were not delivered."""
    blocks: dict[str, list[Block]] = {arm: [] for arm in _ARMS}
    chooser = random.Random(7)
    load = Load(cluster.bootstrap, options.rate)
    for number in range(options.rounds):
        for arm in chooser.sample(_ARMS, len(_ARMS)):
            process.send_signal(signal.SIGCONT if arm == "on" else signal.SIGSTOP)
            load.run(_SETTLE_S)
            blocks[arm].append(_measured(cluster, load, options.block_s, metrics if arm == "on" else ""))
            sys.stderr.write(f"round {number + 1} of {options.rounds}: {arm}\n")
    return blocks, load.failed


def _fill(bootstrap: str, partitions: int, groups: int) -> None:
    """Topics of 50 partitions, and groups that committed 20 offsets each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(f"topic-{number}", min(_TOPIC_PARTITIONS, partitions - begin), 3)
        for number, begin in enumerate(range(0, partitions, _TOPIC_PARTITIONS))
    ]
    for made in admin.create_topics([*topics, NewTopic(_LOAD, 3, 3)], operation_timeout=120).values():
        made.result(120)
    for number in range(groups):
        topic = topics[number % len(topics)]
        committer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{number}"})
        offsets = [TopicPartition(topic.topic, at, 0) for at in range(min(_COMMITS, topic.num_partitions))]
        try:
            wait_until(lambda by=committer, at=offsets: _is_committed(by, at), "commits")  # type: ignore[misc]
        finally:
            committer.close()


def _is_committed(committer: Consumer, offsets: list[TopicPartition]) -> bool:
    try:
        return all(each.error is None for each in committer.commit(offsets=offsets, asynchronous=False) or ())
    except KafkaException:
        return False


@contextmanager
def _monitor(bootstrap: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`monitor serve` after its first two ticks, and the address of its metrics."""
    config, log = folder / "monitor.yaml", folder / "monitor.log"
    config.write_text("web: {listen: '127.0.0.1:0'}\nmetrics: {listen: '127.0.0.1:0'}\ndata: monitor\n")
    command = [sys.executable, "-m", "highwater", "monitor", "serve", "-b", bootstrap, "-c", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: process.poll() is not None or "history: " in log.read_text(), "the monitor", _START_S)
        found = re.search(r"^metrics: (\S+)$", log.read_text(), re.MULTILINE)
        if found is None:
            raise SystemExit(f"the monitor does not serve: {log.read_text()}")
        wait_until(lambda: _ticks(found[1]) >= 2, "two ticks", _START_S)
        yield process, found[1]
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def _ticks(address: str) -> float:
    with urllib.request.urlopen(address, timeout=_START_S) as answer:  # noqa: S310
        found = re.search(r"^highwater_monitor_ticks_total (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


class Load:
    """Records at a steady rate, each with the time from its send to its acknowledgement."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
        self._rate = rate
        self._times_ms: list[float] = []
        self.failed = 0

    def run(self, seconds: float) -> list[float]:
        """Return the times of the records of `seconds`, when all of them are acknowledged."""
        self._times_ms = []
        began_s = time.perf_counter()
        for number in range(int(seconds * self._rate)):
            due_s = began_s + number / self._rate
            while (left_s := due_s - time.perf_counter()) > 0:
                self._producer.poll(min(left_s, 0.01))
            self._producer.produce(_LOAD, bytes(1024), on_delivery=self._delivered)
        self.failed += self._producer.flush(60)
        return self._times_ms

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._times_ms.append(1000 * message.latency())
        else:
            self.failed += 1


def _measured(cluster: RunningCluster, load: Load, seconds: float, metrics: str) -> Block:
    processes = [psutil.Process(broker.process.pid) for broker in cluster.brokers.values()]
    ticks = _ticks(metrics) if metrics else 0.0
    cpu_s, began_s = _cpu_s(processes), time.perf_counter()
    times = sorted(load.run(seconds))
    used_s, elapsed_s = _cpu_s(processes) - cpu_s, time.perf_counter() - began_s
    return Block(
        cpu_percent=100 * used_s / elapsed_s / len(processes),
        p50_ms=median(times),
        p99_ms=times[int(0.99 * len(times))],
        records=len(times),
        ticks=_ticks(metrics) - ticks if metrics else 0.0,
    )


def _cpu_s(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


def _printed(blocks: dict[str, list[Block]], failed: int) -> int:
    off, on = blocks["off"], blocks["on"]
    added = [with_it.cpu_percent - without.cpu_percent for without, with_it in zip(off, on, strict=True)]
    interval = bootstrap_median_ci(added)
    shown = f" ({significant(interval[0])} to {significant(interval[1])})" if interval else ""
    cpu = (_middle(off, "cpu_percent"), _middle(on, "cpu_percent"), f"{significant(median(added))} points{shown}")
    lines = ["| | off | on | change (95 %) |", "|---|---|---|---|", _row("CPU of a broker, % of a core", *cpu)]
    for name in ("p50_ms", "p99_ms"):
        estimate = paired_ratio_ci([getattr(each, name) for each in off], [getattr(each, name) for each in on])
        change = "–" if estimate is None else change_text(estimate.ratio)
        if estimate is not None and estimate.low and estimate.high:
            change += f" ({change_text(estimate.low)} to {change_text(estimate.high)})"
        lines.append(
            f"| produce {name.partition('_')[0]}, ms | {_middle(off, name)} | {_middle(on, name)} | {change} |"
        )
    ticks = [each.ticks for each in on]
    records = sum(each.records for each in (*off, *on))
    lines.append(
        f"\n{count_text(len(off))} rounds, {count_text(records)} records, {count_text(failed)} not delivered; "
        f"ticks in a block of on: {min(ticks):g} to {max(ticks):g}"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if median(added) >= _LIMIT_PERCENT or failed or min(ticks) < 1 else 0


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _middle(blocks: list[Block], name: str) -> str:
    return significant(median(getattr(block, name) for block in blocks))


if __name__ == "__main__":
    main()
