"""Load tools of others at one rate against one broker, beside `highwater bench run`: the same figures of each.

`python -m tests.compat.instrument.load_tools --json FILE` starts a broker, lets the tools take turns and writes what
they measured; exit status 1 when they do not agree. What their latencies are:

| tool | latency of a record | known of it |
|---|---|---|
| kafka-producer-perf-test (Java) | from before `send()` to its callback, by a clock of whole ms | p50, p99, mean |
| rdkafka_performance (librdkafka in C) | from before `produce()` to its delivery report, in µs | each record's |
| highwater (`client` driver) | service latency: handed to the client until acknowledged, in ns | a histogram |
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Final, TextIO

import numpy as np
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from highwater.bench.native.librdkafka import rdkafka_performance
from highwater.results.analysis.statistics import bootstrap_median_ci
from highwater.results.reader import RunResult
from tests.broker.running import running_broker
from tests.compat.apache_kafka.tools import jars_3_9, jars_4
from tests.compat.instrument.case import case

HIGHWATER: Final = "highwater"
METRICS: Final = ("mean_ms", "p50_ms", "p99_ms")
THROUGHPUT_TOLERANCE_RATIO: Final = 0.03
# A percentile of whole milliseconds says this much about where it lies.
RESOLUTION_MS: Final = 1.0
PERF_TEST: Final = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*?, (?P<mean>[\d.]+) ms avg latency, "
    r"[\d.]+ ms max latency, (?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th"
)
RDKAFKA: Final = re.compile(
    r"\d+ messages produced \(\d+ bytes\), (?P<records>\d+) delivered \(offset -?\d+, 0 failed\) in (?P<ms>\d+)ms"
)


@dataclass(frozen=True, slots=True)
class Load:
    """What every tool is told to do. The first `warmup_s` count for nothing, with the tools that can leave them out."""

    records_per_s: int = 2_000
    record_bytes: int = 1_024
    acks: str = "1"
    linger_ms: int = 5
    batch_bytes: int = 16_384
    warmup_s: int = 3
    measure_s: int = 15

    @property
    def warmup_records(self) -> int:
        return self.records_per_s * self.warmup_s

    @property
    def records(self) -> int:
        return self.records_per_s * (self.warmup_s + self.measure_s)

    @property
    def properties(self) -> dict[str, str]:
        """Those that both client libraries know by the same name."""
        return {
            "acks": self.acks,
            "linger.ms": str(self.linger_ms),
            "batch.size": str(self.batch_bytes),
            "enable.idempotence": "false",
            "compression.type": "none",
            "max.in.flight.requests.per.connection": "5",
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn of one tool. verdict: what the instrument says of its own trial."""

    records_per_s: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    verdict: str = ""


Tool = Callable[[Load, str, Path], Figures]
"""Load, bootstrap address, empty directory."""


def perf_test(jars: Callable[[], Path], *, leaves_out_warmup: bool) -> Tool:
    def run(load: Load, address: str, directory: Path) -> Figures:
        topic = _new_topic(address, directory.name)
        settings = {"bootstrap.servers": address, **load.properties}
        printed = _run(
            "java", "-Xmx512M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-cp", f"{jars()}/*",
            "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(load.records),
            "--record-size", str(load.record_bytes), "--throughput", str(load.records_per_s),
            *(["--warmup-records", str(load.warmup_records)] if leaves_out_warmup else []),
            "--producer-props", *(f"{name}={value}" for name, value in settings.items()),
        )  # fmt: skip
        # With a warm-up there are two totals, and the last is without it.
        *_, total = PERF_TEST.finditer(printed)
        return Figures(float(total["rate"]), float(total["mean"]), float(total["p50"]), float(total["p99"]))

    return run


def rdkafka(load: Load, address: str, directory: Path) -> Figures:
    topic, latencies = _new_topic(address, directory.name), directory / "latencies"
    printed = _run(
        str(rdkafka_performance()), "-P", "-b", address, "-t", topic, "-p", "0", "-q", "-l", "-A", str(latencies),
        "-s", str(load.record_bytes), "-a", load.acks, "-c", str(load.records), "-r", str(load.records_per_s),
        *chain.from_iterable(("-X", f"{name}={value}") for name, value in load.properties.items() if name != "acks"),
    )  # fmt: skip
    *_, total = RDKAFKA.finditer(printed)
    measured_ms = np.loadtxt(latencies)[load.warmup_records :] / 1000
    p50_ms, p99_ms = np.percentile(measured_ms, (50, 99))
    return Figures(
        int(total["records"]) / int(total["ms"]) * 1000, float(measured_ms.mean()), float(p50_ms), float(p99_ms)
    )


def highwater(load: Load, address: str, directory: Path) -> Figures:
    workload = {
        "schema": "bench.workload/1",
        "name": "load-tools",
        "purpose": "Do the load tools of others measure the same?",
        "topics": {"partitions": 1},
        "producers": {"count": 1, "client": load.properties | {"batch.size": f"{load.batch_bytes}B"}},
        "consumers": {"groups": 0},
        "records": {"size": f"{load.record_bytes}B"},
        "load": {"rate": f"{load.records_per_s}/s"},
        "phases": {"warmup": f"{load.warmup_s}s", "measure": f"{load.measure_s}s", "drain": "10s"},
        "trials": {"n": 1, "a_a": False},
    }
    (directory / "workload.yaml").write_text(yaml.safe_dump(workload))
    _run(
        sys.executable, "-m", "highwater", "bench", "run", str(directory / "workload.yaml"), "--quiet",
        "--out", str(directory / "result"), "--launcher", "process", "--bootstrap-servers", address, accept=(0, 4),
    )  # fmt: skip
    (trial,) = RunResult(directory / "result").trials
    summary, service = trial.summary, trial.summary.produce.service_ns
    latencies_ms = (service.mean / 1e6, service.p50 / 1e6, service.p99 / 1e6)
    return Figures(summary.achieved_per_s, *latencies_ms, summary.verdict.state)


