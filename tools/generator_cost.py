"""CPU cost of the driver `client`, compared with a bare loop over the same client.

Both send to librdkafka's in-memory mock broker, which runs in a process of its own, at full speed, one after the other
and in turns, so that what drifts on the host is not charged to one of them. The bare loop is as lean as Python allows:
the same values made before, `produce(topic, value)` without a callback, `poll(0)` every thousand records. The generator
stamps each record, times one in 127 and accounts for all. Compared by CPU second of the whole process, which includes
the client's own threads. A second table has the cost at rates of an open loop, where keeping the schedule counts.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer

from highwater.bench.calibrate.mock_broker import PARTITIONS, make_topic, mock_broker
from highwater.common.quantities import format_size
from highwater.results.analysis.statistics import RatioEstimate, paired_ratio_ci
from highwater.spark_loadgen import FixedSize, GeneratedPayload, LoadPlan, OpenSchedule
from highwater.spark_loadgen.payload import body_pool
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.spark_loadgen.stamp import STAMP_BYTES

SIZES: Final = (100, 1024)
RATES_PER_S: Final = (4_000, 20_000, 100_000)
CLIENT: Final = {"acks": "all", "linger.ms": "5", "batch.size": "131072"}
WARMUP_S: Final = 1
MEASURE_S: Final = 3


@dataclass(frozen=True, slots=True)
class GeneratorCost:
    """Of one run: acknowledged records per second of wall time, and CPU time for each of them."""

    records_per_s: float
    cpu_ns_per_record: float


def main(
    out: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
    pairs: Annotated[int, typer.Option(min=5, help="Runs of each side.")] = 7,
) -> None:
    """Measure the cost of a produced record; takes about five minutes."""
    load_average = os.getloadavg()[0]
    with mock_broker() as broker, ProcessLauncher() as launcher:
        full = {
            size: [(bare_loop(broker, size), generator(launcher, broker, size, None)) for _ in range(pairs)]
            for size in SIZES
        }
        paced = {
            (size, rate): [generator(launcher, broker, size, rate) for _ in range(5)]
            for size in SIZES
            for rate in RATES_PER_S
        }
    text = report_text(full, paced, _where_and_when(load_average))
    sys.stdout.write(text)
    if out is not None:
        out.write_text(text)


# --- the two sides ---------------------------------------------------------------------------------------------------


def generator(launcher: ProcessLauncher, broker: str, size_bytes: int, rate_per_s: int | None) -> GeneratorCost:
    """One producer of the load generator; as fast as it can without a rate."""
    plan = LoadPlan(
        bootstrap_servers=broker,
        topics=(_new_topic(broker),),
        partitions=PARTITIONS,
        producers=1,
        groups=0,
        consumers_per_group=0,
        schedule=None if rate_per_s is None else OpenSchedule.constant(rate_per_s),
        warmup=WARMUP_S,
        measure_s=MEASURE_S,
        drain_max_s=10,
        sizes=FixedSize(size_bytes),
        payload=GeneratedPayload(),
        seed=1,
        producer_config=CLIENT,
    )
    result = launcher.run(plan)
    if result.errors or result.delivery.failed or result.delivery.acked != result.delivery.sent:
        raise RuntimeError(f"the generator lost records to the mock broker: {result.delivery}, {result.errors}")
    acked = sum(result.acked[WARMUP_S : WARMUP_S + MEASURE_S])
    return GeneratorCost(acked / MEASURE_S, result.generator.producer_cpu_ns_per_record)


def bare_loop(broker: str, size_bytes: int) -> GeneratorCost:
    """The client's own loop, in a process of its own."""
    request = json.dumps({"broker": broker, "topic": _new_topic(broker), "size_bytes": size_bytes})
    command = [sys.executable, "-m", "tools.generator_cost", "bare", request]
    return GeneratorCost(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _run_bare_loop(broker: str, topic: str, size_bytes: int) -> GeneratorCost:
    from confluent_kafka import Producer

    client = Producer({**CLIENT, "bootstrap.servers": broker, "log_level": 0})
    client.list_topics(topic, timeout=10)
    values = [bytes(STAMP_BYTES) + body for body in body_pool(GeneratedPayload(), FixedSize(size_bytes), seed=1)]
    rounds = cycle([values[start : start + 1000] for start in range(0, len(values), 1000)])
    produce, poll = client.produce, client.poll
    sent = 0
    marks = []
    started_s = time.monotonic()
    for end_s in (WARMUP_S, WARMUP_S + MEASURE_S):
        while time.monotonic() - started_s < end_s:
            for value in next(rounds):
                try:
                    produce(topic, value)
                except BufferError:
                    poll(0.001)
                    break
                sent += 1
            poll(0)
        marks.append((sent - len(client), time.monotonic(), time.process_time()))
    if client.flush(10):
        raise RuntimeError("the bare loop lost records to the mock broker")
    (acked, wall_s, cpu_s), (acked_at_end, wall_end_s, cpu_end_s) = marks
    records = acked_at_end - acked
    return GeneratorCost(records / (wall_end_s - wall_s), (cpu_end_s - cpu_s) * 1e9 / records)


_numbers = count()


def _new_topic(broker: str) -> str:
    topic = f"cost-{next(_numbers)}"
    make_topic(broker, topic)
    return topic


# --- the report ------------------------------------------------------------------------------------------------------


def report_text(
    full: Mapping[int, Sequence[tuple[GeneratorCost, GeneratorCost]]],
    paced: Mapping[tuple[int, int], Sequence[GeneratorCost]],
    measured: str,
) -> str:
    """full: size -> (bare loop, generator) of each pair. paced: (size, rate) -> of each trial."""
    lines = [
        "# What one produced record costs in generator CPU",
        "",
        "The `client` driver of the load generator beside confluent-kafka's own bare loop, at full speed against",
        "librdkafka's mock broker in a process of its own. The bare loop has the generator's values ready, takes no",
        "delivery callback and polls every 1000 records; the generator stamps every record, accounts for each and",
        "times one in 127. CPU is that of the whole process, librdkafka's threads with it. acks=all, linger 5 ms,",
        "batches up to 128 KiB, no compression, one producer.",
        "",
        "| value size | bare, per CPU s | generator, per CPU s | ratio (95 %) | bare, wall | generator, wall | pairs |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, runs in full.items():
        bare, ours = [1e9 / b.cpu_ns_per_record for b, _ in runs], [1e9 / g.cpu_ns_per_record for _, g in runs]
        ratio = paired_ratio_ci(bare, ours)
        wall_bare, wall_ours = median(b.records_per_s for b, _ in runs), median(g.records_per_s for _, g in runs)
        lines.append(
            f"| {format_size(size)} | {_thousands(median(bare))} | {_thousands(median(ours))} "
            f"| {_ratio(ratio)} | {_thousands(wall_bare)}/s | {_thousands(wall_ours)}/s | {len(runs)} |"
        )
    lines += [
        "",
        "At the rates of an open loop much of it is waking up five thousand times a second to keep the schedule:",
        "",
        "| value size | offered | median, µs of CPU per record | lowest–highest | trials |",
        "|---|---|---|---|---|",
    ]
    for (size, rate), costs in paced.items():
        each = [cost.cpu_ns_per_record / 1000 for cost in costs]
        lines.append(
            f"| {format_size(size)} | {_thousands(rate)}/s | {median(each):.1f} | {min(each):.1f}–{max(each):.1f} "
            f"| {len(each)} |"
        )
    command = "python -m tools.generator_cost --out docs/results/generator-cost.md"
    lines += ["", f"{measured} All of it again:", "", "```", command, "```"]
    return "\n".join(lines) + "\n"


def _ratio(estimate: RatioEstimate | None) -> str:
    assert estimate is not None, "both sides cost something"
    interval = estimate.interval
    return f"{estimate.ratio:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def _thousands(value: float) -> str:
    return f"{value / 1000:,.0f}k"


def _where_and_when(load_average: float) -> str:
    import confluent_kafka

    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} cores (load average {load_average:.1f} before the "
        f"first run), {platform.machine()}, kernel {platform.release()}, Python {platform.python_version()}, "
        f"librdkafka {confluent_kafka.libversion()[0]}."
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", request]:
            cost = _run_bare_loop(**json.loads(request))
            sys.stdout.write(
                json.dumps({"records_per_s": cost.records_per_s, "cpu_ns_per_record": cost.cpu_ns_per_record})
            )
        case _:
            typer.run(main)
