"""One task of a load: set up, report ready, run a producer or a consumer from T0 on, report.

A task sends a problem of its set-up to the driver instead of raising it: all tasks then end without load, and the
caller gets one sentence instead of Java and Python stack traces.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from dataclasses import dataclass
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from highwater.spark_loadgen.channel import ClockReading, TaskChannel
from highwater.spark_loadgen.consumer import ConsumerLoad, ConsumerReport
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, Role, TelemetryReport
from highwater.spark_loadgen.new_topics import ask_until
from highwater.spark_loadgen.phases import Phases
from highwater.spark_loadgen.producer import ProducerLoad
from highwater.spark_loadgen.producer_metrics import ProducerReport
from highwater.spark_loadgen.records import GeneratedPayload
from highwater.spark_loadgen.telemetry.publisher import Publisher

START_TIMEOUT_S: Final = 180
_METADATA_TIMEOUT_S: Final = 10


class Load(Protocol):
    """The load of one task: ProducerLoad, WireProducer or ConsumerLoad."""

    def prepare(self) -> None: ...
    def run(
        self, t0_ns: int, channel: TaskChannel, publisher: Publisher | None = None
    ) -> ProducerReport | ConsumerReport: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """The input of every task. payload: what to generate, or the text of a payload file."""

    plan: LoadPlan
    magic: int
    payload: GeneratedPayload | bytes
    channel_address: tuple[str, int]
    channel_token: str


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The output of every task; `report` is None when the set-up of any task failed.

    number: producers from 0, then the consumers group by group. clock_drift_ns: change of this host's clock offset from
    the driver between start and end; None when the driver did not answer at the end.
    """

    number: int
    role: Role
    host: str
    pid: int
    cpu_count: int
    measure_start_s: int
    clock_drift_ns: int | None
    report: ProducerReport | ConsumerReport | None
    telemetry: TelemetryReport | None = None


def run_task(job: Job, task: int) -> TaskOutcome:
    """task: the launcher's number. Raises LoadSetupError and OSError when the driver cannot be reached."""
    plan = job.plan
    phases = Phases(plan.warmup_max_s, plan.measure_s)
    with contextlib.closing(_connect(job, task, phases)) as channel:
        number: int = channel.receive("role", START_TIMEOUT_S)["number"]
        role: Role = "producer" if number < plan.producers else "consumer"
        problem, load = None, None
        publisher = _open_publisher(plan, number)
        try:
            load = _prepare(job, number, role)
        except LoadSetupError as error:
            problem = str(error)
        clock = channel.read_clock()
        channel.send(
            {
                "kind": "ready",
                "problem": problem,
                "offset_ns": clock.offset_ns,
                "error_ns": clock.error_ns,
                "wall_offset_ns": clock.wall_offset_ns,
            }
        )
        t0_ns: int | None = channel.receive("start", 2 * START_TIMEOUT_S)["t0_ns"]
        report = None
        if load is not None:
            if t0_ns is not None:
                report = _run(load, t0_ns, channel, publisher)
            load.close()
        telemetry = publisher.finish() if publisher is not None else None
        return TaskOutcome(
            number=number,
            role=role,
            host=socket.gethostname(),
            pid=os.getpid(),
            cpu_count=len(os.sched_getaffinity(0)),
            measure_start_s=phases.measure_start_s,
            clock_drift_ns=_drift_ns(channel, clock),
            report=report,
            telemetry=telemetry,
        )


def _open_publisher(plan: LoadPlan, number: int) -> Publisher | None:
    """A control broker is never a reason not to run: a client that refuses its settings publishes nothing."""
    if plan.telemetry is None:
        return None
    try:
        return Publisher(plan.telemetry, number)
    except KafkaException:
        return None


def _connect(job: Job, task: int, phases: Phases) -> TaskChannel:
    host, port = job.channel_address
    try:
        return TaskChannel(job.channel_address, job.channel_token, task, phases)
    except OSError as error:
        raise LoadSetupError(
            f"executor {socket.gethostname()} cannot reach the driver at {host}:{port}: {error}; "
            "name an address of the driver that executors reach with the Spark setting spark.driver.host"
        ) from error


def _drift_ns(channel: TaskChannel, before: ClockReading) -> int | None:
    try:
        return channel.read_clock().offset_ns - before.offset_ns
    except OSError:
        return None


def _prepare(job: Job, number: int, role: Role) -> Load:
    """Do everything that takes time or may fail, before T0. Raises LoadSetupError."""
    plan = job.plan
    content = Content(plan, job.payload)
    if role == "producer" and plan.driver == "wire":
        # Imported here: only loads that use the wire driver need its packages on the executors.
        from highwater.spark_loadgen.wire.producer import WireProducer

        wire = WireProducer(plan, number, job.magic, content)
        wire.prepare()
        return wire
    load: ProducerLoad | ConsumerLoad
    try:
        if role == "producer":
            load = ProducerLoad(plan, number, job.magic, content)
        else:
            load = ConsumerLoad(plan, number - plan.producers, job.magic, content)
    except KafkaException as error:
        raise LoadSetupError(f"the {role} refuses its configuration: {_reason(error)}") from error
    except (TypeError, ValueError) as error:
        raise LoadSetupError(f"the {role} refuses its configuration: {error}") from error
    _check_topics(load.client, plan)
    load.prepare()
    return load


def _check_topics(client: Producer | Consumer, plan: LoadPlan) -> None:
    try:
        # Metadata of all topics, since some brokers create a topic that metadata is requested for.
        topics = ask_until(
            lambda: client.list_topics(timeout=_METADATA_TIMEOUT_S).topics,
            lambda known: all(topic in known for topic in plan.topics),
        )
    except KafkaException as error:
        raise LoadSetupError(
            f"no broker answers at {plan.bootstrap_servers} within {_METADATA_TIMEOUT_S} s: {_reason(error)}"
        ) from error
    for topic in plan.topics:
        if topic not in topics:
            raise LoadSetupError(f"topic {topic} does not exist at {plan.bootstrap_servers}; create it first")
        found = len(topics[topic].partitions)
        if found != plan.partitions:
            raise LoadSetupError(f"topic {topic} has {found} partitions, the plan says {plan.partitions}")


def _reason(error: KafkaException) -> str:
    reason: KafkaError = error.args[0]
    return reason.str()


def _run(load: Load, t0_ns: int, channel: TaskChannel, publisher: Publisher | None) -> ProducerReport | ConsumerReport:
    # A full collection over Spark's and NumPy's objects stops a sender for tens of ms; the loops create no cycles.
    gc.collect()
    gc.disable()
    try:
        report = load.run(t0_ns, channel, publisher)
    finally:
        gc.enable()
    if isinstance(report, ProducerReport):
        totals = {"sent": report.sent, "acked": report.acked, "acked_bytes": sum(report.windows.acked_bytes)}
        totals |= {"failed": len(report.failed_sequences), "aborted": len(report.aborted_sequences)}
        channel.send({"kind": "producer_finished", "totals": totals})
    return report
