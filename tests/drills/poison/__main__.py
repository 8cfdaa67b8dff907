"""Drill every decoder with poison: any bytes are a value, or one error that names them.

    python -m tests.drills.poison --inputs 20000
    python -m tests.drills.poison --only avro-value --seed 7
    python -m tests.drills.poison --only avro-value --seed 7 --input 4711

Each decoder runs in a process of its own, whose peak of memory is reported. The exit status is 1 if a decoder raised
what it may not raise, if its process ended, if one input took more than `MOST_S` of CPU time, or if the process grew
beyond `MOST_BYTES`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.drills.poison.decoders import DECODERS, decoder_of
from tests.drills.poison.drill import Result, drill

MOST_S: Final = 5.0
MOST_BYTES: Final = 1 << 30
_SHOWN: Final = 5
_ROOT: Final = Path(__file__).resolve().parents[3]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drills.poison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=20_000, help="for each decoder (20,000)")
    parser.add_argument("--only", choices=sorted(DECODERS), action="append", help="this decoder alone; several times")
    parser.add_argument("--input", type=int, default=None, help="this input alone, of the decoder of --only")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only or list(DECODERS)
    first, count = (0, options.inputs) if options.input is None else (options.input, 1)
    if options.child:
        (name,) = names
        result = drill(decoder_of(name), options.seed, first, count, begins=_report_begin)
        _print(json.dumps(dataclasses.asdict(result)))
        return 0
    is_bad = False
    for name in names:
        result, fault = _in_a_process(name, options.seed, first, count)
        _print(result.line() if not fault else f"{name}: {fault}")
        for failure in result.failures[:_SHOWN]:
            _print(f"  {failure}")
        if result.failures or fault:
            is_bad = True
            _print(f"  again: python -m tests.drills.poison --only {name} --seed {options.seed} --input NUMBER")
    return int(is_bad)


def _in_a_process(name: str, seed: int, first: int, count: int) -> tuple[Result, str]:
    """The result, and what is wrong beside failures of inputs."""
    command = [sys.executable, "-m", "tests.drills.poison", "--child", "--only", name, "--seed", str(seed)]
    command += ["--inputs", str(count)] if first == 0 and count != 1 else ["--input", str(first)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
        begun = [line for line in lines if line.isdecimal()]
        why = done.stderr.strip().splitlines()[-1:] or ["without a word"]
        return Result(name, seed), f"its process ended with {done.returncode} at about input {begun[-1:]}: {why[0]}"
    result = Result(**json.loads(lines[-1]))
    if result.slowest_s > MOST_S:
        return result, f"input {result.slowest_input} took {result.slowest_s:.1f} s of CPU time"
    if result.peak_bytes > MOST_BYTES:
        return result, f"its process grew to {result.peak_bytes >> 20} MiB"
    return result, ""


def _report_begin(number: int) -> None:
    if number % 50 == 0:
        _print(str(number))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
