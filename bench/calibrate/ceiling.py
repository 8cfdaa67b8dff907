"""The ceiling of the load generator: a workload's producers, as fast as they go, against a broker that keeps nothing.

The producers are the very tasks of a trial, in a closed loop. The sink shares the host with them, as the system under
test does in a run on one host; so a ceiling holds for such a run, and is low for producers on hosts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from statistics import median
from typing import Final

from bench.calibrate.mock_broker import PARTITIONS as MOCK_PARTITIONS
from bench.calibrate.mock_broker import make_topic, mock_broker
from bench.calibrate.null_broker import null_broker
from bench.calibrate.use import shape_of
from bench.results import GeneratorCeiling, Sink
from bench.trial import Launcher
from spark_loadgen import LoadPlan

WARMUP_S: Final = 1
MEASURE_S: Final = 2
TOPIC: Final = "calibration"


def measure_ceiling(plan: LoadPlan, sink: Sink, launcher: Launcher, repeats: int) -> GeneratorCeiling:
    """Run the producers of `plan` `repeats` times against a sink. Raises LoadSetupError and LoadFailed."""
    rates, byte_rates, cpu_ratios, costs_ns = [], [], [], []
    measured = slice(WARMUP_S, WARMUP_S + MEASURE_S)
    for number in range(repeats):
        with _SINKS[sink](plan, f"{TOPIC}-{number}") as alone:
            result = launcher.run(alone)
        rates.append(sum(result.acked[measured]) / MEASURE_S)
        byte_rates.append(sum(result.acked_bytes[measured]) / MEASURE_S)
        cpu_ratios.append(result.generator.cpu_ratio_max)
        costs_ns.append(result.generator.producer_cpu_ns_per_record)
    return GeneratorCeiling(
        shape=shape_of(plan),
        sink=sink,
        ceiling_per_s=median(rates),
        ceiling_bytes_per_s=median(byte_rates),
        values_per_s=rates,
        generator_cpu_ratio_max=median(cpu_ratios),
        cpu_ns_per_record=median(costs_ns),
    )


def unbounded(plan: LoadPlan, bootstrap_servers: str, topic: str, partitions: int) -> LoadPlan:
    """The producers of a plan alone, in a closed loop."""
    return replace(
        plan,
        bootstrap_servers=bootstrap_servers,
        topics=(topic,),
        partitions=partitions,
        groups=0,
        consumers_per_group=0,
        schedule=None,
        warmup=WARMUP_S,
        measure_s=MEASURE_S,
        drain_max_s=10,
        start_after_backlog_bytes=None,
        start_after_load=False,
        pairs=False,
    )


@contextmanager
def _null_broker(plan: LoadPlan, topic: str) -> Iterator[LoadPlan]:
    partitions = plan.partitions * len(plan.topics)
    with null_broker({topic: partitions}) as broker:
        yield unbounded(plan, broker.address, topic, partitions)


@contextmanager
def _librdkafka_mock(plan: LoadPlan, topic: str) -> Iterator[LoadPlan]:
    with mock_broker() as address:
        make_topic(address, topic)
        yield unbounded(plan, address, topic, MOCK_PARTITIONS)


_SINKS: Final[dict[Sink, Callable[[LoadPlan, str], AbstractContextManager[LoadPlan]]]] = {
    "null_broker": _null_broker,
    "librdkafka_mock": _librdkafka_mock,
}
