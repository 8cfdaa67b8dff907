"""How long check and plan take on a host with 200 disks and 64 queues: `python -m tests.tuning.big_host`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from highwater.tuning.catalogue import KNOBS
from highwater.tuning.check import evaluate
from highwater.tuning.facts import Facts, collect
from highwater.tuning.planning import make_plan
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import make_big_host

_DISKS = 200
_REPETITIONS = 5


def main() -> None:
    workload = Workload(data_dirs=tuple(f"/data/{number}" for number in range(_DISKS)))
    with tempfile.TemporaryDirectory() as folder:
        root = make_big_host(Path(folder), disks=_DISKS)

        def check() -> tuple[Facts, int]:
            facts = collect(root)
            return facts, len(evaluate(facts, workload))

        def plan() -> tuple[Facts, int]:
            facts = collect(root)
            return facts, len(make_plan(facts, workload, KNOBS).steps)

        print(f"facts  {_median(lambda: collect(root)):.3f} s")
        print(f"check  {_median(check):.3f} s  {check()[1]} reports")
        print(f"plan   {_median(plan):.3f} s  {plan()[1]} steps")


def _median(work: Callable[[], object]) -> float:
    return statistics.median(_seconds(work) for _ in range(_REPETITIONS))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
