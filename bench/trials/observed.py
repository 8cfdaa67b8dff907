"""What every trial records of its system: processes, product and configuration, restart."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from highwater.bench.host.processes import ProcessGroups
from highwater.bench.storage.trial_storage import TrialStorage
from highwater.bench.systems import System
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.trials.lifetime import Restarted, restart
from highwater.bench.trials.steps import StepClock
from highwater.bench.workload.model import Workload
from highwater.results.models import SystemFacts


def process_groups(system: System, others: tuple[int, ...] = ()) -> ProcessGroups:
    """Whatever else descends from this process generates load: Spark's JVM, its workers, the load's own processes.

    others: systems of trials that run beside this one.
    """
    return ProcessGroups(tuple(system.process_ids), tuple(system.attendant_process_ids), (os.getpid(),), others)


def system_facts(
    system: System, client: BrokerClient, topic: str, copies: int, connection: Mapping[str, str]
) -> SystemFacts:
    """connection: the clients' settings of TLS and SASL, secrets left out."""
    return SystemFacts(
        kind=system.kind,
        version=system.version,
        command=next(iter(system.commands), []),
        commands=system.commands,
        effective_config=client.effective_config(),
        effective_topic_config=client.effective_topic_config(topic),
        connection=dict(connection),
        copies=copies,
    )


def restart_of(
    workload: Workload,
    system: System,
    topics: Sequence[str],
    storage: TrialStorage,
    steps: StepClock,
    checkpoint: Callable[[], None],
) -> Restarted | None:
    """End and start the system as its workload asks; None when it asks for nothing."""
    if workload.restart is None:
        return None
    steps.begin("restart", "ending the broker and starting it again")
    return restart(workload.restart, system, topics, workload.topics.partitions, storage.take, checkpoint)
