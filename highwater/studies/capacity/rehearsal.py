"""A rehearsal of a plan: its topics, scaled to one host, as a workload whose cells the costs predict."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from highwater.common.errors import UsageError
from highwater.common.units import percent_text, significant
from highwater.studies.capacity.ceilings import Measured
from highwater.studies.capacity.costs import Work, looked_at, traffic
from highwater.studies.capacity.demand import partitions_of
from highwater.studies.capacity.draws import costs_of
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.measured import HELD_OUT

_RECORD_BYTES: Final = 1024
_LARGEST_BATCH_RECORDS: Final = 900
_MOST_PARTITIONS: Final = 100
# Fewer batches are too few for a trial.
_LEAST_BATCHES_PER_S: Final = 20.0
# The load generator needs the host too, and a broker that waits for a processor says nothing of its costs.
_MOST_OF_HOST: Final = 0.5
_MOST_NAME: Final = 40
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class RehearsedTopic:
    topic: str
    cell: str
    """The variant of the workload."""
    brokers: int
    predicted_cores: float
    """CPU seconds per second of all its brokers."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    topics: tuple[RehearsedTopic, ...]
    workload: dict[str, Any]
    """A workload file as a document."""


def rehearsal_of(load: Load, measured: Measured, system: Mapping[str, Any], share: float) -> Rehearsal:
    """Each topic as a cell with `share` of its peak, on as many brokers as it has copies.

    system: that of the ceilings' workload. Raises UsageError if the host is too small for it, or the share is.
    """
    costs = costs_of(measured)
    partition_bytes_per_s = median(measured.partition_bytes_per_s) if measured.partition_bytes_per_s else None
    topics, variants = [], {}
    for number, (name, topic) in enumerate(load.topics.items(), start=1):
        records = min(max(1, round(topic.batch_bytes / _RECORD_BYTES)), _LARGEST_BATCH_RECORDS)
        record_bytes = min(_RECORD_BYTES, topic.batch_bytes)
        bytes_per_s, batch_bytes = topic.peak_bytes_per_s * share, records * record_bytes
        batches, copies = bytes_per_s / batch_bytes, topic.replication - 1
        if batches < _LEAST_BATCHES_PER_S:
            raise UsageError(
                f"--rehearse {percent_text(share)}: {name} would have {significant(batches)} batches a second, too few "
                f"for a trial: give {_percent(share * _LEAST_BATCHES_PER_S / batches, upwards=True)} or more"
            )
        groups = topic.groups
        partitions = min(partitions_of(topic, partition_bytes_per_s, topic.replication), _MOST_PARTITIONS)
        done = traffic(batch_bytes, bytes_per_s, bytes_per_s * groups, bytes_per_s * copies, groups) + Work(
            brokers=float(topic.replication),
            partitions=float(partitions * topic.replication),
            synced_batches=batches * topic.replication if topic.fsync else 0.0,
            looked_at_for_followers=looked_at(batches * copies, partitions * copies, topic.replication * copies),
            looked_at_for_readers=looked_at(batches * groups, partitions, topic.replication),
        )
        predicted = costs.cpu_cores(done)
        most = _MOST_OF_HOST * measured.host.cpu_count
        if predicted > most:
            raise UsageError(
                f"--rehearse {percent_text(share)}: the brokers of {name} would need {significant(predicted)} of this "
                f"host's {measured.host.cpu_count} processors, and the load needs them too: give "
                f"{_percent(share * most / predicted)} or less"
            )
        cell = f"{HELD_OUT}-{number}-{_NOT_IN_A_NAME.sub('-', name).strip('-')[:_MOST_NAME]}".rstrip("-")
        topics.append(RehearsedTopic(name, cell, topic.replication, predicted))
        variants[cell] = {
            "topics": {
                "partitions": partitions,
                "replication": topic.replication,
                "config": {"min.insync.replicas": topic.min_insync_replicas}
                | ({"flush.messages": 1} if topic.fsync else {}),
            },
            "system": {"nodes": topic.replication},
            "producers": {"client": {"batch.num.messages": records}},
            "consumers": {"groups": groups},
            "records": {"size": f"{record_bytes}B"},
            "load": {"model": "open", "rate": f"{max(1, round(bytes_per_s / record_bytes))}/s"},
        }
    return Rehearsal(tuple(topics), _workload(load, system, share, variants))


def _workload(load: Load, system: Mapping[str, Any], share: float, variants: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": "bench.workload/1",
        "name": f"rehearsal-{load.name}"[:64],
        "purpose": f"Do the costs of the plan {load.name} hold for its topics at {percent_text(share)} of their peaks?",
        "answer": {"best": ["system.cpu_s_per_gib"]},
        "system": dict(system),
        "topics": {"partitions": 1},
        "records": {"size": f"{_RECORD_BYTES}B"},
        "consumers": {"groups": 0},
        "load": {"model": "open", "rate": "1000/s"},
        "producers": {
            "count": 1,
            "driver": "wire",
            "client": {"acks": "all", "linger.ms": 1000, "batch.size": "1MB"},
        },
        "phases": {"warmup": "2s", "measure": "8s", "drain": "60s"},
        "trials": {"n": 3, "a_a": False},
        # The disk was measured with the ceilings.
        "storage": {"probe": False},
        # As those of the ceilings.
        "validity": {"send_delay_p99": "1s", "achieved_ratio_min": 0.98, "generator_cpu_ratio_max": 1.0},
        "variants": variants,
    }


def _percent(share: float, *, upwards: bool = False) -> str:
    """The share as the option takes it, with two digits, rounded to the safe side."""
    digits = 1 - math.floor(math.log10(100 * share))
    scale = 10**digits
    rounded = (math.ceil if upwards else math.floor)(100 * share * scale) / scale
    return f"{rounded:g}%"
