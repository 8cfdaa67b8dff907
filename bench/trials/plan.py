"""Which trial runs when, how long it all takes and how much disk it needs; known before anything runs.

Order: randomised blocks. Every block holds one trial of each cell in an order drawn from the seed, so that drift of the
host (cache state, disk ageing, neighbours) falls on all cells alike instead of on the one that ran last. With several
cells, one of them runs twice in every block, right after itself: an A/A pair, which measures nothing but the noise.

With `trials.at_once` the trials of a block run beside one another, each in a *lane* of its own, on one processor: what
neighbours do to the host falls on all of them within milliseconds (Bulej et al., Duet Benchmarking, ICPE 2020).
"""

from __future__ import annotations

import random
import re
import secrets
from dataclasses import dataclass

from highwater.bench.workload.model import Workload
from highwater.bench.workload.native import LARGEST_LOAD_BYTES
from highwater.bench.workload.sections import LoadStep
from highwater.bench.workload.specification import Cell, Specification
from highwater.results.models import TrialPlan, TrialRole

# What a trial costs beside its load: broker start, topic, Spark stage, drain, counting. Measured on two shared cores:
# 1.1 to 1.8 s on a host without other work, 1.6 to 6 s with it (medians 2.4 s with processes, 4.8 s with Spark).
TRIAL_OVERHEAD_S = 3
# Starting Spark, once per run.
RUN_OVERHEAD_S = 10
# fio on one target, before the first trial and after the last; the quick one is of runs whose figures are not quoted.
PROBES_S = 12
QUICK_PROBES_S = 5
# Of a record beside its value: record and batch header, index entries; generous.
RECORD_OVERHEAD_BYTES = 32
# Lines of a text file vary; used only where no size is given.
ASSUMED_LINE_BYTES = 1024
# A closed loop has no rate of its own; more than a broker on one host took in any run of ours.
ASSUMED_CLOSED_RATE_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    plan: TrialPlan
    cell: Cell


@dataclass(frozen=True, slots=True)
class Plan:
    """Every trial in the order it will run."""

    specification: Specification
    seed: int
    trials: list[PlannedTrial]

    @property
    def duration_s(self) -> int:
        """Expected wall time. Drains are expected to be short."""
        return RUN_OVERHEAD_S + self.probes_s + sum(self.durations_s)

    @property
    def probes_s(self) -> int:
        """What fio takes on all storage targets, before the first trial and after the last."""
        probed = {
            trial.cell.workload.storage.target
            for trial in self.trials
            if trial.cell.workload.storage.probe and trial.cell.workload.system.kind != "external"
        }
        files = {count for trial in self.trials for count in trial.cell.workload.storage.probe_files}
        each_s = PROBES_S + 2 * len(files) if self.specification.workload.for_measurement else QUICK_PROBES_S
        return len(probed) * each_s

    @property
    def durations_s(self) -> list[int]:
        """What each trial adds to the wall time: of trials that run at once, the first has it all."""
        durations_s = [trial_duration_s(trial.cell.workload) for trial in self.trials]
        if not self.specification.workload.trials.at_once:
            return durations_s
        longest_s: dict[int, int] = {}
        for trial, duration_s in zip(self.trials, durations_s, strict=True):
            longest_s[trial.plan.block] = max(duration_s, longest_s.get(trial.plan.block, 0))
        return [longest_s.pop(trial.plan.block, 0) for trial in self.trials]

    @property
    def cells(self) -> list[Cell]:
        """The cells that have trials."""
        return list({trial.cell.name: trial.cell for trial in self.trials}.values())

    @property
    def lanes(self) -> int:
        """How many trials run at the same time."""
        at_once = self.specification.workload.trials.at_once
        return max(trial.plan.order_in_block for trial in self.trials) if at_once else 1

    @property
    def tasks(self) -> int:
        """Load tasks of the largest cell."""
        return max(trial.cell.workload.tasks for trial in self.trials)

    def log_bytes(self, target: str, *, kept: bool) -> int:
        """Upper bound of what systems write to a storage target: at the same time, or in all the run when kept."""
        sizes: dict[object, int] = {}
        at_once = self.specification.workload.trials.at_once
        for trial in self.trials:
            workload = trial.cell.workload
            if workload.storage.target == target and workload.system.kind != "external":
                there_with = trial.plan.block if at_once else trial.plan.trial_id
                others, size = sizes.get(there_with, 0), trial_log_bytes(workload)
                # Closed loops that share a processor do not get more out of it than one would.
                sizes[there_with] = others + size if workload.load.steps else max(others, size)
        return sum(sizes.values()) if kept else max(sizes.values(), default=0)


