"""What a case is, and the small real run whose files the cases show to other tools."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final

import yaml

CASES: Final[dict[str, Callable[[], None]]] = {}
WORKLOAD: Final = {
    "schema": "bench.workload/1",
    "name": "judged",
    "purpose": "What do other tools make of our files?",
    "for_measurement": False,
    "topics": {"partitions": 2},
    "producers": {"count": 1, "client": {"acks": "all", "linger.ms": 5}},
    "consumers": {"per_group": 1},
    "records": {"size": "256B"},
    "load": {"rate": "1000/s"},
    "phases": {"warmup": "1s", "measure": "2s", "drain": "10s"},
    "trials": {"n": 1, "a_a": False},
    # A busy host makes no figure wrong that another tool computes from the same file.
    "validity": {"send_delay_p99": "10s", "achieved_ratio_min": 0.5},
}
_temporary: Final = ExitStack()


def case(check: Callable[[], None]) -> Callable[[], None]:
    CASES[check.__name__.replace("_", "-")] = check
    return check


@cache
def judged_run() -> Path:
    """The result directory of a run over a broker of ours, made when the first case asks for it."""
    directory = temporary_directory()
    workload, result = directory / "workload.yaml", directory / "result"
    workload.write_text(yaml.safe_dump(WORKLOAD), "utf-8")
    highwater("bench", "run", str(workload), "--out", str(result), "--launcher", "process", "--quiet")
    return result


def temporary_directory() -> Path:
    """Gone after the last case."""
    return Path(_temporary.enter_context(tempfile.TemporaryDirectory(prefix="highwater-compat-")))


def clean_up() -> None:
    _temporary.close()


def highwater(*arguments: str) -> str:
    return printed_by(sys.executable, "-m", "highwater", *arguments)


def printed_by(*command: str | Path) -> str:
    """What a command printed on standard output. Raises AssertionError when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    said = (done.stderr + done.stdout)[-800:]
    assert done.returncode == 0, f"{' '.join(words[:6])} ended with {done.returncode}: {said}"
    return done.stdout
