"""Runs each micro-benchmark in a process of its own, with pyperf."""

from __future__ import annotations

from time import perf_counter

import pyperf

from tools.micro.steps import STEPS, Step


def timed(loops: int, step: Step) -> float:
    """Seconds that `loops` calls took; what a step needs is made before and removed after."""
    with step() as call:
        numbers = range(loops)
        started = perf_counter()
        for _ in numbers:
            call()
        return perf_counter() - started


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "tools.micro"))
    runner.metadata["description"] = "Steps of the broker's hot path"
    for name, step in STEPS.items():
        runner.bench_time_func(name, timed, step)


if __name__ == "__main__":
    main()