@dataclass(frozen=True, slots=True)
class Price:
    """What the set-up costs per hour, as its renter says."""

    per_hour: float
    currency: str

    def __str__(self) -> str:
        return f"{self.per_hour:g} {self.currency} per hour"

    def amount(self, duration_s: float) -> float:
        return self.per_hour * duration_s / 3600

    def of(self, duration_s: float) -> str:
        """`0.42 EUR`"""
        return f"{self.amount(duration_s):.2f} {self.currency}"

    def as_json(self, duration_s: float) -> dict[str, object]:
        return {
            "per_hour": self.per_hour,
            "currency": self.currency,
            "amount": round(self.amount(duration_s), 4),
        }


def make_plan(specification: Specification, seed: int | None = None) -> Plan:
    """Order the trials. The same specification and seed give the same plan."""
    seed = chosen_seed(specification, seed)
    shuffle = random.Random(seed)
    planned: list[PlannedTrial] = []
    for block in range(1, specification.workload.trials.n + 1):
        for order, (cell, role) in enumerate(_block(specification, block, shuffle), start=1):
            planned.append(planned_trial(len(planned) + 1, cell, block=block, order=order, role=role))
    return Plan(specification, seed, planned)


def chosen_seed(specification: Specification, seed: int | None) -> int:
    """The one asked for, else the workload's, else one drawn."""
    if seed is not None:
        return seed
    wanted = specification.workload.trials.seed
    return wanted if wanted is not None else secrets.randbits(32)


def _block(specification: Specification, block: int, shuffle: random.Random) -> list[tuple[Cell, TrialRole]]:
    cells = list(specification.cells)
    shuffle.shuffle(cells)
    roles: list[tuple[Cell, TrialRole]] = [(cell, "measure") for cell in cells]
    # The trials of a single cell are pairs of the same thing as they are.
    if specification.workload.trials.a_a and len(cells) > 1:
        twin = specification.cells[(block - 1) % len(cells)]
        roles.insert(cells.index(twin) + shuffle.randrange(2), (twin, "a_a"))
    return roles


def planned_trial(number: int, cell: Cell, *, block: int, order: int, role: TrialRole = "measure") -> PlannedTrial:
    """One trial of a cell; `number` counts all trials of the run from 1."""
    return PlannedTrial(
        TrialPlan(
            trial_id=_trial_id(number, cell.name, role),
            cell=cell.name,
            factors=cell.factors,
            trial=block,
            block=block,
            order_in_block=order,
            role=role,
            status="planned",
        ),
        cell,
    )


def _trial_id(number: int, cell: str, role: TrialRole) -> str:
    """A folder name: the running number makes it unique and sorts it, the cell makes it readable."""
    readable = re.sub(r"[^A-Za-z0-9._=,+-]+", "-", cell)
    return f"{number:03d}-{readable}"[:116] + ("" if role == "measure" else f"-{role}")


def trial_duration_s(workload: Workload) -> int:
    return workload.phases.warmup_max_s + workload.phases.measure_s + TRIAL_OVERHEAD_S


def trial_log_bytes(workload: Workload) -> int:
    """What the brokers write in one trial, copies included; of a closed loop, what a broker may take."""
    value_bytes = workload.records.size.mean_bytes if workload.records.size else ASSUMED_LINE_BYTES
    if workload.records.trace is not None:
        value_bytes = workload.records.trace.mean_bytes or ASSUMED_LINE_BYTES
    if workload.producers.native and not workload.load.steps:
        size = workload.load.records * value_bytes if workload.load.records else LARGEST_LOAD_BYTES
        return round(size * (1 + RECORD_OVERHEAD_BYTES / value_bytes)) * workload.topics.replication
    steps = workload.load.steps or (LoadStep(ASSUMED_CLOSED_RATE_PER_S, None),)
    records = steps[0].rate_per_s * workload.phases.warmup_max_s
    records += sum(step.rate_per_s * (step.duration_s or workload.phases.measure_s) for step in steps)
    return round(records * (value_bytes + RECORD_OVERHEAD_BYTES)) * workload.topics.replication
