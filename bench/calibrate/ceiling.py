"""The ceiling of the load generator: a workload's producers, as fast as they go, against a broker that keeps nothing.

The producers are the very tasks of a trial, in a closed loop. The sink shares the host with them, as the system under
test does in a run on one host; so a ceiling holds for such a run, and is low for producers on hosts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from bench.calibrate.mock_broker import PARTITIONS as MOCK_PARTITIONS
from bench.calibrate.mock_broker import make_topic, mock_broker
from bench.calibrate.null_broker import null_broker
from bench.results import GeneratorCeiling, Sink
from bench.trials.given_calibration import shape_of
from bench.trials.trial import Launcher
from spark_loadgen import LoadFailed, LoadPlan

WARMUP_S: Final = 1
MEASURE_S: Final = 2
TOPIC: Final = "calibration"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of producers at full speed."""

    records_per_s: float
    bytes_per_s: float
    cpu_ratio_max: float
    cpu_ns_per_record: float


def at_full_speed(plan: LoadPlan, sink: Sink, launcher: Launcher) -> Trial:
    """Run the producers of `plan` once against a sink of their own. Raises LoadSetupError and LoadFailed."""
    measured = slice(WARMUP_S, WARMUP_S + MEASURE_S)
    with _SINKS[sink](plan) as alone:
        result = launcher.run(alone)
    if result.delivery.failed:
        raise LoadFailed(f"{result.delivery.failed} records failed: {next(iter(result.errors), 'no reason given')}")
    return Trial(
        records_per_s=sum(result.acked[measured]) / MEASURE_S,
        bytes_per_s=sum(result.acked_bytes[measured]) / MEASURE_S,
        cpu_ratio_max=result.generator.cpu_ratio_max,
        cpu_ns_per_record=result.generator.producer_cpu_ns_per_record,
    )


def ceiling_of(plan: LoadPlan, sink: Sink, trials: Sequence[Trial]) -> GeneratorCeiling:
    """`trials`: at least one."""
    return GeneratorCeiling(
        shape=shape_of(plan),
        sink=sink,
        ceiling_per_s=median(trial.records_per_s for trial in trials),
        ceiling_bytes_per_s=median(trial.bytes_per_s for trial in trials),
        values_per_s=[trial.records_per_s for trial in trials],
        generator_cpu_ratio_max=median(trial.cpu_ratio_max for trial in trials),
        cpu_ns_per_record=median(trial.cpu_ns_per_record for trial in trials),
    )


def unbounded(plan: LoadPlan, bootstrap_servers: str, partitions: int) -> LoadPlan:
    """The producers of a plan alone, in a closed loop."""
    return replace(
        plan,
        bootstrap_servers=bootstrap_servers,
        topics=(TOPIC,),
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
def _null_broker(plan: LoadPlan) -> Iterator[LoadPlan]:
    partitions = plan.partitions * len(plan.topics)
    with null_broker({TOPIC: partitions}) as broker:
        yield unbounded(plan, broker.address, partitions)


@contextmanager
def _librdkafka_mock(plan: LoadPlan) -> Iterator[LoadPlan]:
    with mock_broker() as address:
        make_topic(address, TOPIC)
        yield unbounded(plan, address, MOCK_PARTITIONS)


_SINKS: Final[dict[Sink, Callable[[LoadPlan], AbstractContextManager[LoadPlan]]]] = {
    "null_broker": _null_broker,
    "librdkafka_mock": _librdkafka_mock,
}
