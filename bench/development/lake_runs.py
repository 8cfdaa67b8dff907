"""Makes result directories of many runs from a real one, for the cost of a lake.

Trials of the real run are prolonged to a minute. Histograms are made for some dozens of trials, whose latencies are
spread over a factor of 1.6; every trial of a run is one of these by links, with a summary and verdict of its own.
Digests are right, and the latencies of a summary are those of its histogram logs. Counts and rates are still those of
the real run, which `bench verify` would find.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np

from highwater.bench.results import (
    LATENCY_METRICS,
    EndToEnd,
    Latency,
    Manifest,
    Phase,
    Produce,
    ResultWriter,
    RunResult,
    TrialPlan,
    TrialSummary,
    checksums,
    histogram_path,
    measured_latency,
)
from highwater.bench.results.files import dump
from highwater.bench.results.histogram_log import histogram_of, write_histograms
from highwater.spark_loadgen import Histogram

TRIALS: Final = 12
_WORKLOADS: Final = ("quickstart", "orders", "payments", "clicks", "telemetry")
_CELLS: Final = ("acks=all", "acks=1")
_WARMUP_S: Final = 5
_MEASURE_S: Final = 60
_SAMPLES_PER_S: Final = 2000
_KINDS: Final = 16
_FIRST_DAY: Final = datetime(2025, 1, 1, tzinfo=UTC)
_DAYS: Final = 360
# Typical latency of each metric in ns.
_TYPICAL_NS: Final = {
    "produce_response": 3_000_000,
    "produce_service": 2_800_000,
    "send_delay": 60_000,
    "e2e_response": 4_000_000,
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A trial that others are made of: its folder, and the latencies that its histogram logs have."""

    folder: Path
    summary: TrialSummary


class RunMaker:
    """Makes runs below `folder` from the real run `template`, which must have a finished trial with consumers."""

    def __init__(self, template: Path, folder: Path, seed: int = 23) -> None:
        self._result = RunResult(template)
        self._folder = folder
        self._chooser = random.Random(seed)
        self._random = np.random.default_rng(seed)
        writer = ResultWriter(folder / "kinds")
        self._kinds = [self._kind(writer, number) for number in range(_KINDS)]

    def _kind(self, writer: ResultWriter, number: int) -> _Kind:
        trial = self._result.trials[number % len(self._result.trials)]
        phases = [
            Phase(name="warmup", start_s=0, end_s=_WARMUP_S),
            Phase(name="measure", start_s=_WARMUP_S, end_s=_WARMUP_S + _MEASURE_S),
            Phase(name="drain", start_s=_WARMUP_S + _MEASURE_S, end_s=_WARMUP_S + _MEASURE_S + 1),
        ]
        folder = writer.trial_directory(f"kind{number}")
        slower = 1 + 0.6 * number / _KINDS
        found: dict[str, Latency] = {}
        for metric in LATENCY_METRICS:
            histograms = {}
            for second in range(_WARMUP_S + _MEASURE_S):
                logs = self._random.normal(np.log(_TYPICAL_NS[metric] * slower), 0.5, _SAMPLES_PER_S)
                made = Histogram.of_values(np.exp(logs).astype(np.int64))
                histograms[second] = histogram_of(made.indices, made.counts)
            write_histograms(histogram_path(folder, metric), histograms)
            found[metric] = measured_latency(folder, metric, phases)
        summary = trial.summary.model_copy(
            update={
                "trial_id": f"kind{number}",
                "phases": phases,
                "produce": Produce(
                    response_ns=found["produce_response"],
                    service_ns=found["produce_service"],
                    send_delay_ns=found["send_delay"],
                ),
                "e2e": EndToEnd(response_ns=found["e2e_response"], clock="same_host_monotonic", negative_samples=0),
                "verdict": trial.summary.verdict.model_copy(update={"state": "valid", "reasons": []}),
            }
        )
        windows, host = trial.windows(), trial.host_samples()
        seconds = range(_WARMUP_S + _MEASURE_S + 1)
        writer.write_trial(
            summary,
            [windows[second % len(windows)].model_copy(update={"second": second}) for second in seconds],
            [host[second % len(host)].model_copy(update={"second": second}) for second in seconds],
            trial.partitions(),
            trial.events(),
        )
        return _Kind(folder, summary)

    def make(self, number: int, of: int) -> Path:
        """The run with this number of `of` runs, which are spread over a year. Returns its directory."""
        created = _FIRST_DAY + timedelta(days=_DAYS * number / of)
        directory = self._folder / f"run{number:05d}"
        writer = ResultWriter(directory)
        plans = _plans()
        base = self._result.manifest
        created_utc = created.isoformat(timespec="seconds").replace("+00:00", "Z")
        update = {
            "name": _WORKLOADS[number % len(_WORKLOADS)],
            "created_utc": created_utc,
            "finished_utc": created_utc,
            "seed": number,
            "status": "done",
            "trials": plans,
            "workload": base.workload | {"name": _WORKLOADS[number % len(_WORKLOADS)]},
            "git": {"commit": f"{number:040x}", "dirty": False},
        }
        manifest = Manifest.model_validate(base.model_dump(by_alias=True) | update)
        # Something becomes slower in the last third of the year.
        lowest = 6 if number > 2 * of / 3 else 0
        for plan in plans:
            self._trial(writer, plan, self._kinds[lowest + self._chooser.randrange(_KINDS - lowest)])
        (directory / "manifest.json").write_text(dump(manifest), "utf-8")
        (directory / "env.json").write_text(dump(self._result.environment), "utf-8")
        checksums.write(directory)
        return directory

    def _trial(self, writer: ResultWriter, plan: TrialPlan, kind: _Kind) -> None:
        jitter = self._chooser.uniform(0.98, 1.02)
        host, response = kind.summary.host, kind.summary.produce.response_ns
        busy = min(1.0, response.p999 / 40_000_000 * jitter)
        summary = kind.summary.model_copy(
            update={
                "trial_id": plan.trial_id,
                "cell": plan.cell,
                "factors": plan.factors,
                "trial": plan.trial,
                "block": plan.block,
                "order_in_block": plan.order_in_block,
                "role": plan.role,
                "achieved_per_s": kind.summary.achieved_per_s * jitter,
                "host": host.model_copy(update={"cpu_ratio": busy}),
            }
        )
        folder = writer.trial_directory(plan.trial_id)
        shutil.rmtree(folder)
        shutil.copytree(kind.folder, folder, copy_function=os.link)
        for name, model in (("summary.json", summary), ("verdict.json", summary.verdict)):
            (folder / name).unlink()
            (folder / name).write_text(dump(model), "utf-8")


def _plans() -> list[TrialPlan]:
    """Four blocks: both cells, and an A/A twin of one."""
    plans: list[TrialPlan] = []
    for block in range(1, TRIALS // 3 + 1):
        cells: Sequence[tuple[str, str]] = [("measure", _CELLS[0]), ("measure", _CELLS[1]), ("a_a", _CELLS[block % 2])]
        for order, (role, cell) in enumerate(cells, start=1):
            axis, value = "producers.client.acks", cell.partition("=")[2]
            plan = {
                "trial_id": f"b{block}-{order}",
                "cell": cell,
                "factors": {axis: value},
                "trial": block,
                "block": block,
                "order_in_block": order,
                "role": role,
                "status": "done",
            }
            plans.append(TrialPlan.model_validate(plan))
    return plans
