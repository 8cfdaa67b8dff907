"""Stand-ins for Spark and for a broker, so that the runner is tested without either."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.bench.systems import SystemProcess
from highwater.bench.workload.system import SystemUnderTest
from highwater.results.histogram import Histogram
from highwater.spark_loadgen.delivery import Delivery
from highwater.spark_loadgen.model import GeneratorReport, LoadPlan, LoadResult, PartitionCounts, Progress, TaskReport
from highwater.spark_loadgen.schedule import OpenSchedule

MINIMAL = """\
schema: bench.workload/1
name: tiny
purpose: A test.
topics: {partitions: 2}
records: {size: 100B}
load: {rate: 100/s}
phases: {warmup: 1s, measure: 2s, drain: 5s}
trials: {n: 2, seed: 7, a_a: false}
"""


def load_result(
    plan: LoadPlan, *, interrupted: bool = False, errors: dict[str, int] | None = None, host: str | None = None
) -> LoadResult:
    """What a healthy load of this plan brings back."""
    assert isinstance(plan.schedule, OpenSchedule)
    rate, seconds = int(plan.schedule.steps[0].rate_per_s), plan.schedule_s
    records = rate * seconds
    per_second = [rate] * seconds
    value_bytes = int(plan.sizes.mean_bytes) if plan.sizes else 200
    received = [*per_second, 0] if plan.consumers else []
    metrics = ["produce_response", "produce_service", "send_delay"] + (["e2e_response"] if plan.consumers else [])
    return LoadResult(
        t0_unix_ns=time.time_ns() - seconds * 10**9,
        offered=per_second,
        sent=per_second,
        acked=per_second,
        acked_bytes=[rate * value_bytes] * seconds,
        failed=[0] * seconds,
        received=received,
        received_bytes=[count * value_bytes for count in received],
        generator_cpu_ratio_max=[0.2] * seconds,
        histograms={
            metric: {
                second: Histogram.of_values([1_000_000 + 10_000 * position + number for number in range(rate)])
                for second in range(seconds)
            }
            for position, metric in enumerate(metrics)
        },
        delivery=Delivery(
            sent=records,
            acked=records,
            failed=0,
            received=sum(received),
            lost=0,
            duplicated=0,
            reordered=0,
            corrupt=0,
            unread=0,
        ),
        e2e_clock="same_host_monotonic",
        negative_samples=0,
        generator=GeneratorReport(
            producers=plan.producers,
            consumers=plan.consumers,
            slots=2,
            oversubscribed=False,
            cpu_ratio_max=0.2,
            producer_cpu_ns_per_record=2000.0,
            consumer_cpu_ns_per_record=1000.0,
            start_skew_ns=1000,
            clock_spread_ns=10,
            produce_sampled_one_in=1,
            tasks=[
                TaskReport(
                    task=number,
                    role="producer" if number < plan.producers else "consumer",
                    host=host or socket.gethostname(),
                    pid=100 + number,
                    cpu_count=2,
                    cpu_ratio_max=0.2,
                    sent=0,
                    acked=0,
                    failed=0,
                    received=0,
                    first_send_delay_ns=None,
                    backpressure=0,
                )
                for number in range(plan.tasks)
            ],
        ),
        interrupted=interrupted,
        measure_start_s=plan.warmup_max_s,
        errors=errors or {},
        partitions=[
            PartitionCounts(topic, partition, sum(received) // plan.partitions, Histogram.of_values([]))
            for topic in plan.topics
            for partition in range(plan.partitions)
        ],
    )


class FakeLauncher:
    """Brings back what `outcome` makes of a plan; raises what it raises."""

    name = "spark local[2]"
    master = "local[2]"
    settings: Mapping[str, str] = {}
    slots = slots_by_master = 2

    def __enter__(self) -> FakeLauncher:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def check(self) -> None:
        return None

    def __init__(self, outcome: Callable[[LoadPlan], LoadResult] = load_result) -> None:
        self.outcome = outcome
        self.plans: list[LoadPlan] = []

    def versions(self) -> Mapping[str, str]:
        return {"spark": "0"}

    def run(
        self,
        plan: LoadPlan,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
        may_start: Callable[[], bool] | None = None,
    ) -> LoadResult:
        self.plans.append(plan)
        while may_start is not None and not may_start():
            time.sleep(0.001)
        return self.outcome(plan)


class FakeSystem:
    """A broker that is always well, unless `trouble` says otherwise."""

    version = "0"
    bootstrap_servers = "127.0.0.1:1"

    def __init__(self, kind: str = "highwater") -> None:
        self.kind = kind
        self.commands = [["fake"]]
        self.nodes: list[SystemProcess] = []
        self.process_ids: list[int] = []
        self.attendant_process_ids: list[int] = []
        self.running = False
        self.trouble: str | None = None

    def __enter__(self) -> FakeSystem:
        self.running = True
        return self

    def __exit__(self, *_: object) -> None:
        self.running = False

    def problem(self) -> str | None:
        return self.trouble


class FakeSystems:
    """Starts FakeSystems and remembers them; `fault` is raised at the n-th start (from 1)."""

    def __init__(self, faults: Mapping[int, BaseException] | None = None) -> None:
        self.faults = faults or {}
        self.started: list[FakeSystem] = []
        self.directories: list[Path] = []

    def __call__(
        self,
        wanted: SystemUnderTest,
        directories: Sequence[Path],
        log_directory: Path,
        checkpoint: Callable[[], None],
    ) -> FakeSystem:
        checkpoint()
        system = FakeSystem(wanted.kind)
        self.started.append(system)
        self.directories += directories
        (log_directory / "system.log").write_text("started\n")
        for directory in directories:
            (directory / "00000000000000000000.log").write_bytes(b"data")
        if (fault := self.faults.get(len(self.started))) is not None:
            raise fault
        return system


class FakeClient:
    """Answers for a broker; holds whatever the launcher says was acknowledged."""

    def __init__(self, launcher: FakeLauncher, faults: Mapping[str, BaseException] | None = None) -> None:
        self._launcher = launcher
        self._faults = faults or {}
        self.in_log: int | None = None
        self.by_partition: list[int] | None = None
        self.deleted: list[str] = []

    def __call__(self, bootstrap_servers: str, connection: Mapping[str, str]) -> Any:
        return self

    def answers(self) -> bool:
        return "answers" not in self._faults

    def create_topic(self, name: str, partitions: int, config: Mapping[str, object], replication: int) -> None:
        self._fail("create_topic")

    def delete_topic(self, name: str) -> None:
        self.deleted.append(name)

    def records_by_partition(self, name: str, partitions: int) -> list[int]:
        """What was given, or as many in each as in the others; one more in the first ones where that cannot be."""
        if self.by_partition is not None:
            return self.by_partition
        each, more = divmod(self._count(), partitions)
        return [each + (partition < more) for partition in range(partitions)]

    def _count(self) -> int:
        self._fail("records_by_partition")
        plan = self._launcher.plans[-1]
        assert isinstance(plan.schedule, OpenSchedule)
        rate = int(plan.schedule.steps[0].rate_per_s)
        return rate * plan.schedule_s if self.in_log is None else self.in_log

    def effective_config(self) -> dict[str, str]:
        return {"segment.bytes": "1073741824"}

    def effective_topic_config(self, topic: str) -> dict[str, str]:
        return {"retention.ms": "604800000"}

    def _fail(self, what: str) -> None:
        if (fault := self._faults.get(what)) is not None:
            raise fault
