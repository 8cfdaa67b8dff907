"""Drill how long one hostile request makes other clients wait: the worst inputs of every API.

    python -m tests.drills.bystander
    python -m tests.drills.bystander --only metadata --every-version --bound-ms 20

A broker process gets the largest requests that its APIs allow, one at a time: the longest arrays of equal and of
distinct items, the longest strings, record batches that unfold. Then another broker gets those of a client that may do
nothing. Meanwhile another client asks, writes and reads small things. The longest time that it waited is reported for
each API, without the time in which the event loop could run, but another program had its processor. The exit status
is 1 if that is above the bound for a request in each of three tries, or if the broker ended, hung or had a bug.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.drills.bystander.drill import Failed, Stall, drill


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drills.bystander")
    parser.add_argument("--bound-ms", type=float, default=50.0, help="the longest that the bystander may wait (50)")
    parser.add_argument("--only", default="", help="requests whose API and description contain this text")
    parser.add_argument("--every-version", action="store_true", help="not only the oldest and the newest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bystander-") as directory:
        try:
            result = drill(
                Path(directory),
                wanted=options.only,
                every_version=options.every_version,
                bound_ms=options.bound_ms,
                tell=_tell,
            )
        except Failed as failure:
            sys.stdout.write(f"FAILED: {failure}\n")
            return 1
    sys.stdout.write(f"{result.text()}\n")
    above = [stall for stall in result.stalls if stall.longest_ms > options.bound_ms]
    for stall in above:
        sys.stdout.write(f"FAILED: {stall.api} {stall.version}, {stall.label}: {stall.longest_ms:.0f} ms\n")
    return 1 if above else 0


def _tell(stall: Stall) -> None:
    sys.stdout.write(
        f"{stall.api} {stall.version}, {stall.label}, {stall.size_bytes:,} bytes: {stall.longest_ms:.1f} ms, "
        f"{stall.ended} after {stall.answer_s:.2f} s, {stall.memory_bytes >> 20} MiB\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
