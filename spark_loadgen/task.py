"""What one task of the barrier stage does: set up, agree on T0 with the others, run its half of the load, report.

A problem of the set-up is told to the other tasks instead of raised: then all end without load, and the driver gets the
sentence and not a stack of Java and Python traces.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from spark_loadgen.channel import TaskChannel
from spark_loadgen.consumer import ConsumerLoad, ConsumerReport
from spark_loadgen.content import Content
from spark_loadgen.model import EndToEndClock, GeneratedPayload, LoadPlan, Role
from spark_loadgen.producer import ProducerLoad, ProducerReport

# Tasks leave a barrier up to one second apart, because Spark polls for its end (BarrierTaskContext sleeps 1 s); nobody
# may start before the last one left it.
LEAD_NS: Final = 2_000_000_000
_METADATA_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True)
class Job:
    """What every task gets. payload: what to generate, or the text of a payload file."""

    plan: LoadPlan
    magic: int
    payload: GeneratedPayload | bytes
    channel_address: tuple[str, int]
    channel_token: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What every task gives back; without a report when the set-up of some task failed."""

    task: int
    role: Role
    executor_host: str
    pid: int
    cpu_count: int
    setup_errors: list[str]
    e2e_clock: EndToEndClock
    clock_spread_ns: int
    t0_unix_ns: int
    report: ProducerReport | ConsumerReport | None


class _SetupError(Exception):
    """One line, for the driver."""


def run_task(job: Job, task: int, all_gather: Callable[[str], list[str]]) -> Outcome:
    """`all_gather` gives every task the texts of all, as BarrierTaskContext.allGather does."""
    role: Role = "producer" if task < job.plan.producers else "consumer"
    problem = None
    load: ProducerLoad | ConsumerLoad | None = None
    channel: TaskChannel | None = None
    try:
        channel = _connect(job, task)
        load = _prepare(job, task, role)
    except _SetupError as error:
        problem = str(error)
    offer = {
        "problem": problem,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "monotonic_ns": time.monotonic_ns(),
        "unix_ns": time.time_ns(),
        "clock_offset_ns": channel.clock_offset_ns if channel else 0,
    }
    offers = [json.loads(text) for text in all_gather(json.dumps(offer))]
    problems = [text for other in offers if (text := other["problem"])]
    t0_ns, e2e_clock, clock_spread_ns = _agree(offers)
    t0_unix_ns = time.time_ns() + t0_ns - time.monotonic_ns()
    report = None
    if not problems and load is not None and channel is not None:
        channel.send({"kind": "t0", "in_ns": t0_ns - time.monotonic_ns()})
        report = _run(load, t0_ns, channel)
    if channel is not None:
        channel.close()
    return Outcome(
        task=task,
        role=role,
        executor_host=socket.gethostname(),
        pid=os.getpid(),
        cpu_count=len(os.sched_getaffinity(0)),
        setup_errors=sorted(set(problems)),
        e2e_clock=e2e_clock,
        clock_spread_ns=clock_spread_ns,
        t0_unix_ns=t0_unix_ns,
        report=report,
    )


def _connect(job: Job, task: int) -> TaskChannel:
    host, port = job.channel_address
    try:
        return TaskChannel(job.channel_address, job.channel_token, task)
    except (OSError, ValueError) as error:
        raise _SetupError(
            f"executor {socket.gethostname()} cannot reach the driver at {host}:{port}: {error}; "
            "name an address of the driver that executors reach with the Spark setting spark.driver.host"
        ) from error


def _prepare(job: Job, task: int, role: Role) -> ProducerLoad | ConsumerLoad:
    """Everything that takes time and could fail, before the clock starts."""
    plan = job.plan
    content = Content(plan, job.payload)
    load: ProducerLoad | ConsumerLoad
    try:
        if role == "producer":
            load = ProducerLoad(plan, task, job.magic, content)
        else:
            load = ConsumerLoad(plan, task - plan.producers, job.magic, content)
    except KafkaException as error:
        raise _SetupError(f"the {role} refuses its configuration: {_reason(error)}") from error
    except (TypeError, ValueError) as error:
        raise _SetupError(f"the {role} refuses its configuration: {error}") from error
    _check_topic(load.client, plan)
    load.prepare()
    return load


def _check_topic(client: Producer | Consumer, plan: LoadPlan) -> None:
    try:
        # All topics, since asking for one by name makes some brokers create it.
        topics = client.list_topics(timeout=_METADATA_TIMEOUT_S).topics
    except KafkaException as error:
        raise _SetupError(
            f"no broker answers at {plan.bootstrap_servers} within {_METADATA_TIMEOUT_S} s: {_reason(error)}"
        ) from error
    for topic in plan.topics:
        if topic not in topics:
            raise _SetupError(f"topic {topic} does not exist at {plan.bootstrap_servers}; create it first")
        found = len(topics[topic].partitions)
        if found != plan.partitions:
            raise _SetupError(f"topic {topic} has {found} partitions, the plan says {plan.partitions}")


def _reason(error: KafkaException) -> str:
    reason: KafkaError = error.args[0]
    return reason.str()


def _agree(offers: list[dict[str, Any]]) -> tuple[int, EndToEndClock, int]:
    """(T0 on this host's monotonic clock, kind of clock, spread of the clocks); the same T0 for every task."""
    if len({offer["boot_id"] for offer in offers}) == 1:  # one kernel: one CLOCK_MONOTONIC
        return max(offer["monotonic_ns"] for offer in offers) + LEAD_NS, "same_host_monotonic", 0
    t0_unix_ns = max(offer["unix_ns"] for offer in offers) + LEAD_NS
    offsets = [offer["clock_offset_ns"] for offer in offers]
    return t0_unix_ns - time.time_ns() + time.monotonic_ns(), "wall_clock", max(offsets) - min(offsets)


def _run(load: ProducerLoad | ConsumerLoad, t0_ns: int, channel: TaskChannel) -> ProducerReport | ConsumerReport:
    # A full collection over Spark's and NumPy's objects stops a sender for tens of ms, and the loops make no cycles.
    gc.collect()
    gc.disable()
    try:
        if isinstance(load, ProducerLoad):
            report: ProducerReport | ConsumerReport = load.run(t0_ns, channel)
            channel.send({"kind": "producer_finished"})
        else:
            report = load.run(t0_ns, channel)
            load.client.close()
        return report
    finally:
        gc.enable()
