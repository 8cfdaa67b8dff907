"""What every suite shares: the list of the cases that pass, how a case's outcome is told, and the exit status.

A suite is a folder with a command `run` (see README.md) that calls `Report.tell` for each case it has run. Lines of an
allow-list are the names of cases, with the word `slow` behind those that are left out of `run --quick`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError

OUTCOMES_VARIABLE: Final = "HIGHWATER_COMPAT_OUTCOMES"
"""Names the file to which `python -m tests.compat` has the suites append their outcomes."""


@dataclass(frozen=True)
class Outcome:
    case: str
    passed: bool
    seconds: float
    message: str = ""


@dataclass(frozen=True)
class AllowList:
    """The cases of `<suite>/cases.allow`, in its order."""

    cases: tuple[str, ...]
    slow: frozenset[str]

    @classmethod
    def of(cls, suite: Path) -> AllowList:
        lines = (suite / "cases.allow").read_text("utf-8").splitlines()
        lines = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        slow = frozenset(line.removesuffix(" slow").rstrip() for line in lines if line.endswith(" slow"))
        return cls(tuple(line.removesuffix(" slow").rstrip() for line in lines), slow)

    @property
    def quick(self) -> tuple[str, ...]:
        return tuple(case for case in self.cases if case not in self.slow)


def every_case() -> frozenset[str]:
    """The cases of all suites."""
    return frozenset(
        case for path in Path(__file__).parent.glob("*/cases.allow") for case in AllowList.of(path.parent).cases
    )


class Report:
    """The outcomes of one run of one suite."""

    def __init__(self, allowed: AllowList) -> None:
        self._allowed = allowed
        self._outcomes: dict[str, Outcome] = {}

    def tell(self, case: str, passed: bool, seconds: float, message: str = "") -> None:
        """Print the outcome, and hand it to whoever runs all the suites."""
        outcome = self._outcomes[case] = Outcome(case, passed, round(seconds, 1), message)
        verdict = "pass" if passed else f"FAIL: {message}" if case in self._allowed.cases else f"fail: {message}"
        sys.stdout.write(f"{case}: {verdict} ({seconds:.1f} s)\n")
        sys.stdout.flush()
        if path := os.environ.get(OUTCOMES_VARIABLE):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")

    def exit_status(self, wanted: tuple[str, ...]) -> int:
        """1 when a case of `wanted` was not run, or when a case of the allow-list did not pass."""
        missing = [case for case in wanted if case not in self._outcomes]
        for case in missing:
            sys.stdout.write(f"{case}: FAIL: it was not run\n")
        failed = [case for case, told in self._outcomes.items() if case in self._allowed.cases and not told.passed]
        return 1 if missing or failed else 0


def read_outcomes(path: Path) -> list[Outcome]:
    return [Outcome(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def choose(allowed: AllowList, arguments: list[str]) -> tuple[str, ...]:
    """What `run` was asked for: nothing (the allow-list), `--quick` (its quick cases) or names of cases."""
    if arguments == ["--quick"]:
        return allowed.quick
    return tuple(arguments) or allowed.cases


def take_processes(arguments: list[str]) -> tuple[int | None, list[str]]:
    """Take `--processes N` off the arguments of `run`: the broker is one of N processes. None without it."""
    if arguments[:1] != ["--processes"]:
        return None, arguments
    if len(arguments) < 2 or not arguments[1].isdecimal() or int(arguments[1]) < 1:
        raise SystemExit("--processes wants a number from 1 on behind it: --processes 3 [--quick | CASE ...]")
    return int(arguments[1]), arguments[2:]


def run_cases(suite: Path, cases: Mapping[str, Callable[[], None]], arguments: list[str]) -> int:
    """Run the cases that `arguments` ask for and return the exit status: 2 for a case that is unknown."""
    allowed = AllowList.of(suite)
    names = choose(allowed, arguments)
    if unknown := [name for name in names if name not in cases]:
        sys.stderr.write(f"no such case: {', '.join(unknown)}; there are: {', '.join(cases)}\n")
        return 2
    report = Report(allowed)
    for name in names:
        started_s = time.monotonic()
        problem = ""
        try:
            cases[name]()
        except (AssertionError, UsageError, OSError, ValueError, subprocess.SubprocessError) as error:
            problem = " ".join(str(error).split())[:2000] or type(error).__name__
        report.tell(name, not problem, time.monotonic() - started_s, problem)
    return report.exit_status(names)
