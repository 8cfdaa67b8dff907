"""A host whose costs are known, as samples of a benchmark, and loads for it."""

from __future__ import annotations

import math
from typing import Any

from highwater.bench.workload.yaml_document import parse_document
from highwater.common.ceilings import HostClass
from highwater.studies.capacity.ceilings import Ceilings, Cell, DiskSamples, Measured
from highwater.studies.capacity.costs import AMOUNTS, Costs, MeasuredWork, Work, looked_at, traffic
from highwater.studies.capacity.load import Load, load_of

# CPU seconds: 2 ms for a MB and 50 µs for a batch produced, half of that consumed, more replicated; 20 ms each second,
# 30 µs for a partition, 1 ms for a MB from the disk, 80 µs for a batch that is synced; 5 µs for a look for a follower,
# 7 µs for one for a reader.
TRUE_COSTS = (2e-9, 50e-6, 1e-9, 25e-6, 3e-9, 60e-6, 0.02, 30e-6, 1e-9, 80e-6, 5e-6, 7e-6)
KNOWN = frozenset(AMOUNTS)
# … and more for a batch that finds an idle broker, by its size. One that is never idle uses one core.
WAKING_S = (40e-6, 50e-6, 80e-6)
MOST_CORES = 1.0
BATCHES = (4096, 65_536)
MEDIUM = 16_384


def cores(work: Work, factor: float = 1.0) -> float:
    return factor * Costs(TRUE_COSTS, KNOWN, {}, WAKING_S, MOST_CORES).cpu_cores(work)


def closed_loop(batch: int) -> float:
    """Bytes per second that one broker takes when it is never idle."""
    per_byte, per_batch, idle = TRUE_COSTS[0], TRUE_COSTS[1], TRUE_COSTS[6]
    return (MOST_CORES - idle) / (per_byte + per_batch / batch)


def work(
    produced: float,
    batch: int,
    groups: float = 0,
    copies: int = 0,
    *,
    partitions: int = 0,
    replayed: float = 0.0,
    is_synced: bool = False,
) -> Work:
    return traffic(batch, produced, produced * groups, produced * copies, math.ceil(groups)) + Work(
        brokers=copies + 1.0,
        partitions=partitions * (copies + 1.0),
        replayed_bytes=replayed,
        synced_batches=produced / batch * (copies + 1) if is_synced else 0.0,
        looked_at_for_followers=looked_at(produced / batch * copies, partitions * copies, copies * (copies + 1)),
        looked_at_for_readers=looked_at(produced / batch * groups, partitions, copies + 1),
    )


def cell(
    name: str, done: Work, batch: int, noise: float = 0.0, factor: float = 1.0, *, is_closed: bool = False
) -> Cell:
    """Five trials, whose CPU time lies up to `noise` around the true one times `factor`."""
    spread = (-1.0, -0.5, 0.0, 0.5, 1.0)
    seen = tuple(MeasuredWork(done, cores(done, factor) * (1 + noise * each), batch) for each in spread)
    return Cell(name, seen, is_closed)


def measured(noise: float = 0.0, held_out_factor: float = 1.0, **changed: Any) -> Measured:
    cells = []
    for batch in BATCHES:
        cells.append(cell(f"produce-{batch}", work(20e6, batch), batch, noise))
        cells.append(cell(f"read-{batch}", work(8e6, batch, groups=1), batch, noise))
        cells.append(cell(f"copied-{batch}", work(4e6, batch, copies=2), batch, noise))
        cells.append(cell(f"full-{batch}", work(closed_loop(batch), batch), batch, noise, is_closed=True))
        cells.append(cell(f"busy-{batch}", work(closed_loop(batch) / 2, batch), batch, noise))
    cells.append(cell("medium", work(8e6, MEDIUM), MEDIUM, noise))
    cells.append(cell("slowly", work(1e6, BATCHES[1]), BATCHES[1], noise))
    cells.append(cell("partitions", work(8e6, BATCHES[1], partitions=500), BATCHES[1], noise))
    cells.append(cell("many-copied", work(4e6, BATCHES[1], copies=2, partitions=300), BATCHES[1], noise))
    cells.append(cell("many-read", work(4e6, BATCHES[1], groups=1, copies=2, partitions=200), BATCHES[1], noise))
    cells.append(cell("replay", work(20e6, BATCHES[1], replayed=20e6), BATCHES[1], noise))
    cells.append(cell("synced", work(4e6, BATCHES[1], copies=2, is_synced=True), BATCHES[1], noise))
    held_out = cell("held-out-read", work(10e6, 16_384, groups=2), 16_384, noise, held_out_factor)
    known: dict[str, Any] = {
        "host": HostClass("Example CPU", 8, 32 << 30, "6.1.0", "f" * 64),
        "system": "highwater 0",
        "runs": ("results/ceilings",),
        "cells": tuple(cells),
        "held_out": (held_out,),
        "busiest": (0.98, 1.0, 1.0, 1.0, 1.02),
        "disks": (DiskSamples("data", "ssd", "ext4", "", (400e6, 420e6), (500e6, 520e6), (3000.0, 3200.0)),),
        "process_bytes": 100e6,
        "partition_bytes": (20_000.0,),
        "partition_bytes_per_s": (50e6,),
        "trials_used": 45,
        "trials_left_out": 0,
    }
    return Measured(**(known | changed))


def ceilings(**changed: Any) -> Ceilings:
    known: dict[str, Any] = {
        "costs": Costs(
            TRUE_COSTS,
            KNOWN,
            dict.fromkeys(("produced", "consumed", "replicated"), BATCHES),
            WAKING_S,
            MOST_CORES,
        ),
        "cpu_cores": 1.0,
        "disk_write_bytes_per_s": 400e6,
        "disk_read_bytes_per_s": 500e6,
        "process_bytes": 100e6,
        "partition_bytes": 20_000.0,
        "partition_bytes_per_s": None,
    }
    return Ceilings(**(known | changed))


TEXT = """\
schema: capacity.load/1
name: shop
topics:
  orders: {peak: 40MB/s, batch: 32KiB, replication: 3, min_insync_replicas: 2, retention: {time: 1d}, groups: 2}
hosts: {memory: 32GiB, network: 10Gbit/s, disks: {count: 4, size: 4TB}}
"""


def load(text: str = TEXT) -> Load:
    return load_of(parse_document(text, "load.yaml"))


def load_with(topic: dict[str, Any] | None = None, **sections: dict[str, Any]) -> Load:
    """The load of TEXT with fields of its topic, and of its sections, changed."""
    made = load()
    changed = {name: getattr(made, name).model_copy(update=fields) for name, fields in sections.items()}
    topics = {name: each.model_copy(update=topic or {}) for name, each in made.topics.items()}
    return made.model_copy(update={"topics": topics, **changed})
