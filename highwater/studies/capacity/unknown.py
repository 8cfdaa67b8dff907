"""What a plan does not know, each with the command or the act that finds it out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from highwater.bench.workload.values import MOST_PROBE_FILES
from highwater.common.units import count_text, plural, significant, size_text
from highwater.studies.capacity.ceilings import Ceilings, Measured
from highwater.studies.capacity.costs import KINDS, MANY_PARTITIONS, REPLAYED, Work
from highwater.studies.capacity.demand import BrokerState
from highwater.studies.capacity.load import Load
from highwater.studies.capacity.measured import WORKLOAD

# Highwater's broker is one event loop: it cannot use much more than a core.
_ONE_LOOP: Final = "highwater "
_ONE_CORE: Final = 0.8
# How far beyond what was measured a plan goes without a word.
_BEYOND: Final = 1.5


@dataclass(frozen=True, slots=True)
class Unknown:
    what: str
    find_out: str
    is_beyond_measured: bool = False
    """The plan goes on beyond what was measured."""


def unknown_to(
    load: Load, measured: Measured, ceilings: Ceilings, state: BrokerState | None = None
) -> Iterator[Unknown]:
    """state: of the worst broker of the plan."""
    again = f"highwater bench run {WORKLOAD} --out DIR"
    if not measured.held_out and measured.reference is None:
        yield Unknown("how far the costs are from cells that they were not fitted to", again)
    for name, topic in load.topics.items():
        low, high = ceilings.costs.batch_bytes["produced"]
        if not low / _BEYOND <= topic.batch_bytes <= high * _BEYOND:
            yield Unknown(
                f"what batches of {size_text(topic.batch_bytes)} cost ({name}): measured were {size_text(low)} to "
                f"{size_text(high)}, and the plan goes on in a straight line",
                f"give {WORKLOAD} variants with this batch.size, and run it again",
                is_beyond_measured=True,
            )
    if state is not None:
        yield from _beyond_measured(state.work, measured)
        yield from _many_partitions(state.work, measured, ceilings)
    if ceilings.cpu_cores < _ONE_CORE or not measured.system.startswith(_ONE_LOOP):
        yield Unknown(
            f"whether a broker can use more than {significant(ceilings.cpu_cores)} cores: that is the most that was "
            "seen, and the load generator may have been the limit",
            f"give {WORKLOAD} more producers (producers.count) on a host of their own, and run it again",
        )
    if ceilings.partition_bytes is None:
        yield Unknown("how much memory a partition takes: the plan counts none", again)
    if ceilings.partition_bytes_per_s is None:
        yield Unknown("what one partition takes: partitions follow from consumers alone", again)
    if ceilings.network_bytes_per_s is None:
        yield Unknown(
            "how fast the network is: its speed is what the load file says",
            "iperf3 --server on one of the hosts; on another, highwater bench network HOST --out network.json; then "
            "highwater plan LOAD --network network.json",
        )
    most_files = max((files for files, _ in ceilings.write_ratios), default=1)
    if state is not None and state.files_of_a_disk > _BEYOND * most_files:
        files = math.ceil(state.files_of_a_disk)
        yield Unknown(
            f"how fast a disk is with the files of {plural(files, 'partition')}: appends to "
            f"{plural(most_files, 'file')} in turn were measured, and hard disks are slower with more",
            f"give {WORKLOAD} storage.probe_files with {min(files, MOST_PROBE_FILES)}, and run it again",
            is_beyond_measured=True,
        )
    if load.hosts.disks.layout in ("raid5", "raid6"):
        yield Unknown(
            f"how fast {load.hosts.disks.layout} really is: the plan counts the worst case for every write",
            "highwater bench storage probe DIR",
        )
    if any(topic.replication > 1 for topic in load.topics.values()):
        yield Unknown(
            "what replication costs between hosts: it was measured between brokers of one host, over loopback",
            "highwater bench run FILE --out DIR, with a FILE whose system.clusters names such a cluster",
        )
    yield Unknown(
        "how long clients wait: a plan has no latencies",
        "highwater bench search FILE --slo 'produce.p99<20ms' --min RATE --out DIR",
    )
    if REPLAYED not in ceilings.costs.known and any(
        topic.replay_bytes_per_s or topic.lag_s for topic in load.topics.values()
    ):
        yield Unknown(
            "the CPU time of reads from the disk: the plan counts that of reads from memory",
            again,
        )


def _many_partitions(work: Work, measured: Measured, ceilings: Ceilings) -> Iterator[Unknown]:
    most = measured.most_of_one_broker("partitions")
    if work.partitions > max(MANY_PARTITIONS, _BEYOND * most):
        how = "goes on in a straight line" if "partitions" in ceilings.costs.known else "counts none of their CPU time"
        yield Unknown(
            f"what {plural(round(work.partitions), 'partition replica')} cost one broker: at most "
            f"{count_text(round(most))} were measured, and the plan {how}",
            f"give {WORKLOAD} a variant with more topics.partitions, and run it again",
            is_beyond_measured=True,
        )


def _beyond_measured(work: Work, measured: Measured) -> Iterator[Unknown]:
    for kind in KINDS:
        planned, most = work.batches_of(kind), measured.most_of_one_broker(f"{kind}_batches")
        if planned > _BEYOND * most > 0:
            yield Unknown(
                f"what {count_text(round(planned))} {kind} batches a second cost one broker: at most "
                f"{count_text(round(most))} were measured. The plan probably has too many brokers, as one request "
                "takes several batches if there are many; this was not tested",
                f"give {WORKLOAD} variants with a higher load.rate, and run it again",
                is_beyond_measured=True,
            )
