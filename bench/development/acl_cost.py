"""What ACLs cost a request, in CPU time.

The broker's code with ACLs and without takes turns in one process.

python -m highwater.bench.development.acl_cost [--rounds 60]

Each request goes from its frame to the buffers of its answer, as in the micro-benchmarks of the same names; with 1,000
ACLs. The differences of the rounds are told by their median and quartiles.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Annotated, Final

import typer

from highwater.bench.development.micro.steps import STEPS, WITH_ACLS

_CALLS: Final = 2000


def main(rounds: Annotated[int, typer.Option(min=20, help="Turns of each side.")] = 60) -> None:
    """Measure what ACLs cost Produce, Fetch and Metadata; takes a minute."""
    typer.echo(f"{rounds} rounds of {_CALLS} requests, load average {os.getloadavg()[0]:.1f}")
    for name in (each for each in STEPS if each + WITH_ACLS in STEPS):
        with STEPS[name]() as without, STEPS[name + WITH_ACLS]() as with_acls:
            off_us: list[float] = []
            on_us: list[float] = []
            for number in range(rounds):
                sides = [(without, off_us), (with_acls, on_us)]
                for call, times_us in sides if number % 2 else reversed(sides):
                    times_us.append(_cpu_us(call))
        more_us = [on - off for on, off in zip(on_us, off_us, strict=True)]
        low_us, _, high_us = quantiles(more_us, n=4)
        typer.echo(
            f"{name}: {median(off_us):.1f} µs without, {median(more_us):+.2f} µs with ACLs "
            f"(quartiles {low_us:+.2f} and {high_us:+.2f})"
        )


def _cpu_us(call: Callable[[], object]) -> float:
    started_s = time.thread_time()
    for _ in range(_CALLS):
        call()
    return (time.thread_time() - started_s) / _CALLS * 1e6


if __name__ == "__main__":
    typer.run(main)
