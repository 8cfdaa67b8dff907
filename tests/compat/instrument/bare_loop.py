"""The least that a Python program can do to time records at a rate: what of our latency is the way we wait?

`python -m tests.compat.instrument.bare_loop --topic T …` sends on schedule with confluent-kafka, times each record from
before `produce()` to its callback, and prints mean, p50 and p99. Between records it polls the client without a pause,
which takes a whole core and is what rdkafka_performance does, or sleeps `--pause-us` in between.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from confluent_kafka import KafkaError, Message, Producer


def latencies_ns(
    properties: dict[str, str], topic: str, records: int, records_per_s: int, record_bytes: int, pause_us: int
) -> list[int]:
    """Of every record, in the order of their acknowledgements. Raises AssertionError when one failed."""
    found: list[int] = []

    class Timed:
        __slots__ = ("sent_ns",)

        def __init__(self) -> None:
            self.sent_ns = time.monotonic_ns()

        def __call__(self, error: KafkaError | None, message: Message) -> None:
            found.append(time.monotonic_ns() - self.sent_ns)
            assert error is None, error.str()

    producer, value = Producer(properties), b"x" * record_bytes
    start_ns, interval_ns = time.monotonic_ns(), 1_000_000_000 // records_per_s
    for number in range(records):
        while time.monotonic_ns() < start_ns + number * interval_ns:
            producer.poll(0)
            if pause_us:
                time.sleep(pause_us / 1e6)
        producer.produce(topic, value, partition=0, on_delivery=Timed())
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(found) == records
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.instrument.bare_loop", description=__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--properties", type=json.loads, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--warmup-records", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, required=True)
    parser.add_argument("--pause-us", type=int, required=True)
    options = parser.parse_args(arguments)
    started_s = time.monotonic()
    every_ms = (
        np.array(
            latencies_ns(
                options.properties,
                options.topic,
                options.records,
                options.rate,
                options.record_bytes,
                options.pause_us,
            )
        )
        / 1e6
    )
    measured_ms = every_ms[options.warmup_records :]
    p50_ms, p99_ms = np.percentile(measured_ms, (50, 99))
    figures = {
        "records_per_s": options.records / (time.monotonic() - started_s),
        "mean_ms": float(measured_ms.mean()),
        "p50_ms": float(p50_ms),
        "p99_ms": float(p99_ms),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