TOOLS: Final[dict[str, Tool]] = {
    "perf-test 3.9": perf_test(jars_3_9, leaves_out_warmup=False),
    "perf-test 4": perf_test(jars_4, leaves_out_warmup=True),
    "rdkafka_performance": rdkafka,
    HIGHWATER: highwater,
}


def take_turns(load: Load, repeats: int, told: Callable[[str], None]) -> dict[str, list[Figures]]:
    """Each tool once in every round, which begins with another one each time."""
    figures: dict[str, list[Figures]] = {name: [] for name in TOOLS}
    names = list(TOOLS)
    with tempfile.TemporaryDirectory(prefix="highwater-load-tools-") as temporary:
        base = Path(temporary)
        with running_broker(base / "broker") as broker:
            for round_ in range(repeats):
                first = round_ % len(names)
                for name in names[first:] + names[:first]:
                    directory = base / f"{re.sub('[^a-z0-9]', '-', name)}-{round_}"
                    directory.mkdir()
                    figures[name].append(TOOLS[name](load, broker.address, directory))
                    told(f"round {round_ + 1}: {name}: {figures[name][-1]}")
    return figures


def disagreements(figures: Mapping[str, Sequence[Figures]]) -> list[str]:
    """Where the instrument is not among the others: one line for each metric, none when all agree.

    Throughput: medians within 3 % of each tool's. Latency: the interval of our median meets the span of their
    intervals, which for percentiles of whole milliseconds is one millisecond wider at both ends.
    """
    ours = figures[HIGHWATER]
    others = {name: turns for name, turns in figures.items() if name != HIGHWATER}
    found = []
    own_rate = _median(ours, "records_per_s")
    for name, turns in others.items():
        rate = _median(turns, "records_per_s")
        if abs(own_rate / rate - 1) > THROUGHPUT_TOLERANCE_RATIO:
            found.append(f"throughput: {own_rate:.0f}/s by us, {rate:.0f}/s by {name}")
    for metric in METRICS:
        slack_ms = 0.0 if metric == "mean_ms" else RESOLUTION_MS
        intervals = [interval(turns, metric) for turns in others.values()]
        low = min(low for low, _ in intervals) - slack_ms
        high = max(high for _, high in intervals) + slack_ms
        own_low, own_high = interval(ours, metric)
        if own_high < low or own_low > high:
            found.append(f"{metric}: ours {own_low:.2f} to {own_high:.2f}, theirs {low:.2f} to {high:.2f}")
    return found


@case
def load_tools_agree() -> None:
    found = disagreements(take_turns(Load(), repeats=5, told=lambda _: None))
    assert not found, "; ".join(found)


def interval(turns: Sequence[Figures], metric: str) -> tuple[float, float]:
    """Of the median, 95 %; with fewer than five turns their range."""
    values = [float(getattr(turn, metric)) for turn in turns]
    return bootstrap_median_ci(values) or (min(values), max(values))


def table(figures: Mapping[str, Sequence[Figures]]) -> str:
    """Markdown: medians, with their intervals in brackets."""
    lines = ["| tool | records/s | mean ms | p50 ms | p99 ms |", "|---|---:|---:|---:|---:|"]
    for name, turns in figures.items():
        cells = [f"{_median(turns, 'records_per_s'):.0f}"]
        for metric in METRICS:
            low, high = interval(turns, metric)
            cells.append(f"{_median(turns, metric):.2f} [{low:.2f}, {high:.2f}]")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _median(turns: Sequence[Figures], metric: str) -> float:
    return float(np.median([getattr(turn, metric) for turn in turns]))


def _new_topic(address: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    created.result()
    return name


def _run(*command: str, accept: Sequence[int] = (0,)) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    if done.returncode not in accept:
        raise AssertionError(f"{' '.join(command[:6])} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def _say(line: str, stream: TextIO) -> None:
    stream.write(line + "\n")
    stream.flush()


def main(arguments: list[str]) -> int:
    load = Load()
    parser = argparse.ArgumentParser(prog="python -m tests.compat.instrument.load_tools", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rate", type=int, default=load.records_per_s, help="records per second")
    parser.add_argument("--measure-s", type=int, default=load.measure_s)
    parser.add_argument("--json", type=Path, help="where to write every turn's figures")
    options = parser.parse_args(arguments)
    load = Load(records_per_s=options.rate, measure_s=options.measure_s)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    figures = take_turns(load, options.repeats, lambda line: _say(line, sys.stderr))
    found = disagreements(figures)
    if options.json:
        document = {
            "started_utc": started,
            "load": asdict(load),
            "turns": {name: [asdict(turn) for turn in turns] for name, turns in figures.items()},
            "disagreements": found,
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    for line in (table(figures), *found):
        _say(line, sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
