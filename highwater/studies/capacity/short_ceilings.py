"""A short form of workloads/ceilings.yaml: the cells that a plan needs, within a budget of time."""

from __future__ import annotations

from typing import Any, Final

from highwater.common.errors import UsageError
from highwater.common.quantities import format_duration_s
from highwater.studies.capacity.measured import WORKLOAD

# Records of 1 KiB in a batch, rate, copies, groups, partitions: each as in workloads/ceilings.yaml.
_CELLS: Final[dict[str, tuple[int, str, int, int, int]]] = {
    "full-4KiB": (4, "", 1, 0, 4),
    "one-partition": (64, "", 1, 0, 1),
    "produce-4KiB": (4, "5k/s", 1, 0, 4),
    "produce-16KiB": (16, "12k/s", 1, 0, 4),
    "produce-64KiB": (64, "30k/s", 1, 0, 4),
    "produce-often": (4, "24k/s", 1, 0, 4),
    "copied-4KiB": (4, "1k/s", 3, 0, 4),
    "copied-64KiB": (64, "6k/s", 3, 0, 4),
    "read-4KiB": (4, "1k/s", 3, 1, 4),
    "read-64KiB": (64, "6k/s", 3, 1, 4),
    "many-read": (16, "2500/s", 3, 1, 200),
    "held-out-produce": (32, "32k/s", 1, 0, 4),
    "held-out-read": (16, "2500/s", 3, 2, 4),
}
_WARMUP_S: Final = 1
_LEAST_MEASURE_S: Final = 2
_MOST_MEASURE_S: Final = 8
# Beside warm-up and measurement: start, topics and stop of the broker. fio probes the disk before and after all trials.
_TRIAL_OVERHEAD_S: Final = 3
_PROBES_S: Final = 20
_LEAST_TRIALS: Final = 2
_MOST_TRIALS: Final = 5

LEAST_BUDGET_S: Final = 180
MOST_BUDGET_S: Final = 900


def short_ceilings(budget_s: int) -> dict[str, Any]:
    """A workload file as a document, for about so many seconds on a quiet host. Raises UsageError."""
    if not LEAST_BUDGET_S <= budget_s <= MOST_BUDGET_S:
        raise UsageError(
            f"--measure: {format_duration_s(budget_s)} is not between {format_duration_s(LEAST_BUDGET_S)} and "
            f"{format_duration_s(MOST_BUDGET_S)}; highwater bench run {WORKLOAD} measures everything in half an hour"
        )
    left_s, cells = budget_s - _PROBES_S, len(_CELLS)
    least_trial_s = _TRIAL_OVERHEAD_S + _WARMUP_S + _LEAST_MEASURE_S
    trials = min(max(left_s // (cells * 2 * least_trial_s), _LEAST_TRIALS), _MOST_TRIALS)
    measure_s = left_s // (cells * trials) - _TRIAL_OVERHEAD_S - _WARMUP_S
    return {
        "schema": "bench.workload/1",
        "name": "short-ceilings",
        "purpose": "What do bytes and requests cost a broker of this host, roughly?",
        "answer": {"best": ["system.cpu_s_per_gib"]},
        "topics": {"partitions": 4},
        "producers": {
            "count": 1,
            "driver": "wire",
            "client": {"acks": "all", "linger.ms": 1000, "batch.size": "1MB", "batch.num.messages": 16},
        },
        "consumers": {"groups": 0},
        "records": {"size": "1KiB"},
        "load": {"model": "closed"},
        "phases": {
            "warmup": f"{_WARMUP_S}s",
            "measure": f"{min(max(measure_s, _LEAST_MEASURE_S), _MOST_MEASURE_S)}s",
            "drain": "60s",
        },
        "trials": {"n": trials, "a_a": False},
        "validity": {"send_delay_p99": "1s", "achieved_ratio_min": 0.98, "generator_cpu_ratio_max": 1.0},
        "variants": {name: _variant(*cell) for name, cell in _CELLS.items()},
    }


def _variant(records: int, rate: str, copies: int, groups: int, partitions: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "topics": {"partitions": partitions},
        "producers": {"client": {"batch.num.messages": records}},
        "consumers": {"groups": groups},
    }
    if rate:
        made["load"] = {"model": "open", "rate": rate}
    if copies > 1:
        made["topics"] |= {"replication": copies, "config": {"min.insync.replicas": 2}}
        made["system"] = {"nodes": copies}
    return made
